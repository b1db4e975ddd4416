/* login.h: a client says who it is: its credentials, and one exchange with one node.
 *
 *   login_begin --request--> node --reply--> login_step --request--> ... LOGIN_DONE
 *
 * Sends nothing itself. The key that is derived from the password is kept, so that
 * further nodes and later connections cost nothing. */
#ifndef HF_PROTO_LOGIN_H
#define HF_PROTO_LOGIN_H

#include "proto/op.h"
#include "proto/scram.h"

/* Zero: nobody. */
struct login {
    char *user; /* with a password */
    char *password;
    char *token; /* or this */
    struct scram_keys keys;
};

/* Takes copies; NULL for what is not given. HF_E_INVALID_ARGUMENT: `why` (size bytes)
 * says what does not fit. HF_E_MEMORY_LOW. */
int login_init(struct login *l, const char *user, const char *password,
               const char *token, char *why, size_t size);
/* Wipes what it held. */
void login_done(struct login *l);

struct login_exchange {
    enum op_code op; /* of the request that is out */
    struct scram_client scram;
    uint8_t out[LIMIT_AUTH_PAYLOAD];
};

enum login_result { LOGIN_MORE, LOGIN_DONE, LOGIN_FAILED };

/* The first request to a node that takes these mechanisms (op_hello_reply.auth).
 * `private`: nobody can listen to the connection; without that a token is not shown.
 * LOGIN_MORE: `request` is to be sent; it borrows from both. LOGIN_FAILED: `why` says
 * what is missing. */
enum login_result login_begin(struct login *l, struct login_exchange *x,
                              struct slice mechanisms, bool private,
                              struct op_request *request, char *why, size_t size);
/* What the node said to the last one. */
enum login_result login_step(struct login *l, struct login_exchange *x,
                             const struct op_reply *reply, struct op_request *request,
                             char *why, size_t size);

#endif
