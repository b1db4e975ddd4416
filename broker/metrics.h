/* metrics.h: counters and histograms of one node, and their text form for Prometheus.
 *
 * Counters only grow; gauges are read when the text is asked for (struct
 * metrics_gauges, filled by the server). Histograms count in steps of 1, 2, 5 per
 * decade from 10 microseconds to 50 seconds. All names stand in docs/operations.md; a
 * test compares. */
#ifndef HF_BROKER_METRICS_H
#define HF_BROKER_METRICS_H

#include "proto/buffer.h"
#include "proto/limits.h"
#include "proto/op.h"

#include <stdint.h>

/* X(field, name, help) */
#define METRICS_COUNTERS(X)                                                            \
    X(connections_accepted, "connections_accepted_total",                              \
      "Client connections accepted")                                                   \
    X(connections_refused, "connections_refused_total",                                \
      "Client connections closed at once: at max-connections")                         \
    X(connections_slow, "connections_slow_total",                                      \
      "Connections closed because the peer did not read its answers")                  \
    X(connections_bad, "connections_bad_total",                                        \
      "Connections closed because of bytes that are not the protocol")                 \
    X(tls_failed, "tls_failed_total",                                                  \
      "Connections closed because TLS could not be agreed upon, or broke")             \
    X(connections_idle, "connections_idle_total",                                      \
      "Connections closed because no hello came in time")                              \
    X(logins, "logins_total", "Sessions that proved who they are")                     \
    X(logins_failed, "logins_failed_total",                                            \
      "Wrong passwords and tokens, and broken logins")                                 \
    X(access_denied, "access_denied_total", "Requests refused for want of a right")    \
    X(rate_limited, "rate_limited_total",                                              \
      "Requests refused at max-requests-per-second")                                   \
    X(bytes_received, "received_bytes_total", "Bytes read from clients")               \
    X(bytes_sent, "sent_bytes_total", "Bytes written to clients")                      \
    X(reads_paused, "reads_paused_total",                                              \
      "Times reading from a connection was paused by back-pressure")                   \
    X(messages_sent, "messages_sent_total", "Messages stored by sends answered here")  \
    X(messages_duplicate, "messages_duplicate_total",                                  \
      "Entries of sends that were known already")                                      \
    X(messages_delivered, "messages_delivered_total",                                  \
      "Messages handed to consumers here")                                             \
    X(messages_settled, "messages_settled_total",                                      \
      "Acks, extends, releases and failures that succeeded here")                      \
    X(receives_empty, "receives_empty_total", "Receives answered with no message")     \
    X(receives_parked, "receives_parked_total", "Receives that had to wait")           \
    X(claims_empty, "claims_empty_total",                                              \
      "Receives that went through the log and found nothing")                          \
    X(undelivered, "undelivered_total",                                                \
      "Messages given back because the receiver was gone")                             \
    X(fires, "fires_total", "FIRE commands applied here as leader")                    \
    X(terms_served, "terms_served_total", "Times this node began to serve as leader")

/* X(field, name, help): histograms, in seconds. */
#define METRICS_HISTOGRAMS(X)                                                          \
    X(commit, "commit_seconds",                                                        \
      "From reading a command (receives apart) to its outcome")                        \
    X(lateness, "fire_lateness_seconds",                                               \
      "From the due time of a queue's earliest message to the FIRE applied")           \
    X(loop, "loop_turn_seconds", "A turn of the event loop, without its sleep")        \
    X(loop_cpu, "loop_turn_cpu_seconds", "Processor time of a turn of the event loop") \
    X(wait, "receive_wait_seconds", "How long receives that waited did so")

#define METRICS_BUCKETS 21u
#define METRICS_OPS     128u

struct histogram {
    uint64_t buckets[METRICS_BUCKETS + 1]; /* the last: above all bounds */
    uint64_t count;
    uint64_t sum_us;
};

struct metrics {
#define X(field, name, help) uint64_t field;
    METRICS_COUNTERS(X)
#undef X
#define X(field, name, help) struct histogram field;
    METRICS_HISTOGRAMS(X)
#undef X
    struct histogram requests[METRICS_OPS]; /* by operation number */
    uint64_t refusals[64];                  /* by wire number of the status */
};

/* X(field, type, name, help): what is read when asked. */
#define METRICS_GAUGES(X)                                                              \
    X(up_seconds, "uptime_seconds", "Since the process began")                         \
    X(is_leader, "leader", "1 while this node serves as leader")                       \
    X(leader_id, "leader_id", "Node id of the leader this node knows, 0 = none")       \
    X(term, "term", "Raft term")                                                       \
    X(applied, "applied_index", "Last log entry applied")                              \
    X(commit, "commit_index", "Last log entry known to be committed")                  \
    X(last_index, "last_index", "Last log entry stored")                               \
    X(first_index, "first_index", "First log entry still kept")                        \
    X(digest_index, "digest_index", "Index of the newest digest computed here")        \
    X(log_bytes, "log_bytes", "Bytes of log since the last snapshot")                  \
    X(store_bytes, "store_bytes", "Bytes used in the store")                           \
    X(disk_free_bytes, "disk_free_bytes", "Free space where the data directory is")    \
    X(disk_low, "disk_low", "1 while sends are refused for lack of space")             \
    X(letters_parked, "dead_letters_parked_total",                                     \
      "Dead letters parked because their dead-letter queue is full or gone")           \
    X(entries, "log_entries_total", "Entries proposed here")                           \
    X(commands, "log_commands_total", "Commands proposed here")                        \
    X(log_writes, "log_writes_total", "Synced writes of the log")                      \
    X(in_flight, "log_in_flight", "Entries proposed and not yet applied")              \
    X(quorum_age_ms, "quorum_age_milliseconds",                                        \
      "Since a majority last confirmed this leader")                                   \
    X(clock_gap_ms, "clock_gap_milliseconds", "Wall clock minus cluster time")         \
    X(connections, "connections", "Client connections open")                           \
    X(waiters, "waiters", "Receives that wait")                                        \
    X(requests_in_flight, "requests_in_flight", "Requests that wait for the log")      \
    X(armed, "timers", "Queues and waiting receives in the timing wheel")              \
    X(overdue_ms, "overdue_milliseconds",                                              \
      "How long the most overdue queue has waited to be fired")                        \
    X(buffer_bytes, "connection_buffer_bytes",                                         \
      "Memory held for bytes in and out of connections")                               \
    X(certificate_expires_s, "tls_certificate_expires_seconds",                        \
      "Unix time when the first of the node's own certificates expires, 0 = none")

struct metrics_gauges {
#define X(field, name, help) int64_t field;
    METRICS_GAUGES(X)
#undef X
};

void histogram_add(struct histogram *h, uint64_t us);

/* The upper bound of the bucket in which the given fraction (0..1) of the values ends,
 * in microseconds; 0 when it is empty; UINT64_MAX when above all bounds. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

/* One request answered: how long it took and with which status. */
void metrics_request(struct metrics *m, unsigned op, int status, uint64_t us);

/* Append the text; `queues` (may be NULL) adds ready, leased, scheduled, parked and
 * bytes of each of them, labelled by name. A failed allocation leaves out->failed set.
 */
void metrics_text(const struct metrics *m, const struct metrics_gauges *gauges,
                  uint64_t node, const struct op_queue_list_reply *queues,
                  struct op_buffer *out);

#endif
