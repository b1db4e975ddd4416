/* test_batches.c: order, batches, and the edges of every size. */
#include "tests/lib/cases.h"

/* O-02: a batch is stored and received in its order. */
static void o02_batch_keeps_order(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct op_send_entry entries[10] = {0};
    const char *digits = "0123456789";
    uint32_t i, round, got = 0;

    cluster_caller(c, &k, "o02");
    assert_status(queue_create(&k, "o02", "lease=60000"), HF_OK);
    for (round = 0; round < 2; round++) {
        for (i = 0; i < 10; i++) {
            entries[i].body = slice_of(digits + i, 1);
        }
        assert_status(queue_send_batch(&k, "o02", entries, 10, &a), HF_OK);
        assert_int_equal(a.reply.send.count, 10);
        for (got = 0; got < 10; got += a.reply.receive.count) {
            assert_status(
                queue_receive(&k, "o02", round == 0 ? 10 : 4, 1000, NO_LEASE, &a),
                HF_OK);
            assert_true(a.reply.receive.count > 0);
            for (i = 0; i < a.reply.receive.count; i++) {
                assert_int_equal(a.reply.receive.messages[i].body.data[0],
                                 digits[got + i]);
            }
        }
        assert_int_equal(got, 10);
    }
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* Priority first, then order; also for messages that fall due together (O-10). */
static void o10_priority_then_order(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    int64_t due = probe_wall_ms() + 1500;
    int scheduled;

    cluster_caller(c, &k, "o10");
    assert_status(queue_create(&k, "o10", "lease=60000"), HF_OK);
    for (scheduled = 0; scheduled < 2; scheduled++) {
        uint32_t last_priority = 0, last_number = 0, i;

        for (i = 0; i < 48; i++) {
            struct op_send_entry e = {.priority = 16 - i % 16};
            char body[8];

            if (scheduled) {
                e.deliver_at = (struct optional_ms){true, due};
            }
            snprintf(body, sizeof body, "%02u", i);
            assert_status(queue_send(&k, "o10", body, 2, &e).status, HF_OK);
        }
        if (scheduled) {
            assert_true(queue_until(&k, "o10", 10000, queue_ready_is, 48));
        }
        for (i = 0; i < 48; i++) {
            struct taken t = queue_take(&k, "o10", 1000, NO_LEASE);
            uint32_t number = (uint32_t)strtoul(t.body, NULL, 10);

            assert_true(t.any);
            assert_true(t.priority >= last_priority);
            assert_true(t.priority > last_priority || number > last_number);
            last_priority = t.priority;
            last_number = number;
            assert_status(queue_ack(&k, "o10", t.receipt).status, HF_OK);
        }
    }
    caller_done(&k);
    cluster_agree(c);
}

static int send_count(struct caller *k, uint32_t count)
{
    struct op_send_entry *entries = calloc(count + 1, sizeof *entries);
    struct answer a = {0};
    uint32_t i;
    int rc;

    assert_non_null(entries);
    for (i = 0; i < count; i++) {
        entries[i].body = slice_text("x");
    }
    rc = queue_send_batch(k, "b01", entries, count, &a);
    answer_done(&a);
    free(entries);
    return rc;
}

static int settle_count(struct caller *k, enum settle_kind kind, const uint8_t *receipt,
                        uint32_t count)
{
    struct op_settle_entry *entries = calloc(count + 1, sizeof *entries);
    struct op_request r = {.op = OP_SETTLE,
                           .settle = {.queue = slice_text("b01"),
                                      .kind = kind,
                                      .entries = entries,
                                      .count = count}};
    struct answer a = {0};
    uint32_t i;
    int rc;

    assert_non_null(entries);
    for (i = 0; i < count; i++) {
        entries[i].receipt = slice_of(receipt, RECEIPT_BYTES);
        entries[i].delay = (struct optional_ms){true, 60000};
    }
    rc = caller_call(k, &r, false, &a);
    answer_done(&a);
    free(entries);
    return rc;
}

static bool refused(int rc)
{
    return rc == HF_E_INVALID_ARGUMENT || rc == HF_E_TOO_LARGE;
}

/* B-01: an empty batch and one above the limit are refused by every call, and
 * nothing changes. */
static void b01_empty_and_oversized_batches(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct op_queue_info before, after;
    struct answer a = {0};

    cluster_caller(c, &k, "b01");
    assert_status(queue_create(&k, "b01", "lease=60000"), HF_OK);
    assert_status(send_count(&k, LIMIT_BATCH), HF_OK);
    assert_status(send_count(&k, 1), HF_OK);
    t = queue_take(&k, "b01", 1000, NO_LEASE);
    assert_true(t.any);
    before = queue_stats(&k, "b01", NULL);

    assert_true(refused(send_count(&k, 0)));
    assert_true(refused(send_count(&k, LIMIT_BATCH + 1)));
    assert_true(refused(settle_count(&k, SETTLE_ACK, t.receipt, 0)));
    assert_true(refused(settle_count(&k, SETTLE_ACK, t.receipt, LIMIT_BATCH + 1)));
    assert_true(refused(settle_count(&k, SETTLE_EXTEND, t.receipt, 0)));
    assert_true(refused(settle_count(&k, SETTLE_EXTEND, t.receipt, LIMIT_BATCH + 1)));
    assert_true(refused(queue_receive(&k, "b01", LIMIT_BATCH + 1, 0, NO_LEASE, &a)));
    assert_true(refused(queue_receive(&k, "b01", UINT32_MAX, 0, NO_LEASE, &a)));

    after = queue_stats(&k, "b01", NULL);
    before.oldest_ready_ms = after.oldest_ready_ms = 0;
    assert_memory_equal(&before, &after, sizeof before);
    assert_status(queue_receive(&k, "b01", LIMIT_BATCH, 0, NO_LEASE, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, LIMIT_BATCH);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* Filled so that every byte value occurs and a shift by one would show. */
static void body_fill(uint8_t *body, size_t len, uint64_t seed)
{
    size_t i;

    for (i = 0; i < len; i++) {
        body[i] = i < 256 ? (uint8_t)(i + seed) : (uint8_t)probe_random(&seed);
    }
}

/* B-03: at the limit accepted and byte-identical, one above refused; the same for
 * the sum of a batch. */
static void b03_size_edges(void **state)
{
    enum { LIMIT = 262144 };
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct op_send_entry entries[4] = {0};
    uint8_t *body = malloc(LIMIT_MESSAGE_BYTES + 1);
    size_t len;
    int i;

    assert_non_null(body);
    cluster_caller(c, &k, "b03");
    assert_status(queue_create(&k, "b03", "lease=60000"), HF_OK);
    for (len = LIMIT - 1; len <= LIMIT + 1; len++) {
        struct sent s;

        body_fill(body, len, len);
        s = queue_send(&k, "b03", body, len, NULL);
        assert_status(s.status, len <= LIMIT ? HF_OK : HF_E_TOO_LARGE);
        if (len <= LIMIT) {
            assert_status(queue_receive(&k, "b03", 1, 1000, NO_LEASE, &a), HF_OK);
            assert_int_equal(a.reply.receive.count, 1);
            assert_int_equal(a.reply.receive.messages[0].body.len, len);
            assert_memory_equal(a.reply.receive.messages[0].body.data, body, len);
        }
    }
    for (i = 0; i < 4; i++) {
        entries[i].body = slice_of(body, LIMIT_BATCH_BYTES / 4);
    }
    assert_status(queue_send_batch(&k, "b03", entries, 4, &a), HF_OK);
    for (i = 0; i < 4; i++) {
        assert_status(a.reply.send.results[i].error.status, HF_OK);
    }
    assert_status(queue_set(&k, "b03", "max_message_bytes=4194304"), HF_OK);
    entries[3].body = slice_of(body, LIMIT_BATCH_BYTES / 4 + 1);
    assert_status(queue_send_batch(&k, "b03", entries, 4, &a), HF_E_TOO_LARGE);

    /* The largest message there is passes; one byte more does not. */
    body_fill(body, LIMIT_MESSAGE_BYTES, 7);
    assert_status(queue_purge(&k, "b03"), HF_OK);
    assert_true(queue_until(&k, "b03", 10000, queue_empty, 0));
    assert_status(queue_send(&k, "b03", body, LIMIT_MESSAGE_BYTES, NULL).status, HF_OK);
    assert_status(queue_send(&k, "b03", body, LIMIT_MESSAGE_BYTES + 1, NULL).status,
                  HF_E_TOO_LARGE);
    assert_status(queue_receive(&k, "b03", 1, 1000, NO_LEASE, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 1);
    assert_int_equal(a.reply.receive.messages[0].body.len, LIMIT_MESSAGE_BYTES);
    assert_memory_equal(a.reply.receive.messages[0].body.data, body,
                        LIMIT_MESSAGE_BYTES);
    free(body);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* Send bodies of the lengths from..to, receive and ack them all and compare. */
static void lengths_come_back(struct caller *k, const char *queue, uint32_t from,
                              uint32_t to, bool send)
{
    uint8_t *body = malloc(to + 1);
    struct answer a = {0};
    uint32_t len, next = from;

    assert_non_null(body);
    for (len = from; send && len <= to; len++) {
        body_fill(body, len, len);
        assert_status(queue_send(k, queue, body, len, NULL).status, HF_OK);
    }
    while (next <= to) {
        uint32_t i;
        int rc = queue_receive(k, queue, LIMIT_BATCH, 2000, 60000, &a);

        if (rc == HF_E_UNKNOWN_OUTCOME) {
            continue;
        }
        assert_status(rc, HF_OK);
        assert_true(a.reply.receive.count > 0);
        for (i = 0; i < a.reply.receive.count; i++, next++) {
            const struct op_message *m = &a.reply.receive.messages[i];

            body_fill(body, next, next);
            assert_int_equal(m->body.len, next);
            assert_memory_equal(m->body.data, body, next);
        }
        assert_status(queue_ack_all(k, queue, &a), HF_OK);
    }
    free(body);
    answer_done(&a);
}

/* B-05: bodies of every length 0..1100 with all byte values are byte-identical,
 * before and after a failover. */
static void b05_every_length_survives(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    uint8_t *body = malloc(2000);
    uint32_t len;
    int leader;

    assert_non_null(body);
    cluster_caller(c, &k, "b05");
    assert_status(queue_create(&k, "b05", ""), HF_OK);
    lengths_come_back(&k, "b05", 0, 1100, true);
    for (len = 0; len <= 300; len++) {
        body_fill(body, len, len);
        assert_status(queue_send(&k, "b05", body, len, NULL).status, HF_OK);
    }
    leader = cluster_leader(c, 10000);
    node_kill(c, leader);
    cluster_leader(c, 10000);
    node_start(c, leader);
    lengths_come_back(&k, "b05", 0, 300, false);
    free(body);
    caller_done(&k);
    cluster_agree(c);
}

/* B-07: names at the edge: allowed ones are fully usable and do not mix with names
 * they are a prefix of. */
static void b07_queue_names(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    char longest[LIMIT_QUEUE_NAME + 2];
    const char *allowed[] = {"a", "A", "ab", "ab-1", "ab.1", "ab_1", longest};
    const char *refused_names[] = {"", "a b", "a\n", "\xff\xfe"};
    size_t i, n = sizeof allowed / sizeof *allowed;

    cluster_caller(c, &k, "b07");
    memset(longest, 'x', sizeof longest);
    longest[LIMIT_QUEUE_NAME] = '\0';
    for (i = 0; i < n; i++) {
        assert_status(queue_create(&k, allowed[i], "lease=60000"), HF_OK);
        assert_status(queue_text(&k, allowed[i], allowed[i]).status, HF_OK);
        assert_status(queue_text(&k, allowed[i], allowed[i]).status, HF_OK);
    }
    assert_status(queue_purge(&k, "a"), HF_OK);
    assert_true(queue_until(&k, "a", 5000, queue_empty, 0));
    for (i = 1; i < n; i++) {
        struct taken t = queue_take(&k, allowed[i], 1000, NO_LEASE);

        assert_true(t.any);
        assert_string_equal(t.body, allowed[i]);
        assert_status(queue_ack(&k, allowed[i], t.receipt).status, HF_OK);
        assert_int_equal(queue_stats(&k, allowed[i], NULL).ready, 1);
    }
    assert_status(queue_delete(&k, "ab", true), HF_OK);
    assert_status(queue_text(&k, "ab", "gone").status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(queue_stats(&k, "ab-1", NULL).ready, 1);

    longest[LIMIT_QUEUE_NAME] = 'x';
    longest[LIMIT_QUEUE_NAME + 1] = '\0';
    assert_status(queue_create(&k, longest, ""), HF_E_INVALID_ARGUMENT);
    for (i = 0; i < sizeof refused_names / sizeof *refused_names; i++) {
        assert_status(queue_create(&k, refused_names[i], ""), HF_E_INVALID_ARGUMENT);
    }
    {
        struct op_request r = {.op = OP_QUEUE_CREATE,
                               .queue_create = {.queue = slice_of("a\0b", 3)}};
        struct answer a = {0};

        assert_status(caller_call(&k, &r, false, &a), HF_E_INVALID_ARGUMENT);
        answer_done(&a);
    }
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(o02_batch_keeps_order),
        cluster_unit_test(o10_priority_then_order),
        cluster_unit_test(b01_empty_and_oversized_batches),
        cluster_unit_test(b03_size_edges),
        cluster_unit_test(b05_every_length_survives),
        cluster_unit_test(b07_queue_names),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
