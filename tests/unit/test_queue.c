/* test_queue.c: queue attributes, names, and the table that comes back after a
 * restart. */
#include "proto/pack.h"
#include "raftlog/queue.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_done(*state);
    return 0;
}

static int parse(struct rig *r, struct slice attributes, struct queue_config *c,
                 struct op_error *error)
{
    memset(error, 0, sizeof *error);
    queue_config_defaults(c);
    return queue_config_parse(attributes, &r->arena, c, error);
}

static bool says(struct slice text, const char *word)
{
    return text.data != NULL && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

static void names_are_of_a_documented_set(void **state)
{
    static const char *const good[] = {"a",   "A",   "0",       "_x",
                                       "a.b", "a/b", "a:b-c_d", "a..b"};
    static const char *const bad[] = {"",    ".a",   "/a",        "-a",  ":a", "a b",
                                      "a\n", "\xff", "a\xc3\xa9", "a,b", "a*", ".."};
    char longest[LIMIT_QUEUE_NAME + 2];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(queue_name_valid(slice_text(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(queue_name_valid(slice_text(bad[i])));
    }
    assert_false(queue_name_valid(slice_of("a\0b", 3)));
    memset(longest, 'x', sizeof longest);
    assert_true(queue_name_valid(slice_of(longest, LIMIT_QUEUE_NAME)));
    assert_false(queue_name_valid(slice_of(longest, LIMIT_QUEUE_NAME + 1)));
}

/* Longest names, names that begin alike, names that differ only in case: no
 * cross-talk. */
static void names_that_begin_alike_are_apart(void **state)
{
    static const char *const names[] = {"q", "q/", "q/a", "Q", "qq", "q.a"};
    struct rig *r = *state;
    char longest[LIMIT_QUEUE_NAME + 1];
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_queue_list list = {.prefix = slice_text("q/"), .limit = 10};
    struct op_reply reply = {0};

    memset(longest, 'x', LIMIT_QUEUE_NAME);
    longest[LIMIT_QUEUE_NAME] = '\0';
    assert_int_equal(rig_create(r, longest), HF_OK);
    (void)rig_send(r, longest, "x");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(rig_create(r, names[i]), HF_OK);
        (void)rig_send(r, names[i], names[i]);
    }
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->count.count, 1);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(rig_stats(r, names[i])->ready, 1);
    }
    assert_int_equal(rig_stats(r, longest)->ready, 1);
    machine_queue_list(r->machine, &list, r->now_ms, &r->arena, &reply);
    assert_int_equal(reply.queue_list.count, 2);
    assert_true(slice_equal(reply.queue_list.queues[0].name, slice_text("q/")));
    assert_true(slice_equal(reply.queue_list.queues[1].name, slice_text("q/a")));
    rig_verify(r);
}

/* Every attribute at a value of its own comes back after a restart and after a
 * transfer (S-12). */
static void all_attributes_come_back(void **state)
{
    struct rig *r = *state;
    struct queue_config c;
    struct op_buffer b = {0};
    struct op_request create = {.op = OP_QUEUE_CREATE};
    struct op_queue_show show = {.queue = slice_text("q")};
    struct op_reply reply = {0};

    assert_int_equal(rig_create(r, "d"), HF_OK);
    queue_config_defaults(&c);
    for (unsigned a = 0; a < QUEUE_ATTRIBUTES; a++) {
        const struct queue_attribute_info *info =
            queue_attribute_info((enum queue_attribute)a);

        if (info->type == ATTRIBUTE_TEXT) {
            assert_true(queue_config_set_text(
                &c, (enum queue_attribute)a,
                slice_text(a == QUEUE_retry_steps
                               ? "1111111111ms 1111111112ms 1111111113ms 1111111114ms "
                                 "1111111115ms 1111111116ms 1111111117ms 1111111118ms "
                                 "1111111119ms 1111111121ms 1111111122ms 1111111123ms "
                                 "1111111124ms 1111111125ms 1111111126ms 1111111127ms"
                               : "d")));
        } else {
            c.value[a] = info->fallback != info->high ? info->high : info->low;
        }
    }
    queue_config_pack(&c, &b);
    create.queue_create.queue = slice_text("q");
    create.queue_create.attributes = slice_of(b.data, b.len);
    assert_int_equal(rig_apply(r, &create)->error.status, HF_OK);
    rig_checkpoint(r);
    rig_reopen(r);
    machine_queue_show(r->machine, &show, r->now_ms, &r->arena, &reply);
    assert_int_equal(reply.queue_list.count, 1);
    assert_true(
        slice_equal(reply.queue_list.queues[0].attributes, slice_of(b.data, b.len)));
    assert_true(rig_apply(r, &create)->queue_create.existed);
    op_buffer_done(&b);
}

/* Created again with the same attributes: it existed. With others: refused, and the
 * difference said. */
static void creating_again_compares(void **state)
{
    struct rig *r = *state;
    struct op_request create = {.op = OP_QUEUE_CREATE};
    struct op_reply *reply;

    create.queue_create.queue = slice_text("q");
    create.queue_create.attributes = rig_attribute(r, "lease", 5000);
    assert_false(rig_apply(r, &create)->queue_create.existed);
    assert_true(rig_apply(r, &create)->queue_create.existed);
    create.queue_create.attributes = rig_attribute(r, "lease", 6000);
    reply = rig_apply(r, &create);
    assert_int_equal(reply->error.status, HF_E_QUEUE_EXISTS);
    assert_true(slice_equal(reply->error.element, slice_text("lease")));
    assert_true(says(reply->error.message, "5000"));
    assert_true(says(reply->error.message, "6000"));
}

/* A set takes effect at once, and only what was named changes. */
static void set_changes_what_it_names(void **state)
{
    struct rig *r = *state;

    assert_int_equal(
        rig_create_with(r, "q", "lease", 5000ll, "max_failures", 3ll, NULL), HF_OK);
    (void)rig_send(r, "q", "x");
    assert_int_equal(rig_set(r, "q", "lease", 7000), HF_OK);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].next_visible_at,
                     r->now_ms + 7000);
    assert_int_equal(rig_set(r, "q", "lease", 1), HF_E_INVALID_ARGUMENT);
    assert_int_equal(rig_set(r, "nobody", "lease", 5000), HF_E_QUEUE_NOT_FOUND);
    {
        struct queue_config c;
        struct op_error error;

        assert_int_equal(parse(r, rig_stats(r, "q")->attributes, &c, &error), HF_OK);
        assert_int_equal(c.value[QUEUE_max_failures], 3);
        assert_int_equal(c.value[QUEUE_lease], 7000);
    }
}

/* Listing goes through all names in order, page by page, each once. */
static void listing_pages_are_complete(void **state)
{
    struct rig *r = *state;
    struct op_queue_list list = {.limit = 7};
    char last[LIMIT_QUEUE_NAME + 1] = "";
    uint32_t seen = 0;
    bool more = true;

    for (int i = 0; i < 40; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%02d", (i * 7) % 40);
        assert_int_equal(rig_create(r, name), HF_OK);
    }
    while (more) {
        struct op_reply reply = {0};

        machine_queue_list(r->machine, &list, r->now_ms, &r->arena, &reply);
        assert_int_equal(reply.error.status, HF_OK);
        for (uint32_t i = 0; i < reply.queue_list.count; i++) {
            char name[LIMIT_QUEUE_NAME + 1];

            (void)snprintf(name, sizeof name, "%.*s",
                           (int)reply.queue_list.queues[i].name.len,
                           (const char *)reply.queue_list.queues[i].name.data);
            assert_true(strcmp(name, last) > 0);
            (void)snprintf(last, sizeof last, "%s", name);
            seen++;
        }
        more = reply.queue_list.more;
        list.after = slice_text(last);
    }
    assert_int_equal(seen, 40);
    /* A cursor from before the prefix does not hide what is there. */
    list.prefix = slice_text("n2");
    list.after = slice_text("a");
    list.limit = 100;
    {
        struct op_reply reply = {0};

        machine_queue_list(r->machine, &list, r->now_ms, &r->arena, &reply);
        assert_int_equal(reply.queue_list.count, 10);
        list.after = slice_text("n25");
        memset(&reply, 0, sizeof reply);
        machine_queue_list(r->machine, &list, r->now_ms, &r->arena, &reply);
        assert_int_equal(reply.queue_list.count, 4);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(names_are_of_a_documented_set), T(names_that_begin_alike_are_apart),
        T(all_attributes_come_back),      T(creating_again_compares),
        T(set_changes_what_it_names),     T(listing_pages_are_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
