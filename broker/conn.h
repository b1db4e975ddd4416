/* conn.h: one client connection: bytes in, bytes out, back-pressure both ways.
 *
 * Reading stops while LIMIT_REQUESTS_IN_FLIGHT requests wait for their answers, or more
 * than LIMIT_OUT_SOFT_BYTES of answers are not sent; it goes on when that is over.
 *
 * The connection ends when the peer closes it or it breaks: at once, and whatever waits
 * is cancelled; half-closing is closing.
 *
 * It ends above LIMIT_OUT_HARD_BYTES of unsent answers, or when the peer has read
 * nothing for CONN_STALL_MS while answers wait.
 *
 * It ends without an accepted hello, and login where one is wanted, CONN_HELLO_MS after
 * it began; and when its user is no longer who logged in, or lost the right to what it
 * waits for.
 *
 * With TLS the handshake counts against that time, and bytes against the bounds of
 * tls.h; certificates that are not accepted end it with an alert, plain text with an
 * answer in plain text. Ciphertext counts as unsent answers do.
 *
 * It ends after bytes that are not the protocol: one answer, flushed, then the end of
 * the stream; what still comes in is thrown away for at most CONN_LINGER_MS, so that
 * the answer is not lost to a reset.
 *
 * A peer that has vanished without a word is noticed within CONN_VANISHED_MS (TCP
 * keepalive and TCP_USER_TIMEOUT).
 *
 * Answers of one turn of the loop go out with one write: conn_set_flush, called before
 * the loop polls. */
#ifndef HF_BROKER_CONN_H
#define HF_BROKER_CONN_H

#include "broker/dispatch.h"
#include "proto/frame.h"
#include "proto/tls.h"

#define CONN_HELLO_MS    10000
#define CONN_STALL_MS    30000
#define CONN_LINGER_MS   1000
#define CONN_VANISHED_MS 30000
#define CONN_TRIM_MS     5000  /* memory of a quiet connection is given back after */
#define CONN_HELLO_BYTES 4096u /* longest frame before the hello */

struct conn;

/* All connections of a server. */
struct conn_set {
    uv_loop_t *loop;
    struct dispatch *dispatch;
    struct metrics *metrics;
    struct tls_context *tls; /* of connections to come; set and exchanged by the owner,
                                NULL = plain text */
    struct conn *first;
    struct conn *dirty; /* have answers to send, or may read again */
    struct conn *dirty_last;
    uint32_t dirty_count;
    uint64_t hello_ms; /* CONN_HELLO_MS; tests are less patient */
    uint64_t stall_ms; /* CONN_STALL_MS */
    uint32_t count;
    uint32_t max;
    uint64_t unsent;     /* bytes of answers that clients have not taken, of all */
    uint64_t unsent_max; /* above it receives and reads are refused; 0 = no bound */
    bool again; /* a flush handled requests: the loop must turn once more without
                   sleeping */
    uv_stream_t
        *listener; /* a connection waits there that found no memory; NULL = none */
    void (*empty)(void *ctx); /* after conn_set_finish: the last one is gone */
    void *ctx;
};

void conn_set_init(struct conn_set *set, uv_loop_t *loop, struct dispatch *dispatch,
                   struct metrics *metrics, uint32_t max);

/* Accept what waits on the listener. Above set->max the connection is closed at once.
 */
void conn_accept(struct conn_set *set, uv_stream_t *listener);

/* Send what was answered in this turn, and go on reading where it had been stopped.
 * True: there is more to do, the loop must not sleep. */
bool conn_set_flush(struct conn_set *set);

/* Once a second: close what overstays its times, give back memory. */
void conn_set_sweep(struct conn_set *set);

/* Memory held by buffers. */
size_t conn_set_bytes(const struct conn_set *set);

/* The server stops: flush each connection and close it; `empty` is called when all are
 * gone (at once if there is none). */
void conn_set_finish(struct conn_set *set, void (*empty)(void *ctx), void *ctx);
/* Close all of them now. */
void conn_set_abort(struct conn_set *set);

#endif
