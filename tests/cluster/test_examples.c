/* test_examples.c: the programs of docs/examples do what they say, against a cluster of
 * three. Each judges itself: exit 0 is success. */
#include "tests/lib/cases.h"

#include <unistd.h>

/* Run examples/NAME with the addresses of the cluster and one more word. */
static void run(struct cluster *c, const char *name, const char *word)
{
    char program[64];
    const char *argv[4] = {NULL, cluster_addresses(c), word, NULL};
    pid_t pid;

    snprintf(program, sizeof program, "examples/%s", name);
    argv[0] = cluster_program(program);
    pid = probe_spawn(argv, -1, -1, STDERR_FILENO);
    assert_true(pid > 0);
    assert_int_equal(probe_wait(pid, 60000), 0);
}

/* One topic, three queues, three consumers; a second round finds everything there. */
static void topic_is_pulled_by_three(void **state)
{
    struct cluster *c = *state;

    run(c, "pull_topic", "news");
    run(c, "pull_topic", "news");
    cluster_agree(c);
}

/* An order is paid or given up, never both. */
static void order_is_paid_or_given_up(void **state)
{
    struct cluster *c = *state;

    run(c, "order_timeout", "orders");
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(topic_is_pulled_by_three),
        cluster_unit_test(order_is_paid_or_given_up),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
