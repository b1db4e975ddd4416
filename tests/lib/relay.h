/* relay.h: the wires between nodes, in the hands of a test.
 *
 * Every node is reached by the others through a relay, so that each direction of
 * each pair can be cut without root. Addresses of nodes are part of the replicated
 * membership, so there is one relay per node that is reached; who connected is found
 * out by asking the kernel which process owns the other end.
 *
 * A cut holds bytes back, as a dead network does to TCP: nothing is lost from the
 * stream, nothing is closed, connections can still be opened but stay silent.
 * Healing closes what was held back. One thread serves all.
 *
 * A delay holds each piece of at most 64 KiB back for so long before the next is
 * taken, so that a slow link is also a narrow one, as with a small TCP window. */
#ifndef HF_TESTS_LIB_RELAY_H
#define HF_TESTS_LIB_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RELAY_NODES 10

struct relay;

struct relay *relay_start(void);
/* Close everything and end the thread. Accepts NULL. */
void relay_stop(struct relay *r);

/* Listen on `port` for whatever connects to node `to`, and pass it on to `target`. */
void relay_link(struct relay *r, int to, uint16_t port, uint16_t target);

/* Connections that this process opens from now on are node `node`'s. */
void relay_node(struct relay *r, int node, pid_t pid);

/* Hold back what `from` sends to `to`, in whichever connection; or let it flow
 * again. */
void relay_cut(struct relay *r, int from, int to, bool cut);

/* What `from` sends to `to` arrives this much later; 0 = at once. */
void relay_delay(struct relay *r, int from, int to, int ms);

#endif
