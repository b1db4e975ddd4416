/* admin.c: see admin.h. One handler for all requests; each answer is built whole in
 * memory. */
#include "broker/admin.h"
#include "broker/address.h"
#include "broker/console.h"
#include "broker/log.h"
#include "proto/check.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADMIN_CONNECTIONS 64u
#define ADMIN_TIMEOUT_S   15u
#define ADMIN_ARENA_BYTES (16u << 20)
#define ADMIN_QUEUES_MAX  LIMIT_LIST

struct admin {
    struct MHD_Daemon *daemon;
    int epoll_fd;
    /* While starting. */
    uv_thread_t thread;
    int wake_fd; /* ends the thread; -1 afterwards */
    /* On the loop; calls == NULL before. */
    const struct admin_calls *calls;
    void *ctx;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned closing; /* handles not closed yet */
    struct arena arena;
};

struct answer {
    unsigned code;
    const char *type;
    struct op_buffer body;
};

static void answer_text(struct answer *a, unsigned code, const char *text)
{
    a->code = code;
    a->type = "text/plain; charset=utf-8";
    op_buffer_append(&a->body, text, strlen(text));
    op_buffer_append(&a->body, "\n", 1);
}

static int answer_dump(const char *data, size_t len, void *ctx)
{
    struct op_buffer *out = ctx;

    op_buffer_append(out, data, len);
    return out->failed ? -1 : 0;
}

/* Takes `json`, which may be NULL for want of memory. */
static void answer_json(struct answer *a, json_t *json)
{
    if (json == NULL ||
        json_dump_callback(json, answer_dump, &a->body, JSON_COMPACT) != 0) {
        a->body.failed = true;
    }
    json_decref(json);
    op_buffer_append(&a->body, "\n", 1);
    a->code = MHD_HTTP_OK;
    a->type = "application/json";
}

static json_t *json_slice(struct slice text)
{
    return json_stringn(text.data == NULL ? "" : (const char *)text.data, text.len);
}

/* Text of a client, cut at a number of bytes: a character may be torn. */
static json_t *json_reason(struct slice text)
{
    json_t *whole = json_slice(text);

    for (uint32_t cut = 1; whole == NULL && cut < text.len && cut < 4; cut++) {
        whole = json_slice(slice_of(text.data, text.len - cut));
    }
    return whole != NULL ? whole : json_string("");
}

static double quantile_ms(const struct histogram *h, double fraction)
{
    uint64_t us = histogram_quantile(h, fraction);

    return us == UINT64_MAX ? -1 : (double)us / 1000;
}

static const char *role_name(enum node_role role)
{
    switch (role) {
    case NODE_VOTER:
        return "voter";
    case NODE_STANDBY:
        return "standby";
    case NODE_SPARE:
        return "spare";
    case NODE_BLANK:
        break;
    }
    return "blank";
}

static json_t *json_members(const struct op_node_status_reply *node)
{
    json_t *members = json_array();

    for (uint32_t i = 0; i < node->member_count; i++) {
        const struct op_member *m = &node->members[i];

        json_array_append_new(
            members, json_pack("{s:I, s:s, s:o, s:o, s:I, s:b}", "id",
                               (json_int_t)m->node, "role", role_name(m->role),
                               "client_address", json_slice(m->client_address),
                               "peer_address", json_slice(m->peer_address), "match",
                               (json_int_t)m->match, "reachable", (int)m->reachable));
    }
    return members;
}

static void api_status(struct admin *admin, struct answer *a)
{
    struct raftlog_status status;
    struct op_node_status_reply node;
    struct metrics_gauges gauges;
    const struct metrics *m = admin->calls->counters(admin->ctx);
    char why[256] = "";
    char digest[20];
    bool ready = admin->calls->ready(admin->ctx, why, sizeof why);

    admin->calls->status(admin->ctx, &status, &node, &gauges);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)node.digest);
    answer_json(
        a,
        json_pack(
            "{s:I, s:o, s:o, s:o, s:b, s:s, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, "
            "s:s, s:I, "
            "s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}",
            "node", (json_int_t)node.node, "cluster", json_slice(node.cluster),
            "version", json_slice(node.version), "state", json_slice(node.state),
            "ready", (int)ready, "why", why, "term", (json_int_t)node.term, "leader_id",
            (json_int_t)node.leader_id, "leader", json_slice(node.leader), "applied",
            (json_int_t)node.applied, "commit", (json_int_t)node.commit, "last_index",
            (json_int_t)node.last_index, "first_index", (json_int_t)node.first_index,
            "digest_index", (json_int_t)node.digest_index, "digest", digest,
            "cluster_ms", (json_int_t)node.cluster_ms, "log_bytes",
            (json_int_t)status.log_bytes, "store_bytes", (json_int_t)status.store_bytes,
            "disk_free_bytes", (json_int_t)status.disk_free_bytes, "connections",
            (json_int_t)gauges.connections, "waiters", (json_int_t)gauges.waiters,
            "commit_p50_ms", quantile_ms(&m->commit, 0.5), "commit_p99_ms",
            quantile_ms(&m->commit, 0.99), "late_p99_ms",
            quantile_ms(&m->lateness, 0.99), "loop_p99_ms", quantile_ms(&m->loop, 0.99),
            "members", json_members(&node)));
}

static json_t *json_queue(const struct op_queue_info *q)
{
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:i, s:I, s:o}",
        "name", json_slice(q->name), "ready", (json_int_t)q->ready, "leased",
        (json_int_t)q->leased, "scheduled", (json_int_t)q->scheduled, "parked",
        (json_int_t)q->parked, "acked", (json_int_t)q->acked, "bytes",
        (json_int_t)q->bytes, "oldest_ready_ms", (json_int_t)q->oldest_ready_ms,
        "overdue", (json_int_t)q->overdue, "sent", (json_int_t)q->sent, "received",
        (json_int_t)q->received, "acked_total", (json_int_t)q->acked_total, "failed",
        (json_int_t)q->failed, "dead_lettered", (json_int_t)q->dead_lettered, "expired",
        (json_int_t)q->expired, "purged", (json_int_t)q->purged, "acked_bytes",
        (json_int_t)q->acked_bytes, "paused", (int)q->paused, "paused_until",
        (json_int_t)q->paused_until, "pause_reason", json_reason(q->pause_reason));
}

static void api_queues(struct admin *admin, struct MHD_Connection *connection,
                       struct answer *a)
{
    const char *after =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "after");
    const char *limit =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "limit");
    struct op_stats op = {.limit = LIMIT_LIST_DEFAULT};
    struct op_reply reply;
    bool stale;
    json_t *queues;

    if (after != NULL) {
        op.after = slice_text(after);
    }
    if (limit != NULL) {
        unsigned long n = strtoul(limit, NULL, 10);

        if (n < 1 || n > ADMIN_QUEUES_MAX) {
            answer_text(a, MHD_HTTP_BAD_REQUEST, "limit must be in 1..1000");
            return;
        }
        op.limit = (uint32_t)n;
    }
    memset(&reply, 0, sizeof reply);
    arena_reset(&admin->arena);
    admin->calls->queues(admin->ctx, &op, &admin->arena, &reply, &stale);
    if (reply.error.status != HF_OK) {
        answer_text(a, MHD_HTTP_SERVICE_UNAVAILABLE, status_text(reply.error.status));
        return;
    }
    queues = json_array();
    for (uint32_t i = 0; i < reply.queue_list.count; i++) {
        json_array_append_new(queues, json_queue(&reply.queue_list.queues[i]));
    }
    answer_json(a, json_pack("{s:o, s:b, s:b, s:I}", "queues", queues, "more",
                             (int)reply.queue_list.more, "stale", (int)stale, "index",
                             (json_int_t)reply.stamp.index));
}

static void answer_ready(struct admin *admin, struct answer *a)
{
    char why[256] = "";

    if (admin->calls->ready(admin->ctx, why, sizeof why)) {
        answer_text(a, MHD_HTTP_OK, "ready");
    } else {
        answer_text(a, MHD_HTTP_SERVICE_UNAVAILABLE, why);
    }
}

static void answer_path(struct admin *admin, struct MHD_Connection *connection,
                        const char *path, struct answer *a)
{
    if (admin->calls == NULL) {
        bool health = strcmp(path, "/healthz") == 0;

        answer_text(a, health ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                    "starting: the node loads its state");
    } else if (strcmp(path, "/healthz") == 0) {
        answer_text(a, MHD_HTTP_OK, "alive");
    } else if (strcmp(path, "/readyz") == 0) {
        answer_ready(admin, a);
    } else if (strcmp(path, "/metrics") == 0) {
        a->code = MHD_HTTP_OK;
        a->type = "text/plain; version=0.0.4; charset=utf-8";
        admin->calls->metrics(admin->ctx, &a->body);
    } else if (strcmp(path, "/") == 0) {
        a->code = MHD_HTTP_OK;
        a->type = "text/html; charset=utf-8";
        op_buffer_append(&a->body, console_html, console_html_bytes);
    } else if (strcmp(path, "/api/status") == 0) {
        api_status(admin, a);
    } else if (strcmp(path, "/api/queues") == 0) {
        api_queues(admin, connection, a);
    } else {
        answer_text(a, MHD_HTTP_NOT_FOUND, "there is no such page: see /");
    }
}

static enum MHD_Result admin_send(struct MHD_Connection *connection, struct answer *a)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    if (a->body.failed) {
        op_buffer_done(&a->body);
        return MHD_NO; /* closes the connection */
    }
    response = MHD_create_response_from_buffer(a->body.len, a->body.data,
                                               MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        op_buffer_done(&a->body);
        return MHD_NO;
    }
    /* A header that finds no memory is left out. */
    (void)MHD_add_response_header(response, "Content-Type", a->type);
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "X-Frame-Options", "DENY");
    if (a->code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, "Allow", "GET, HEAD");
    }
    result = MHD_queue_response(connection, a->code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result admin_on_request(void *ctx, struct MHD_Connection *connection,
                                        const char *url, const char *method,
                                        const char *version, const char *data,
                                        size_t *data_bytes, void **state)
{
    static int seen;
    struct answer a = {0};

    (void)version;
    (void)data;
    if (*state == NULL) {
        *state = &seen; /* the first call brings only the headers */
        return MHD_YES;
    }
    if (*data_bytes > 0) {
        *data_bytes = 0; /* a body is thrown away */
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
        strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        answer_text(&a, MHD_HTTP_METHOD_NOT_ALLOWED,
                    "only GET and HEAD are known here");
    } else {
        answer_path(ctx, connection, url, &a);
    }
    return admin_send(connection, &a);
}

/* ---- while the node starts ---- */

static void admin_thread(void *ctx)
{
    struct admin *a = ctx;
    struct pollfd fds[2] = {{.fd = a->epoll_fd, .events = POLLIN},
                            {.fd = a->wake_fd, .events = POLLIN}};

    do {
        (void)poll(fds, 2, 1000); /* whatever it returns, MHD_run does what is to do */
        if (MHD_run(a->daemon) != MHD_YES) {
            return;
        }
    } while ((fds[1].revents & POLLIN) == 0);
}

static void admin_join(struct admin *a)
{
    uint64_t one = 1;

    if (a->wake_fd < 0) {
        return;
    }
    CHECK(write(a->wake_fd, &one, sizeof one) == (ssize_t)sizeof one);
    uv_thread_join(&a->thread);
    close(a->wake_fd);
    a->wake_fd = -1;
}

static void admin_on_error(void *ctx, const char *format, va_list args)
{
    char text[256];

    (void)ctx;
    (void)vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    log_line(LOG_DEBUG, "admin", "%s", text);
}

static int admin_start_daemon(struct admin *a, const char *address, char *why,
                              size_t size)
{
    const union MHD_DaemonInfo *epoll;
    int fd;
    int rc = address_bind(address, &fd, why, size);

    if (rc != HF_OK) {
        return rc;
    }
    if (listen(fd, ADMIN_CONNECTIONS) != 0) {
        snprintf(why, size, "%s", strerror(errno));
        close(fd);
        return HF_E_IO;
    }
    /* The daemon takes the socket. */
    a->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, admin_on_request, a,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, ADMIN_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, ADMIN_TIMEOUT_S, MHD_OPTION_EXTERNAL_LOGGER,
        admin_on_error, NULL, MHD_OPTION_END);
    if (a->daemon == NULL) {
        snprintf(why, size, "the HTTP daemon does not start");
        close(fd);
        return HF_E_IO;
    }
    epoll = MHD_get_daemon_info(a->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(epoll != NULL);
    a->epoll_fd = epoll->epoll_fd;
    return HF_OK;
}

int admin_open(const char *address, struct admin **out, char *why, size_t size)
{
    struct admin *a = calloc(1, sizeof *a);
    int rc;

    if (a == NULL) {
        snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    arena_init(&a->arena, ADMIN_ARENA_BYTES);
    rc = admin_start_daemon(a, address, why, size);
    if (rc != HF_OK) {
        goto fail_admin;
    }
    a->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (a->wake_fd < 0 || uv_thread_create(&a->thread, admin_thread, a) != 0) {
        snprintf(why, size, "no thread can be started");
        rc = HF_E_IO;
        goto fail_daemon;
    }
    *out = a;
    return HF_OK;

fail_daemon:
    if (a->wake_fd >= 0) {
        close(a->wake_fd);
    }
    MHD_stop_daemon(a->daemon);
fail_admin:
    free(a);
    return rc;
}

/* ---- on the loop ---- */

static void admin_on_timer(uv_timer_t *timer);

static void admin_run(struct admin *a)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    (void)MHD_run(a->daemon); /* fails only without epoll */
    if (MHD_get_timeout(a->daemon, &timeout_ms) == MHD_YES) {
        /* Never 0: from the timer's own callback it would run again in the same turn.
         */
        CHECK(uv_timer_start(&a->timer, admin_on_timer, timeout_ms > 0 ? timeout_ms : 1,
                             0) == 0);
    } else {
        uv_timer_stop(&a->timer);
    }
}

static void admin_on_timer(uv_timer_t *timer)
{
    admin_run(timer->data);
}

static void admin_on_poll(uv_poll_t *poll_handle, int status, int events)
{
    (void)status;
    (void)events;
    admin_run(poll_handle->data);
}

int admin_attach(struct admin *a, uv_loop_t *loop, const struct admin_calls *calls,
                 void *ctx)
{
    admin_join(a);
    if (uv_poll_init(loop, &a->poll, a->epoll_fd) != 0) {
        return HF_E_IO;
    }
    CHECK(uv_timer_init(loop, &a->timer) == 0);
    a->poll.data = a;
    a->timer.data = a;
    a->ctx = ctx;
    a->calls = calls;
    CHECK(uv_poll_start(&a->poll, UV_READABLE, admin_on_poll) == 0);
    admin_run(a);
    return HF_OK;
}

static void admin_free(struct admin *a)
{
    MHD_stop_daemon(a->daemon);
    arena_done(&a->arena);
    free(a);
}

static void admin_on_closed(uv_handle_t *handle)
{
    struct admin *a = handle->data;

    if (--a->closing == 0) {
        admin_free(a);
    }
}

void admin_close(struct admin *a)
{
    if (a == NULL) {
        return;
    }
    admin_join(a);
    if (a->calls == NULL) {
        admin_free(a);
        return;
    }
    a->closing = 2;
    uv_close((uv_handle_t *)&a->poll, admin_on_closed);
    uv_close((uv_handle_t *)&a->timer, admin_on_closed);
}
