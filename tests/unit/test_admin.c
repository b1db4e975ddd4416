/* test_admin.c: what HTTP answers, while the node starts and on the loop. */
#include "broker/admin.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct admin *admin;
static uv_loop_t loop;
static uint16_t port;
static bool attached;
static bool is_ready;
static struct metrics counters;
static struct op_queue_info infos[3];

static bool on_ready(void *ctx, char *why, size_t size)
{
    (void)ctx;
    if (!is_ready) {
        snprintf(why, size, "no leader is known");
    }
    return is_ready;
}

static void on_metrics(void *ctx, struct op_buffer *out)
{
    (void)ctx;
    op_buffer_append(out, "holdfast_up 1\n", 14);
}

static void on_status(void *ctx, struct raftlog_status *status,
                      struct op_node_status_reply *node, struct metrics_gauges *gauges)
{
    (void)ctx;
    *status = (struct raftlog_status){.state = "follower", .log_bytes = 77};
    status->members[0] = (struct op_member){
        .node = 3, .role = NODE_VOTER, .client_address = slice_text("c:1")};
    *node = (struct op_node_status_reply){.node = 2,
                                          .cluster = slice_text("te\"st"),
                                          .version = slice_text("0"),
                                          .state = slice_text("follower"),
                                          .leader = slice_text("a:1"),
                                          .leader_id = 3,
                                          .members = status->members,
                                          .member_count = 1};
    memset(gauges, 0, sizeof *gauges);
}

static const struct metrics *on_counters(void *ctx)
{
    (void)ctx;
    return &counters;
}

static void on_queues(void *ctx, const struct op_stats *op, struct arena *arena,
                      struct op_reply *reply, bool *stale)
{
    (void)ctx;
    (void)arena;
    infos[0].name = slice_text("a");
    infos[1].name = slice_text("b");
    infos[1].ready = 5;
    infos[2].name = slice_text("c");
    *stale = true;
    reply->queue_list.queues = op->after.data == NULL ? infos : infos + 1;
    reply->queue_list.count = op->limit < 2 ? op->limit : 2;
    reply->queue_list.more = true;
    reply->stamp.index = 9;
}

static const struct admin_calls calls = {
    .ready = on_ready,
    .metrics = on_metrics,
    .status = on_status,
    .counters = on_counters,
    .queues = on_queues,
};

static void free_port(char *address, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    port = ntohs(a.sin_port);
    snprintf(address, size, "127.0.0.1:%u", port);
    close(fd);
}

static int setup(void **state)
{
    char address[64];
    char why[256];

    (void)state;
    attached = false;
    is_ready = true;
    assert_int_equal(uv_loop_init(&loop), 0);
    free_port(address, sizeof address);
    assert_int_equal(admin_open(address, &admin, why, sizeof why), HF_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    admin_close(admin);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void attach(void)
{
    assert_int_equal(admin_attach(admin, &loop, &calls, NULL), HF_OK);
    attached = true;
}

/* One request on a connection of its own; its answer, from the status line on. */
static const char *ask(const char *method, const char *path)
{
    static char answer[65536];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    char request[256];
    size_t len = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
    assert_true(send(fd, request, strlen(request), 0) == (ssize_t)strlen(request));
    assert_true(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    while (len < sizeof answer - 1) {
        ssize_t n = recv(fd, answer + len, sizeof answer - 1 - len, 0);

        if (n == 0) {
            break;
        }
        assert_true(n > 0 || errno == EAGAIN);
        len += n > 0 ? (size_t)n : 0;
        if (attached) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
    }
    answer[len] = '\0';
    close(fd);
    return answer;
}

static json_t *json_of(const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    json_t *json;

    assert_non_null(body);
    assert_non_null(strstr(answer, "Content-Type: application/json"));
    json = json_loads(body + 4, 0, NULL);
    assert_non_null(json);
    return json;
}

static void is_alive_while_it_starts(void **state)
{
    (void)state;
    assert_non_null(strstr(ask("GET", "/healthz"), "HTTP/1.1 200"));
    assert_non_null(strstr(ask("GET", "/readyz"), "HTTP/1.1 503"));
    assert_non_null(strstr(ask("GET", "/metrics"), "HTTP/1.1 503"));
    attach();
    assert_non_null(strstr(ask("GET", "/readyz"), "HTTP/1.1 200"));
}

static void not_ready_says_why(void **state)
{
    const char *answer;

    (void)state;
    attach();
    is_ready = false;
    answer = ask("GET", "/readyz");
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    assert_non_null(strstr(answer, "no leader is known"));
    assert_non_null(strstr(ask("GET", "/healthz"), "HTTP/1.1 200"));
}

static void pages_have_their_types(void **state)
{
    (void)state;
    attach();
    assert_non_null(
        strstr(ask("GET", "/metrics"), "Content-Type: text/plain; version=0.0.4"));
    assert_non_null(strstr(ask("GET", "/"), "Content-Type: text/html"));
    assert_non_null(strstr(ask("GET", "/"), "<title>Holdfast</title>"));
}

static void unknown_pages_and_methods_are_refused(void **state)
{
    (void)state;
    attach();
    assert_non_null(strstr(ask("GET", "/etc/passwd"), "HTTP/1.1 404"));
    assert_non_null(strstr(ask("DELETE", "/api/queues"), "HTTP/1.1 405"));
    assert_non_null(strstr(ask("HEAD", "/healthz"), "HTTP/1.1 200"));
}

static void status_is_json_that_survives_quotes(void **state)
{
    json_t *json;

    (void)state;
    attach();
    json = json_of(ask("GET", "/api/status"));
    assert_string_equal(json_string_value(json_object_get(json, "cluster")), "te\"st");
    assert_int_equal(json_integer_value(json_object_get(json, "leader_id")), 3);
    assert_int_equal(json_integer_value(json_object_get(json, "log_bytes")), 77);
    assert_int_equal(json_array_size(json_object_get(json, "members")), 1);
    json_decref(json);
}

static void queues_come_in_pages(void **state)
{
    json_t *json;
    json_t *queues;

    (void)state;
    attach();
    json = json_of(ask("GET", "/api/queues?after=a&limit=2"));
    queues = json_object_get(json, "queues");
    assert_int_equal(json_array_size(queues), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(queues, 0), "name")), "b");
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(queues, 0), "ready")), 5);
    assert_true(json_is_true(json_object_get(json, "more")));
    assert_true(json_is_true(json_object_get(json, "stale")));
    json_decref(json);
    assert_non_null(strstr(ask("GET", "/api/queues?limit=0"), "HTTP/1.1 400"));
    assert_non_null(strstr(ask("GET", "/api/queues?limit=1001"), "HTTP/1.1 400"));
}

static void port_that_is_taken_is_an_error(void **state)
{
    struct admin *second = NULL;
    char address[64];
    char why[256] = "";

    (void)state;
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(admin_open(address, &second, why, sizeof why), HF_E_IO);
    assert_non_null(strstr(why, "in use"));
    assert_null(second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_alive_while_it_starts),
        TEST(not_ready_says_why),
        TEST(pages_have_their_types),
        TEST(unknown_pages_and_methods_are_refused),
        TEST(status_is_json_that_survives_quotes),
        TEST(queues_come_in_pages),
        TEST(port_that_is_taken_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
