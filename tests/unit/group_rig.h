/* group_rig.h: queue "q" of a rig, and messages of groups in it by one character each: what
 * test_group.c and test_fair.c begin with. To be included by one source file. */
#ifndef HF_TESTS_UNIT_GROUP_RIG_H
#define HF_TESTS_UNIT_GROUP_RIG_H

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
    assert_int_equal(rig_create(&rig, "q"), HF_OK);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_verify(*state);
    rig_done(*state);
    return 0;
}

static uint64_t send_with(struct rig *r, const char *group, const char *body,
                          uint32_t priority, int64_t delay_ms)
{
    struct op_send_entry entry = {.body = slice_text(body), .priority = priority};
    struct op_request request = {.op = OP_SEND};
    struct op_reply *reply;

    if (group != NULL) {
        entry.group = slice_text(group);
    }
    if (delay_ms > 0) {
        entry.delay.set = true;
        entry.delay.value = delay_ms;
    }
    request.send.queue = slice_text("q");
    request.send.entries = &entry;
    request.send.count = 1;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->send.results[0].error.status, HF_OK);
    return reply->send.results[0].id.low;
}

static uint64_t put(struct rig *r, const char *group, const char *body)
{
    return send_with(r, group, body, 0, 0);
}

/* The bodies of a receive, one character each. */
static const char *take(struct rig *r, uint32_t max, struct op_receive_reply **got)
{
    static char text[LIMIT_BATCH + 1];
    struct op_receive_reply *reply = rig_receive(r, "q", max);

    for (uint32_t i = 0; i < reply->count; i++) {
        text[i] = (char)reply->messages[i].body.data[0];
    }
    text[reply->count] = '\0';
    if (got != NULL) {
        *got = reply;
    }
    rig_verify(r);
    return text;
}

static void settle(struct rig *r, enum settle_kind kind, const struct op_message *m,
                   int64_t delay_ms)
{
    assert_int_equal(rig_settle(r, "q", kind, m->receipt, delay_ms)->error.status,
                     HF_OK);
    rig_verify(r);
}

#endif
