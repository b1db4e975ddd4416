/* test_relay.c: the wires of the cluster tests. A relay that does not cut would make
 * partition tests pass for nothing. */
#include "tests/lib/probe.h"
#include "tests/lib/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* This process plays both nodes: 1 connects through the relay, 2 listens behind it. */
struct ends {
    struct relay *relay;
    int one, two;
};

static struct ends ends_open(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint16_t relay_port = probe_port(), port = probe_port();
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct ends e;

    a.sin_port = htons(port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    e.relay = relay_start();
    relay_node(e.relay, 1, getpid());
    relay_link(e.relay, 2, relay_port, port);
    e.one = probe_connect(relay_port);
    assert_true(e.one >= 0);
    e.two = accept(listener, NULL, NULL);
    assert_true(e.two >= 0);
    close(listener);
    return e;
}

static void ends_close(struct ends *e)
{
    relay_stop(e->relay);
    close(e->one);
    close(e->two);
}

static bool arrives(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&p, 1, timeout_ms) == 1 && recv(fd, &byte, 1, 0) == 1;
}

/* Both directions carry bytes, and the end of one side is passed on. */
static void passes_bytes_both_ways(void **state)
{
    struct ends e = ends_open();

    (void)state;
    assert_true(probe_write(e.one, "a", 1));
    assert_true(arrives(e.two, 2000));
    assert_true(probe_write(e.two, "b", 1));
    assert_true(arrives(e.one, 2000));
    shutdown(e.one, SHUT_WR);
    assert_true(probe_closed(e.two, 2000));
    ends_close(&e);
}

/* A cut of 1 -> 2 holds what 1 says and lets through what 2 says. */
static void one_way_cut_holds_one_direction(void **state)
{
    struct ends e = ends_open();

    (void)state;
    assert_true(probe_write(e.one, "a", 1));
    assert_true(arrives(e.two, 2000));
    relay_cut(e.relay, 1, 2, true);
    assert_true(probe_write(e.one, "a", 1));
    assert_true(probe_write(e.two, "b", 1));
    assert_true(arrives(e.one, 2000));
    assert_false(arrives(e.two, 100));
    ends_close(&e);
}

/* A cut of 2 -> 1 works on the connection that 1 opened. */
static void cut_works_against_the_dialling_direction(void **state)
{
    struct ends e = ends_open();

    (void)state;
    assert_true(probe_write(e.one, "a", 1));
    assert_true(arrives(e.two, 2000));
    relay_cut(e.relay, 2, 1, true);
    assert_true(probe_write(e.two, "b", 1));
    assert_false(arrives(e.one, 100));
    ends_close(&e);
}

/* Healing closes what was held back: both ends see it. */
static void healing_closes_what_was_held(void **state)
{
    struct ends e = ends_open();

    (void)state;
    assert_true(probe_write(e.one, "a", 1));
    assert_true(arrives(e.two, 2000));
    relay_cut(e.relay, 1, 2, true);
    assert_true(probe_write(e.one, "a", 1));
    relay_cut(e.relay, 1, 2, false);
    assert_true(probe_closed(e.one, 2000));
    assert_true(probe_closed(e.two, 2000));
    ends_close(&e);
}

/* Slow links delay, in one direction, and lose nothing. */
static void delay_holds_back_for_so_long(void **state)
{
    struct ends e = ends_open();
    int64_t start;

    (void)state;
    assert_true(probe_write(e.one, "a", 1));
    assert_true(arrives(e.two, 2000));
    relay_delay(e.relay, 1, 2, 150);
    start = probe_mono_ms();
    assert_true(probe_write(e.two, "b", 1));
    assert_true(arrives(e.one, 2000));
    assert_true(probe_mono_ms() - start < 150);
    start = probe_mono_ms();
    assert_true(probe_write(e.one, "a", 1));
    assert_true(arrives(e.two, 2000));
    assert_true(probe_mono_ms() - start >= 149); /* begun within a millisecond */
    ends_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_bytes_both_ways),
        cmocka_unit_test(one_way_cut_holds_one_direction),
        cmocka_unit_test(cut_works_against_the_dialling_direction),
        cmocka_unit_test(healing_closes_what_was_held),
        cmocka_unit_test(delay_holds_back_for_so_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
