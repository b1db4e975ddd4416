/* tls.h: TLS over one stream of bytes, without a socket: nothing here reads, writes or
 * waits.
 *
 *     ciphertext --tls_feed--> +-----+ --tls_read---> plaintext
 *     ciphertext <--tls_out--- | tls | <--tls_write-- plaintext
 *                              +-----+
 *
 *     HANDSHAKE --tls_read--> ESTABLISHED --tls_read fails, tls_end--> over
 *
 * One turn of its owner: feed what the socket gave; read until nothing comes; write
 * what is to be said once it is established; send what tls_out holds, also after a
 * failure, because it may be the alert that tells the other end why.
 *
 * Bounds. What was fed is used up by reading, so no ciphertext waits here but the
 * record that is not whole yet (17 KiB); what is read is never more than what was fed.
 * tls_out grows by what was written and, at most by as much, by what was fed: its owner
 * counts it among its unsent bytes and stops feeding. Before it is established a
 * stranger gets TLS_HANDSHAKE_BYTES; the time is up to the owner.
 *
 * TLS 1.2 and 1.3, ciphers with forward secrecy and authenticated encryption only; no
 * renegotiation, no resumption, no compression, no early data. */
#ifndef HF_PROTO_TLS_H
#define HF_PROTO_TLS_H

#include "proto/buffer.h"
#include "proto/slice.h"
#include "proto/status.h"

#include <stdint.h>

#define TLS_HANDSHAKE_BYTES (64u << 10) /* fed before it is established, and one feed  \
                                         */
#define TLS_WHY 256u
/* Changes of keys that one end may ask for: each costs more than the bytes that ask. */
#define TLS_KEY_UPDATES 1000u
/* What OpenSSL takes for one connection, handshake over, nothing on the way: measured,
 * for accounts of memory. */
#define TLS_OBJECT_BYTES (16u << 10)

enum tls_end { TLS_ACCEPT, TLS_CONNECT };

/* Certificates of those who connect: not asked for, verified when they show one, or
 * required. */
enum tls_demand { TLS_DEMAND_NONE, TLS_DEMAND_OFFERED, TLS_DEMAND_ALWAYS };

/* Files in PEM. */
struct tls_options {
    const char *cert; /* own certificate, then the intermediate ones; NULL = none */
    const char *key;  /* its private key, without a passphrase */
    const char *ca;   /* authorities to trust */
    bool system_ca;   /* without ca: those of the system, which takes 0.1 s to read */
    enum tls_demand demand;
    bool insecure; /* whom we connect to may be anybody */
};

/* Certificates and rules: what a connection begins with. May be shared by threads. */
struct tls_context;
/* One end of one connection. */
struct tls;

/* Read the files. HF_E_INVALID_ARGUMENT: they cannot be used. HF_E_MEMORY_LOW. `why`:
 * which, why, and what to do. */
int tls_context_open(const struct tls_options *options, struct tls_context **out,
                     char *why, size_t size);
/* Its connections live on. Accepts NULL. */
void tls_context_close(struct tls_context *c);
/* Unix seconds when the own certificate expires; 0: there is none. */
int64_t tls_context_expires(const struct tls_context *c);

/* `name` is what the certificate of whom we connect to must be for: a host name or an
 * address; NULL: any that its authority made. Connecting puts the first bytes to say
 * into tls_out. NULL: out of memory. */
struct tls *tls_open(struct tls_context *c, enum tls_end end, const char *name);
/* Accepts NULL. */
void tls_close(struct tls *t);

/* Ciphertext, borrowed until tls_read has used it up. What was fed before is. */
void tls_feed(struct tls *t, const uint8_t *data, size_t len);
/* The next plaintext; *n = 0: all is used up. Also drives the handshake. After a
 * failure, always the same: HF_E_CLOSED: the other end has ended the stream in order.
 * HF_E_AUTH_FAILED: a certificate, of either end, is not accepted by the other.
 * HF_E_PROTOCOL: this is not TLS as we speak it. HF_E_MEMORY_LOW. tls_why says more. */
int tls_read(struct tls *t, uint8_t *room, size_t capacity, size_t *n);

/* Only when established. All of it goes into tls_out. HF_E_MEMORY_LOW, HF_E_CLOSED: the
 * connection is over. */
int tls_write(struct tls *t, const void *data, size_t len);
/* Nothing more will be written: tell the other end. */
void tls_end(struct tls *t);

/* Ciphertext to send. The owner takes from it as it likes, or exchanges it. */
struct op_buffer *tls_out(struct tls *t);

bool tls_established(const struct tls *t);
/* It is, and the other end has shown a certificate that was verified. */
bool tls_knows_peer(const struct tls *t);
/* The first byte that came was no TLS. */
bool tls_is_plain(const struct tls *t);
/* What went wrong, as a clause about the other end: "its certificate has expired ...";
 * "" while nothing did. Borrowed. */
const char *tls_why(const struct tls *t);
/* Memory held, for the accounts of a server. */
size_t tls_bytes(const struct tls *t);

#endif
