/* test_metrics.c: buckets, the text for Prometheus, and the list in the docs. */
#include "broker/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct metrics metrics;

static int setup(void **state)
{
    (void)state;
    memset(&metrics, 0, sizeof metrics);
    return 0;
}

static char *text_of(const struct op_queue_list_reply *queues)
{
    struct metrics_gauges gauges = {.term = 7, .quorum_age_ms = -1};
    struct op_buffer out = {0};

    metrics_text(&metrics, &gauges, 3, queues, &out);
    op_buffer_append(&out, "", 1);
    assert_false(out.failed);
    return (char *)out.data;
}

static void value_on_a_bound_counts_below_it(void **state)
{
    (void)state;
    histogram_add(&metrics.commit, 10);
    assert_int_equal(metrics.commit.buckets[0], 1);
    histogram_add(&metrics.commit, 11);
    assert_int_equal(metrics.commit.buckets[1], 1);
    histogram_add(&metrics.commit, 0);
    assert_int_equal(metrics.commit.buckets[0], 2);
    histogram_add(&metrics.commit, UINT64_MAX / 2);
    assert_int_equal(metrics.commit.buckets[METRICS_BUCKETS], 1);
}

static void quantile_is_the_bound_of_its_bucket(void **state)
{
    (void)state;
    assert_int_equal(histogram_quantile(&metrics.commit, 0.5), 0);
    for (int i = 0; i < 99; i++) {
        histogram_add(&metrics.commit, 150);
    }
    histogram_add(&metrics.commit, 40000);
    assert_int_equal(histogram_quantile(&metrics.commit, 0.5), 200);
    assert_int_equal(histogram_quantile(&metrics.commit, 0.99), 200);
    assert_int_equal(histogram_quantile(&metrics.commit, 1.0), 50000);
}

static void text_holds_counters_gauges_and_histograms(void **state)
{
    char *text;

    (void)state;
    metrics.messages_sent = 12;
    metrics_request(&metrics, OP_SEND, HF_E_QUEUE_FULL, 300);
    text = text_of(NULL);
    assert_non_null(strstr(text, "\nholdfast_messages_sent_total 12\n"));
    assert_non_null(strstr(text, "\nholdfast_term 7\n"));
    assert_non_null(strstr(text, "\nholdfast_node_info{node=\"3\"} 1\n"));
    assert_non_null(
        strstr(text, "holdfast_request_seconds_bucket{op=\"SEND\",le=\"0.0005\"} 1\n"));
    assert_non_null(strstr(text, "holdfast_request_seconds_count{op=\"SEND\"} 1\n"));
    assert_non_null(strstr(text, "holdfast_refusals_total{status=\"QueueFull\"} 1\n"));
    assert_non_null(strstr(text, "holdfast_commit_seconds_bucket{le=\"+Inf\"} 0\n"));
    free(text);
}

/* A queue's name cannot break out of its label. */
static void queue_names_are_cleaned(void **state)
{
    struct op_queue_info info = {.name = slice_text("a\"b\\c\nd"), .ready = 5};
    struct op_queue_list_reply queues = {&info, 1, false};
    char *text;

    (void)state;
    text = text_of(&queues);
    assert_non_null(
        strstr(text, "holdfast_queue_messages{queue=\"a_b_c_d\",state=\"ready\"} 5\n"));
    free(text);
}

/* Every metric stands in docs/operations.md, and no other. */
static void docs_list_exactly_these_metrics(void **state)
{
    struct op_queue_info info = {.name = slice_text("q")};
    struct op_queue_list_reply queues = {&info, 1, false};
    char path[1024];
    char *docs = NULL;
    size_t size = 0;
    FILE *file;
    char *text;
    unsigned documented = 0;
    unsigned found = 0;

    (void)state;
    snprintf(path, sizeof path, "%.*s/../../docs/operations.md",
             (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(getdelim(&docs, &size, '\0', file) > 0);
    fclose(file);

    text = text_of(&queues);
    for (char *line = strstr(text, "# TYPE "); line != NULL;
         line = strstr(line + 1, "# TYPE ")) {
        char name[128];
        char wanted[160];

        assert_int_equal(sscanf(line, "# TYPE %127s", name), 1);
        snprintf(wanted, sizeof wanted, "`%s`", name);
        if (strstr(docs, wanted) == NULL) {
            fail_msg("docs/operations.md does not list %s", name);
        }
        found++;
    }
    for (char *p = strstr(docs, "\n| `holdfast_"); p != NULL;
         p = strstr(p + 1, "\n| `holdfast_")) {
        documented++;
    }
    assert_int_equal(documented, found);
    free(text);
    free(docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(value_on_a_bound_counts_below_it, setup),
        cmocka_unit_test_setup(quantile_is_the_bound_of_its_bucket, setup),
        cmocka_unit_test_setup(text_holds_counters_gauges_and_histograms, setup),
        cmocka_unit_test_setup(queue_names_are_cleaned, setup),
        cmocka_unit_test_setup(docs_list_exactly_these_metrics, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
