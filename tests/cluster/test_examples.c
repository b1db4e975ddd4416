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

/* A worker is killed in the middle of a job of three leases: the next one has it within
 * the lease. */
static void long_job_comes_back_with_its_lease(void **state)
{
    struct cluster *c = *state;

    run(c, "long_job", "long-job");
    cluster_agree(c);
}

/* Workers die between an effect and its ack, and while they write: each effect is there
 * once. */
static void idempotent_effects_happen_once(void **state)
{
    struct cluster *c = *state;

    run(c, "idempotent_consumer", "bookings");
    cluster_agree(c);
}

/* Workers die at random moments: each message makes one of the next queue. */
static void pipeline_makes_one_of_each(void **state)
{
    struct cluster *c = *state;

    run(c, "pipeline", "squares");
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(topic_is_pulled_by_three),
        cluster_unit_test(order_is_paid_or_given_up),
        cluster_unit_test(long_job_comes_back_with_its_lease),
        cluster_unit_test(idempotent_effects_happen_once),
        cluster_unit_test(pipeline_makes_one_of_each),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
