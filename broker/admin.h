/* admin.h: HTTP on its own port, for people and their monitoring.
 *
 *     GET /healthz       200 while the process lives, also while it loads its state
 *     GET /readyz        200 when a leader is known and this node is not behind;
 *                        else 503 and the reason
 *     GET /metrics       text for Prometheus
 *     GET /              the console page
 *     GET /api/status    JSON: this node and the members
 *     GET /api/queues    JSON: ?after=NAME&limit=N
 *
 * libmicrohttpd without threads of its own: its epoll descriptor is watched by the
 * loop. Only while the state is being loaded, when the loop does not turn yet, a thread
 * answers (healthz 200, everything else 503). */
#ifndef HF_BROKER_ADMIN_H
#define HF_BROKER_ADMIN_H

#include "broker/metrics.h"
#include "raftlog/raftlog.h"

struct admin;

struct admin_calls {
    /* False: `why` says what is missing. */
    bool (*ready)(void *ctx, char *why, size_t size);
    void (*metrics)(void *ctx, struct op_buffer *out);
    void (*status)(void *ctx, struct raftlog_status *status,
                   struct op_node_status_reply *node, struct metrics_gauges *gauges);
    const struct metrics *(*counters)(void *ctx);
    /* As applied here. *stale: this node does not lead. */
    void (*queues)(void *ctx, const struct op_stats *op, struct arena *arena,
                   struct op_reply *reply, bool *stale);
};

/* Listen on HOST:PORT and answer from a thread that the node is starting. HF_E_IO,
 * HF_E_MEMORY_LOW: `why` says what failed. */
int admin_open(const char *address, struct admin **out, char *why, size_t size);

/* From now on answer from the loop. */
int admin_attach(struct admin *a, uv_loop_t *loop, const struct admin_calls *calls,
                 void *ctx);

/* The memory goes when the loop has turned (or at once when it was never attached).
 * Accepts NULL. */
void admin_close(struct admin *a);

#endif
