/* test_rpc.c: messages come back as they were, and nothing else is taken for one. */
#include "raftlog/rpc.h"

#include "proto/crc32c.h"
#include "proto/status.h"
#include "raftlog/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t random_state;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 8;
}

static const uint8_t *const payload = (const uint8_t *)"some bytes of an entry";

/* One message of each kind. */
static size_t examples(struct rpc out[8], struct rpc_entry entries[3])
{
    size_t n = 0;

    for (uint32_t i = 0; i < 3; i++) {
        entries[i] = (struct rpc_entry){.term = 4 + i / 2,
                                        .type = (uint8_t)(RECORD_COMMAND + i),
                                        .payload = slice_of(payload, i * 11)};
    }
    out[n] = (struct rpc){.type = RPC_VOTE, .term = 5};
    out[n].vote.last_index = 99;
    out[n].vote.last_term = 4;
    out[n++].vote.pre_vote = true;
    out[n] = (struct rpc){.type = RPC_VOTE_RESULT, .term = 5};
    out[n++].vote_result.granted = true;
    out[n] = (struct rpc){.type = RPC_APPEND, .term = 5};
    out[n].append.commit = 7;
    out[n++].append.clock = 1234;
    out[n] = (struct rpc){.type = RPC_APPEND, .term = 5};
    out[n].append.previous_index = 10;
    out[n].append.previous_term = 4;
    out[n].append.count = 3;
    out[n++].append.entries = entries;
    out[n] = (struct rpc){.type = RPC_APPEND_RESULT, .term = 5};
    out[n].append_result.rejected = 8;
    out[n].append_result.last_index = 7;
    out[n++].append_result.echo = 1234;
    out[n] = (struct rpc){.type = RPC_TIMEOUT_NOW, .term = 5};
    out[n].timeout_now.last_index = 3;
    out[n++].timeout_now.last_term = 2;
    return n;
}

static void messages_come_back(void **state)
{
    struct rpc_entry entries[3];
    struct rpc all[8];
    size_t count = examples(all, entries);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct rpc_entry *got;
        struct rpc m;
        size_t len;
        size_t again_len;
        uint8_t *frame = rpc_encode(&all[i], &len);
        uint8_t *again;

        assert_int_equal(bytes_get_u32(frame), len - 4);
        assert_int_equal(rpc_decode(slice_of(frame, len), &m, &got), HF_OK);
        assert_int_equal(m.type, all[i].type);
        again = rpc_encode(&m, &again_len);
        assert_int_equal(again_len, len);
        assert_memory_equal(again, frame, len);
        free(again);
        free(got);
        free(frame);
    }
}

/* Each cut, and each flipped bit. */
static void damaged_frames_are_refused(void **state)
{
    struct rpc_entry entries[3];
    struct rpc all[8];
    size_t count = examples(all, entries);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct rpc_entry *got;
        struct rpc m;
        size_t len;
        uint8_t *frame = rpc_encode(&all[i], &len);

        for (size_t cut = 0; cut < len; cut++) {
            uint8_t *copy = malloc(cut + 1);

            memcpy(copy, frame, cut);
            assert_int_equal(rpc_decode(slice_of(copy, cut), &m, &got), HF_E_PROTOCOL);
            free(copy);
        }
        for (size_t bit = 0; bit < len * 8; bit++) {
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(rpc_decode(slice_of(frame, len), &m, &got), HF_E_PROTOCOL);
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(frame);
    }
}

/* With a right checksum over wrong bytes: refused, or a message that keeps the rules.
 */
static void hostile_frames_keep_the_rules(void **state)
{
    const char *given = getenv("HOLDFAST_SEED");
    struct rpc_entry entries[3];
    struct rpc all[8];
    size_t count = examples(all, entries);

    (void)state;
    random_state = given != NULL ? strtoull(given, NULL, 0) : 42;
    printf("HOLDFAST_SEED=%llu\n", (unsigned long long)random_state);
    for (unsigned round = 0; round < 200000; round++) {
        struct rpc_entry *got;
        struct rpc m;
        size_t len;
        uint8_t *frame = rpc_encode(&all[draw() % count], &len);
        uint64_t changes = 1 + draw() % 4;

        while (changes-- > 0) {
            frame[8 + draw() % (len - 8)] = (uint8_t)(draw() % 3 == 0 ? 0xff : draw());
        }
        if (draw() % 4 == 0) {
            len -= draw() % (len - RPC_HEADER_BYTES + 1);
            bytes_put_u32(frame, (uint32_t)(len - 4));
        }
        bytes_put_u32(frame + 4, crc32c(0, frame + 8, len - 8));
        if (rpc_decode(slice_of(frame, len), &m, &got) == HF_OK) {
            assert_true(m.term > 0);
            if (m.type == RPC_APPEND) {
                uint64_t term = m.append.previous_term;

                for (uint32_t k = 0; k < m.append.count; k++) {
                    assert_true(got[k].term >= term);
                    term = got[k].term;
                    assert_true(
                        got[k].payload.len == 0 ||
                        (got[k].payload.data >= frame &&
                         got[k].payload.data + got[k].payload.len <= frame + len));
                }
                assert_true(term <= m.term);
            }
            free(got);
        }
        free(frame);
    }
}

static int decode_append(uint64_t previous_index, uint64_t previous_term,
                         uint64_t entry_term, uint64_t term)
{
    struct rpc_entry entry = {.term = entry_term, .type = RECORD_COMMAND};
    struct rpc m = {.type = RPC_APPEND, .term = term};
    struct rpc_entry *got;
    struct rpc back;
    uint8_t *frame;
    size_t len;
    int rc;

    entry.payload = slice_of(payload, 3);
    m.append.previous_index = previous_index;
    m.append.previous_term = previous_term;
    m.append.count = 1;
    m.append.entries = &entry;
    frame = rpc_encode(&m, &len);
    rc = rpc_decode(slice_of(frame, len), &back, &got);
    free(got);
    free(frame);
    return rc;
}

/* What no leader can say. */
static void impossible_terms_are_refused(void **state)
{
    (void)state;
    assert_int_equal(decode_append(5, 2, 3, 3), HF_OK);
    assert_int_equal(decode_append(5, 2, 1, 3), HF_E_PROTOCOL);
    assert_int_equal(decode_append(5, 2, 4, 3), HF_E_PROTOCOL);
    assert_int_equal(decode_append(0, 2, 3, 3), HF_E_PROTOCOL);
    assert_int_equal(decode_append(5, 0, 3, 3), HF_E_PROTOCOL);
    assert_int_equal(decode_append(0, 0, 0, 3), HF_E_PROTOCOL);
    assert_int_equal(decode_append(UINT64_MAX, 2, 3, 3), HF_E_PROTOCOL);
    assert_int_equal(decode_append(5, 2, 3, UINT64_MAX), HF_E_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_back),
        cmocka_unit_test(damaged_frames_are_refused),
        cmocka_unit_test(hostile_frames_keep_the_rules),
        cmocka_unit_test(impossible_terms_are_refused),
    };

    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
