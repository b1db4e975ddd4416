/* certificates.h: the TLS of a node as its options say: files read, and read again
 * while it runs. */
#ifndef HF_BROKER_CERTIFICATES_H
#define HF_BROKER_CERTIFICATES_H

#include "broker/config.h"
#include "proto/tls.h"

/* NULL: plain text. */
struct certificates {
    struct tls_context *client; /* of the client port */
    struct tls_context *peer;   /* between nodes */
};

/* Read the files that the options name. HF_E_INVALID_ARGUMENT, HF_E_MEMORY_LOW: *out is
 * as it was, and error says why. */
int certificates_load(const struct config *config, struct certificates *out,
                      struct config_error *error);
/* The same for a node that runs: the old ones are exchanged for what can be used, which
 * an expired certificate cannot; connections that are open keep them. */
int certificates_reload(const struct config *config, struct certificates *c,
                        struct config_error *error);
void certificates_done(struct certificates *c);

/* Unix seconds when the first of the node's own certificates expires; 0: it has none.
 */
int64_t certificates_expire(const struct certificates *c);

#endif
