/* server.c: see server.h.
 *
 * A start binds all ports first: a port that is taken shall not be noticed after
 * minutes of loading. Then the log and the state are opened, and only then clients are
 * accepted.
 *
 * A turn of the loop: what raftlog has for us comes from its own prepare and check
 * handles; our prepare runs after raftlog's (libuv runs the handle that was started
 * last first, so ours is started before) and sends what was answered, one write per
 * connection.
 *
 * A stop: no new clients; raftlog hands over and checkpoints (on the way the term ends,
 * so that waiting receives and unfinished requests are answered); the last answers are
 * flushed; everything is closed; the loop ends. */
#include "broker/server.h"
#include "broker/address.h"
#include "broker/admin.h"
#include "broker/certificates.h"
#include "broker/conn.h"
#include "broker/dispatch.h"
#include "broker/leader.h"
#include "broker/log.h"
#include "proto/check.h"

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SERVER_BACKLOG       1024
#define SERVER_SWEEP_MS      1000
#define SERVER_ALARM_NS      60000000000u
#define SERVER_EXPIRY_NS     3600000000000u /* between two looks at certificates */
#define SERVER_EXPIRY_S      (14 * 86400)   /* how long before it is warned of */
#define SERVER_READY_LAG     10000u /* entries a ready node may be behind */
#define SERVER_METRIC_QUEUES 200u
#define SERVER_ARENA_BYTES   (4u << 20)

struct server {
    uv_loop_t loop;
    struct config *config;
    int argc;
    char **argv;
    struct metrics metrics;
    struct raftlog *log;
    struct leader *leader;
    struct dispatch *dispatch;
    struct admin *admin;
    struct conn_set conns;
    struct certificates certificates;
    uint64_t expiry_told_ns;
    struct arena arena; /* of one answer over HTTP */
    uint64_t parked_told; /* dead letters without a place that were told of */
    uint64_t parked_told_ns;
    uv_tcp_t listener;
    uv_prepare_t prepare;
    uv_idle_t idle;
    uv_timer_t sweep;
    uv_timer_t stop_timer;
    uv_signal_t signals[3];
    uint64_t began_ns;
    /* At the end of the last turn; 0 = there was none yet. */
    uint64_t turn_ns;
    uint64_t turn_idle_ns;
    uint64_t turn_cpu_ns;
    bool stopping;
    int exit_code;
};

/* ---- what raftlog tells ---- */

static void server_on_serving(void *ctx, bool serving, uint64_t term, int64_t outage_ms)
{
    struct server *s = ctx;
    uint64_t begin_ns = uv_hrtime();

    if (!serving) {
        leader_end(s->leader);
        log_line(LOG_INFO, "server", "no longer leader term=%" PRIu64, term);
        return;
    }
    s->metrics.terms_served++;
    leader_begin(s->leader, s->log, outage_ms);
    log_line(LOG_INFO, "server",
             "serving as leader term=%" PRIu64 " outage_ms=%" PRId64
             " timers=%zu load_us=%" PRIu64,
             term, outage_ms == INT64_MAX ? -1 : outage_ms, leader_armed(s->leader),
             (uv_hrtime() - begin_ns) / 1000);
}

static void server_on_applied(void *ctx)
{
    struct server *s = ctx;

    leader_applied(s->leader);
}

static void server_on_leader(void *ctx)
{
    struct server *s = ctx;
    uint64_t id;
    const char *address = raftlog_leader_address(s->log, &id);

    if (id == 0) {
        log_line(LOG_INFO, "server", "no leader is known");
    } else {
        log_line(LOG_INFO, "server", "the leader is node %" PRIu64 " address=%s", id,
                 address);
    }
}

static void server_on_fatal(void *ctx, const char *what, const char *why,
                            const char *remedy)
{
    (void)ctx;
    log_fatal(what, why, remedy);
    fflush(NULL);
    _exit(1); /* nothing may touch the state any more, no destructor either */
}

static void server_on_note(void *ctx, enum raftlog_level level, const char *text)
{
    static const enum log_level levels[] = {
        [RAFTLOG_DEBUG] = LOG_DEBUG,
        [RAFTLOG_INFO] = LOG_INFO,
        [RAFTLOG_WARN] = LOG_WARN,
        [RAFTLOG_ERROR] = LOG_ERROR,
    };

    (void)ctx;
    log_line(levels[level], "raftlog", "%s", text);
}

/* ---- stop ---- */

static void server_on_stop_time(uv_timer_t *timer)
{
    (void)timer;
    log_fatal(
        "the node did not stop in time", "a part of it did not end within 10 s",
        "nothing is lost: what was confirmed is on disk; report this with the log");
    _exit(1);
}

static void server_on_drain_time(uv_timer_t *timer)
{
    struct server *s = timer->data;

    log_line(LOG_INFO, "server",
             "closing clients that do not take their answers count=%u", s->conns.count);
    conn_set_abort(&s->conns);
}

static void server_on_drained(void *ctx)
{
    struct server *s = ctx;

    s->conns.empty = NULL;
    uv_close((uv_handle_t *)&s->stop_timer, NULL);
    uv_close((uv_handle_t *)&s->sweep, NULL);
    uv_close((uv_handle_t *)&s->prepare, NULL);
    uv_close((uv_handle_t *)&s->idle, NULL);
    for (size_t i = 0; i < 3; i++) {
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    }
    leader_close(s->leader);
    s->leader = NULL;
    admin_close(s->admin);
    s->admin = NULL;
}

static void server_on_stopped(void *ctx)
{
    struct server *s = ctx;

    CHECK(uv_timer_start(&s->stop_timer, server_on_drain_time, SERVER_DRAIN_MS, 0) ==
          0);
    conn_set_finish(&s->conns, server_on_drained, s);
}

static const struct raftlog_events server_events = {
    .serving = server_on_serving,
    .applied = server_on_applied,
    .leader = server_on_leader,
    .stopped = server_on_stopped,
    .fatal = server_on_fatal,
    .note = server_on_note,
};

static void server_stop(struct server *s)
{
    if (s->stopping) {
        return;
    }
    s->stopping = true;
    log_line(LOG_INFO, "server", "stopping connections=%u", s->conns.count);
    uv_close((uv_handle_t *)&s->listener, NULL);
    CHECK(uv_timer_start(&s->stop_timer, server_on_stop_time,
                         SERVER_STOP_MS - SERVER_DRAIN_MS, 0) == 0);
    dispatch_stop(s->dispatch);
    raftlog_stop(s->log);
}

/* ---- reload ---- */

static void server_apply_log_level(const struct config *config)
{
    enum log_level level;

    CHECK(log_level_parse(config->log_level, &level));
    log_set_level(level);
}

/* What may change while it runs. */
static void server_apply_options(struct server *s)
{
    server_apply_log_level(s->config);
    s->conns.max = (uint32_t)s->config->max_connections;
    s->conns.unsent_max = (uint64_t)s->config->unsent_bytes;
    dispatch_set_limits(
        s->dispatch,
        &(struct dispatch_limits){
            .connections_per_address = (uint32_t)s->config->connections_per_address,
            .connections_per_user = (uint32_t)s->config->connections_per_user,
            .requests_per_second = (uint32_t)s->config->requests_per_second});
}

/* A certificate that is about to expire, or has. */
static void server_tell_expiry(struct server *s)
{
    int64_t left_s = certificates_expire(&s->certificates) - (int64_t)time(NULL);

    s->expiry_told_ns = uv_hrtime();
    if (certificates_expire(&s->certificates) != 0 && left_s < SERVER_EXPIRY_S) {
        log_line(LOG_WARN, "server",
                 "a certificate of this node %s hours=%" PRId64
                 ": replace its file, then send SIGHUP",
                 left_s > 0 ? "expires soon" : "has expired",
                 (left_s > 0 ? left_s : -left_s) / 3600);
    }
}

/* New files count for connections to come. */
static void server_reload_certificates(struct server *s)
{
    struct config_error error;

    if (certificates_expire(&s->certificates) == 0) {
        return; /* there are none */
    }
    if (certificates_reload(s->config, &s->certificates, &error) != HF_OK) {
        log_line(LOG_ERROR, "server", "the certificates in use stay: %s: %s: %s",
                 error.what, error.why, error.remedy);
        return;
    }
    s->conns.tls = s->certificates.client;
    raftlog_set_peer_tls(s->log, s->certificates.peer);
    log_line(LOG_INFO, "server", "certificates read again days=%" PRId64,
             (certificates_expire(&s->certificates) - (int64_t)time(NULL)) / 86400);
    server_tell_expiry(s);
}

static void server_reload(struct server *s)
{
    struct config *fresh = malloc(sizeof *fresh);
    struct config_error error;
    enum config_action action;
    char waiting[512];
    int rc;

    if (fresh == NULL) {
        log_line(LOG_WARN, "config", "not read again: out of memory");
        return;
    }
    config_init(fresh);
    rc = config_args(fresh, s->argc, s->argv, &action, &error);
    if (rc == HF_OK && s->config->temporary_data) {
        memcpy(fresh->data, s->config->data, sizeof fresh->data);
    }
    if (rc == HF_OK) {
        rc = config_finish(fresh, &error);
    }
    if (rc != HF_OK) {
        log_line(LOG_ERROR, "config", "not read again, nothing changed: %s: %s: %s",
                 error.what, error.why, error.remedy);
    } else if (config_reload(s->config, fresh, waiting, sizeof waiting) > 0) {
        log_line(LOG_WARN, "config", "read again; these need a restart: %s", waiting);
    } else {
        log_line(LOG_INFO, "config", "read again");
    }
    server_apply_options(s);
    server_reload_certificates(s);
    free(fresh);
}

static void server_on_signal(uv_signal_t *signal_handle, int number)
{
    struct server *s = signal_handle->data;

    if (number == SIGHUP) {
        server_reload(s);
    } else {
        server_stop(s);
    }
}

/* ---- the turn of the loop ---- */

static void server_on_idle(uv_idle_t *idle)
{
    (void)idle; /* it only keeps the loop from sleeping */
}

static uint64_t server_cpu_ns(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* without it there are zeros */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A turn goes from the end of one to the end of the next, less what the loop slept in
 * between: callbacks of sockets run within libuv's poll, so that its check handles come
 * too late to begin with. */
static void server_count_turn(struct server *s)
{
    uint64_t now_ns = uv_hrtime();
    uint64_t idle_ns = uv_metrics_idle_time(&s->loop);
    uint64_t cpu_ns = server_cpu_ns();

    if (s->turn_ns != 0) {
        histogram_add(&s->metrics.loop,
                      (now_ns - s->turn_ns - (idle_ns - s->turn_idle_ns)) / 1000);
        histogram_add(&s->metrics.loop_cpu, (cpu_ns - s->turn_cpu_ns) / 1000);
    }
    s->turn_ns = now_ns;
    s->turn_idle_ns = idle_ns;
    s->turn_cpu_ns = cpu_ns;
}

static void server_on_prepare(uv_prepare_t *prepare)
{
    struct server *s = prepare->data;

    if (conn_set_flush(&s->conns)) {
        CHECK(uv_idle_start(&s->idle, server_on_idle) == 0);
    } else {
        CHECK(uv_idle_stop(&s->idle) == 0);
    }
    server_count_turn(s);
}

static uint64_t server_letters_parked(const struct server *s, char *queue, size_t size)
{
    struct machine *m = raftlog_machine(s->log);

    *queue = '\0';
    return m != NULL ? machine_letters_parked(m, queue, size) : 0;
}

/* The alarm of a dead-letter queue that takes nothing: whoever leads tells, once a
 * minute at most. What comes out of the log of old is not news. */
static void server_tell_parked(struct server *s)
{
    char queue[LIMIT_QUEUE_NAME + 1];
    uint64_t parked = server_letters_parked(s, queue, sizeof queue);
    uint64_t now_ns = uv_hrtime();

    if (!leader_active(s->leader)) {
        s->parked_told = parked;
        return;
    }
    if (parked <= s->parked_told ||
        (s->parked_told_ns != 0 && now_ns - s->parked_told_ns < SERVER_ALARM_NS)) {
        return;
    }
    log_line(
        LOG_WARN, "server",
        "%" PRIu64 " dead letters are parked where they were, the last in queue %s: "
        "its dead-letter queue is full or deleted: make room or make it, then kick "
        "them",
        parked - s->parked_told, queue);
    s->parked_told = parked;
    s->parked_told_ns = now_ns;
}

static void server_on_sweep(uv_timer_t *timer)
{
    struct server *s = timer->data;

    conn_set_sweep(&s->conns);
    if (uv_hrtime() - s->expiry_told_ns > SERVER_EXPIRY_NS) {
        server_tell_expiry(s);
    }
    server_tell_parked(s);
}

static void server_on_connection(uv_stream_t *listener, int status)
{
    struct server *s = listener->data;

    if (status < 0) {
        log_line(LOG_WARN, "server", "a client could not be accepted: %s",
                 uv_strerror(status));
        return;
    }
    conn_accept(&s->conns, listener);
}

/* ---- HTTP ---- */

static bool server_ready(void *ctx, char *why, size_t size)
{
    struct server *s = ctx;
    struct raftlog_status status;
    uint64_t leader;

    raftlog_status(s->log, &status);
    (void)raftlog_leader_address(s->log, &leader);
    if (s->stopping) {
        snprintf(why, size, "stopping");
    } else if (strcmp(status.state, "leader") != 0 &&
               strcmp(status.state, "follower") != 0) {
        snprintf(why, size, "this node is %s", status.state);
    } else if (leader == 0) {
        snprintf(why, size, "no leader is known: is a majority of the nodes running?");
    } else if (strcmp(status.state, "leader") == 0 && !leader_active(s->leader)) {
        snprintf(why, size, "elected, but not serving yet");
    } else if (status.commit > status.applied + SERVER_READY_LAG) {
        snprintf(why, size, "%" PRIu64 " entries behind",
                 status.commit - status.applied);
    } else {
        return true;
    }
    return false;
}

static void server_gauges(struct server *s, const struct raftlog_status *status,
                          struct metrics_gauges *g)
{
    const struct clock_source *clock = clock_system();
    char queue[LIMIT_QUEUE_NAME + 1];
    uint64_t leader;

    (void)raftlog_leader_address(s->log, &leader);
    *g = (struct metrics_gauges){
        .up_seconds = (int64_t)((uv_hrtime() - s->began_ns) / 1000000000u),
        .is_leader = leader_active(s->leader),
        .leader_id = (int64_t)leader,
        .term = (int64_t)status->term,
        .applied = (int64_t)status->applied,
        .commit = (int64_t)status->commit,
        .last_index = (int64_t)status->last_index,
        .first_index = (int64_t)status->first_index,
        .digest_index = (int64_t)status->digest_index,
        .log_bytes = (int64_t)status->log_bytes,
        .store_bytes = (int64_t)status->store_bytes,
        .disk_free_bytes = (int64_t)status->disk_free_bytes,
        .disk_low = raftlog_disk_low(s->log),
        .letters_parked = (int64_t)server_letters_parked(s, queue, sizeof queue),
        .entries = (int64_t)status->entries,
        .commands = (int64_t)status->commands,
        .log_writes = (int64_t)status->log_writes,
        .in_flight = status->in_flight,
        .quorum_age_ms =
            status->quorum_age_ms == INT64_MAX ? -1 : status->quorum_age_ms,
        .clock_gap_ms = clock->wall_ms(clock->ctx) - raftlog_now_ms(s->log),
        .connections = s->conns.count,
        .waiters = (int64_t)leader_waiters(s->leader),
        .requests_in_flight = (int64_t)dispatch_in_flight(s->dispatch),
        .armed = (int64_t)leader_armed(s->leader),
        .overdue_ms = leader_overdue_ms(s->leader),
        .buffer_bytes = (int64_t)conn_set_bytes(&s->conns),
        .certificate_expires_s = certificates_expire(&s->certificates),
    };
}

static void server_queues(void *ctx, const struct op_stats *op, struct arena *arena,
                          struct op_reply *reply, bool *stale)
{
    struct server *s = ctx;
    struct machine *m = raftlog_machine(s->log);

    *stale = !raftlog_may_read(s->log);
    reply->op = OP_STATS;
    if (m == NULL) {
        reply->error.status = HF_E_UNAVAILABLE;
        return;
    }
    machine_stats(m, op, raftlog_now_ms(s->log), arena, reply);
    reply->stamp.index = machine_applied(m);
}

static void server_metrics(void *ctx, struct op_buffer *out)
{
    struct server *s = ctx;
    struct op_stats op = {.limit = SERVER_METRIC_QUEUES};
    struct raftlog_status status;
    struct metrics_gauges gauges;
    struct op_reply reply;
    bool stale;

    memset(&reply, 0, sizeof reply);
    arena_reset(&s->arena);
    server_queues(s, &op, &s->arena, &reply, &stale);
    raftlog_status(s->log, &status);
    server_gauges(s, &status, &gauges);
    metrics_text(&s->metrics, &gauges, (uint64_t)s->config->node_id,
                 reply.error.status == HF_OK ? &reply.queue_list : NULL, out);
}

static void server_status(void *ctx, struct raftlog_status *status,
                          struct op_node_status_reply *node,
                          struct metrics_gauges *gauges)
{
    struct server *s = ctx;

    dispatch_node_status(s->dispatch, status, node);
    server_gauges(s, status, gauges);
}

static const struct metrics *server_counters(void *ctx)
{
    const struct server *s = ctx;

    return &s->metrics;
}

static const struct admin_calls server_admin_calls = {
    .ready = server_ready,
    .metrics = server_metrics,
    .status = server_status,
    .counters = server_counters,
    .queues = server_queues,
};

/* ---- start ---- */

static void server_fail(const char *what, const char *why, const char *remedy)
{
    log_fatal(what, why, remedy);
}

static int server_bind(struct server *s)
{
    char why[256];
    int fd;

    if (address_bind(s->config->listen, &fd, why, sizeof why) != HF_OK) {
        char what[192];

        snprintf(what, sizeof what, "listening for clients on %s", s->config->listen);
        server_fail(what, why, "free the port, or choose another with listen");
        return HF_E_IO;
    }
    CHECK(uv_tcp_init(&s->loop, &s->listener) == 0);
    s->listener.data = s;
    CHECK(uv_tcp_open(&s->listener, fd) == 0);
    if (strcmp(s->config->http_listen, "off") == 0) {
        return HF_OK;
    }
    if (admin_open(s->config->http_listen, &s->admin, why, sizeof why) != HF_OK) {
        server_fail("listening for HTTP", why,
                    "free the port, choose another with http-listen, or "
                    "set http-listen = off");
        return HF_E_IO;
    }
    return HF_OK;
}

static int server_open_log(struct server *s)
{
    const struct config *c = s->config;
    struct raftlog_config config = {
        .node = (uint64_t)c->node_id,
        .dir = c->data,
        .cluster = c->cluster,
        .secret = c->secret,
        .peer_listen = c->peer_listen,
        .peer_tls = s->certificates.peer,
        .client_address = c->advertise,
        .peer_count = c->peer_count,
        .bootstrap = c->bootstrap,
        .auto_rejoin = c->auto_rejoin,
        .election_ms = (uint32_t)c->election_ms,
        .heartbeat_ms = (uint32_t)c->heartbeat_ms,
        .checkpoint_bytes = (uint64_t)c->checkpoint_bytes,
        .checkpoint_ms = 5000,
        .trailing_bytes = (uint64_t)c->trailing_bytes,
        .cache_bytes = (uint64_t)c->cache_bytes,
        .map_bytes = (uint64_t)c->map_bytes,
        .quota_bytes = (uint64_t)c->quota_bytes,
        .disk_refuse_bytes = (uint64_t)c->disk_refuse_bytes,
        .disk_stop_bytes = (uint64_t)c->disk_stop_bytes,
        .clock = clock_system(),
    };
    char why[1024] = "";

    for (uint32_t i = 0; i < c->peer_count; i++) {
        config.peers[i] =
            (struct raftlog_peer){c->peer_list[i].node, c->peer_list[i].address};
    }
    if (raftlog_open(&s->loop, &config, &server_events, s, &s->log, why, sizeof why) !=
        HF_OK) {
        fprintf(stderr, "holdfast: node %" PRId64 " cannot start: %s\n", c->node_id,
                why);
        return HF_E_IO;
    }
    return HF_OK;
}

static int server_open_parts(struct server *s)
{
    struct dispatch_config config = {
        .node = (uint64_t)s->config->node_id,
        .cluster = s->config->cluster,
        .version = HOLDFAST_VERSION,
        .retry_ms = s->config->election_ms,
        .auth = {.required = s->config->auth,
                 .has_root = s->config->root_token[0] != '\0'},
    };

    secret_hash(slice_text(s->config->root_token), config.auth.root_hash);

    if (dispatch_open(&config, &s->metrics, &s->dispatch) != HF_OK ||
        leader_open(&s->loop, &s->metrics, &dispatch_leader_callbacks, s->dispatch,
                    &s->leader) != HF_OK) {
        server_fail("starting", "out of memory, or the kernel gives no random bytes",
                    "free memory, then start again");
        return HF_E_MEMORY_LOW;
    }
    conn_set_init(&s->conns, &s->loop, s->dispatch, &s->metrics,
                  (uint32_t)s->config->max_connections);
    server_apply_options(s);
    s->conns.tls = s->certificates.client;
    return HF_OK;
}

static const int server_signals[] = {SIGTERM, SIGINT, SIGHUP};

/* SIG_BLOCK: a signal that comes while the node starts waits until it is watched for,
 * and then ends it in order. */
static void server_mask_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < 3; i++) {
        sigaddset(&set, server_signals[i]);
    }
    CHECK(sigprocmask(how, &set, NULL) == 0);
}

static void server_start_handles(struct server *s)
{

    CHECK(uv_prepare_init(&s->loop, &s->prepare) == 0);
    CHECK(uv_idle_init(&s->loop, &s->idle) == 0);
    CHECK(uv_timer_init(&s->loop, &s->sweep) == 0);
    CHECK(uv_timer_init(&s->loop, &s->stop_timer) == 0);
    s->prepare.data = s;
    s->sweep.data = s;
    s->stop_timer.data = s;
    CHECK(uv_prepare_start(&s->prepare, server_on_prepare) == 0);
    CHECK(uv_timer_start(&s->sweep, server_on_sweep, SERVER_SWEEP_MS,
                         SERVER_SWEEP_MS) == 0);
    for (size_t i = 0; i < 3; i++) {
        CHECK(uv_signal_init(&s->loop, &s->signals[i]) == 0);
        s->signals[i].data = s;
        CHECK(uv_signal_start(&s->signals[i], server_on_signal, server_signals[i]) ==
              0);
    }
    server_mask_signals(SIG_UNBLOCK);
}

/* As many descriptors as the system lets us have. */
static void server_raise_limits(const struct config *config)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return;
    }
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < (rlim_t)config->max_connections + 128) {
        log_line(LOG_WARN, "server",
                 "the system allows only %llu open files: fewer than max-connections "
                 "can be had",
                 (unsigned long long)files.rlim_cur);
    }
}

static int server_open_certificates(struct server *s)
{
    struct config_error error;
    int rc = certificates_load(s->config, &s->certificates, &error);

    if (rc != HF_OK) {
        server_fail(error.what, error.why, error.remedy);
        return rc;
    }
    server_tell_expiry(s);
    return HF_OK;
}

static int server_start(struct server *s)
{
    int rc = server_open_certificates(s);

    if (rc == HF_OK) {
        rc = server_bind(s);
    }
    if (rc != HF_OK) {
        return rc;
    }
    rc = server_open_parts(s);
    if (rc != HF_OK) {
        return rc;
    }
    server_start_handles(s); /* before raftlog's: see the top */
    rc = server_open_log(s);
    if (rc != HF_OK) {
        return rc;
    }
    dispatch_attach(s->dispatch, s->log, s->leader);
    if (s->admin != NULL &&
        admin_attach(s->admin, &s->loop, &server_admin_calls, s) != HF_OK) {
        server_fail("starting HTTP", "its descriptor cannot be watched",
                    "set http-listen = off");
        return HF_E_IO;
    }
    rc = uv_listen((uv_stream_t *)&s->listener, SERVER_BACKLOG, server_on_connection);
    if (rc != 0) {
        server_fail("listening for clients", uv_strerror(rc),
                    "choose another port with listen");
        return HF_E_IO;
    }
    log_line(LOG_INFO, "server",
             "listening node=%" PRId64 " clients=%s%s peers=%s%s http=%s data=%s",
             s->config->node_id, s->config->listen,
             s->certificates.client != NULL ? " (TLS)" : "", s->config->peer_listen,
             s->certificates.peer != NULL ? " (TLS)" : "", s->config->http_listen,
             s->config->data);
    return HF_OK;
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void server_remove_temporary(const struct config *config)
{
    if (config->temporary_data) {
        (void)nftw(config->data, remove_entry, 16,
                   FTW_DEPTH | FTW_PHYS); /* as far as it goes */
    }
}

int server_run(struct config *config, int argc, char **argv)
{
    struct server *s = calloc(1, sizeof *s);

    server_mask_signals(SIG_BLOCK);
    if (s == NULL || uv_loop_init(&s->loop) != 0 ||
        uv_loop_configure(&s->loop, UV_METRICS_IDLE_TIME) != 0) {
        log_fatal("starting", "out of memory", "free memory, then start again");
        free(s);
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    s->config = config;
    s->argc = argc;
    s->argv = argv;
    s->began_ns = uv_hrtime();
    arena_init(&s->arena, SERVER_ARENA_BYTES);
    server_raise_limits(config);
    server_apply_log_level(config);
    if (server_start(s) != HF_OK) {
        server_remove_temporary(config);
        fflush(NULL);
        _exit(1); /* half-built: nothing of it needs an end */
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);

    raftlog_close(s->log);
    dispatch_close(s->dispatch);
    certificates_done(&s->certificates);
    arena_done(&s->arena);
    CHECK(uv_loop_close(&s->loop) == 0);
    server_remove_temporary(config);
    log_line(LOG_INFO, "server", "stopped");
    free(s);
    return 0;
}
