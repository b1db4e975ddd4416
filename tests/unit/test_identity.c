/* test_identity.c: what a disk says about itself, and what is refused. */
#include "raftlog/identity.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOT_BYTES 8192u

/* Two copies in memory. `writes_left` makes the write after so many fail. */
struct memory {
    uint8_t data[2][SLOT_BYTES];
    size_t len[2];
    bool there[2];
    int writes_left;
};

static int memory_read(void *ctx, enum disk_slot slot, int copy, void *data,
                       size_t *len)
{
    struct memory *m = ctx;

    assert_int_equal(slot, DISK_SLOT_IDENTITY);
    if (!m->there[copy]) {
        return HF_E_MESSAGE_NOT_FOUND;
    }
    if (m->len[copy] > *len) {
        return HF_E_TOO_LARGE;
    }
    memcpy(data, m->data[copy], m->len[copy]);
    *len = m->len[copy];
    return HF_OK;
}

static int memory_write(void *ctx, enum disk_slot slot, int copy, const void *data,
                        size_t len)
{
    struct memory *m = ctx;

    assert_int_equal(slot, DISK_SLOT_IDENTITY);
    assert_true(len <= SLOT_BYTES);
    m->there[copy] = true;
    if (m->writes_left == 0) {
        m->len[copy] = len / 2; /* torn */
        memcpy(m->data[copy], data, len / 2);
        return HF_E_IO;
    }
    m->writes_left--;
    memcpy(m->data[copy], data, len);
    m->len[copy] = len;
    return HF_OK;
}

static const struct disk_ops memory_ops = {
    .slot_read = memory_read,
    .slot_write = memory_write,
};

static struct disk memory_disk(struct memory *m)
{
    return (struct disk){.ops = &memory_ops, .ctx = m};
}

static char why[512];

static int open_as(struct memory *m, const char *cluster, uint64_t node,
                   struct identity *out)
{
    struct disk disk = memory_disk(m);

    why[0] = '\0';
    return identity_open(&disk, cluster, node, out, why, sizeof why);
}

static int setup(void **state)
{
    struct memory *m = calloc(1, sizeof *m);

    m->writes_left = 1000;
    *state = m;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* The first start makes an identity; the second one finds the same. */
static void a_fresh_disk_gets_an_identity_that_stays(void **state)
{
    struct identity a;
    struct identity b;

    assert_int_equal(open_as(*state, "c", 3, &a), HF_OK);
    assert_int_equal(a.state, IDENTITY_BLANK);
    assert_int_equal(a.node, 3);
    assert_int_equal(open_as(*state, "c", 3, &b), HF_OK);
    assert_true(a.disk_id == b.disk_id);
}

/* Two disks of one node have different raft ids. */
static void another_disk_has_another_raft_id(void **state)
{
    struct memory *other = calloc(1, sizeof *other);
    struct identity a;
    struct identity b;

    other->writes_left = 1000;
    assert_int_equal(open_as(*state, "c", 3, &a), HF_OK);
    assert_int_equal(open_as(other, "c", 3, &b), HF_OK);
    assert_true(identity_raft_id(3, a.disk_id) != identity_raft_id(3, b.disk_id));
    assert_int_equal(identity_node_of(identity_raft_id(3, a.disk_id)), 3);
    assert_int_equal(identity_node_of(identity_raft_id(65535, a.disk_id)), 65535);
    free(other);
}

/* A disk of another cluster or node is refused, and the refusal says whose it is. */
static void a_foreign_disk_is_refused(void **state)
{
    struct identity a;

    assert_int_equal(open_as(*state, "red", 3, &a), HF_OK);
    assert_int_equal(open_as(*state, "blue", 3, &a), HF_E_CONFLICT);
    assert_non_null(strstr(why, "\"red\""));
    assert_int_equal(open_as(*state, "red", 4, &a), HF_E_CONFLICT);
    assert_non_null(strstr(why, "node 3"));
}

/* The founding membership and the state come back as they were written. */
static void founding_is_remembered(void **state)
{
    struct disk disk = memory_disk(*state);
    struct membership m = {.count = MEMBERS_MAX};
    struct identity a;
    struct identity b;
    uint32_t i;

    for (i = 0; i < MEMBERS_MAX; i++) {
        m.members[i].raft_id = 1000 + i;
        m.members[i].role = MEMBER_VOTER;
        memset(m.members[i].address, 'a' + (int)i, 255);
    }
    assert_int_equal(open_as(*state, "c", 3, &a), HF_OK);
    assert_int_equal(identity_set_founded(&disk, &a, &m), HF_OK);
    assert_int_equal(open_as(*state, "c", 3, &b), HF_OK);
    assert_int_equal(b.state, IDENTITY_MEMBER);
    assert_int_equal(b.founding.count, MEMBERS_MAX);
    assert_memory_equal(&b.founding, &m, sizeof m);
}

/* Either copy may be damaged after a change: the other one has the new state too. */
static void one_damaged_copy_does_not_bring_back_the_past(void **state)
{
    struct memory *m = *state;
    struct disk disk = memory_disk(m);
    struct identity a;
    struct identity b;
    int copy;

    assert_int_equal(open_as(m, "c", 3, &a), HF_OK);
    assert_int_equal(identity_set_state(&disk, &a, IDENTITY_MEMBER), HF_OK);
    for (copy = 0; copy < 2; copy++) {
        m->data[copy][20] ^= 1;
        assert_int_equal(open_as(m, "c", 3, &b), HF_OK);
        assert_int_equal(b.state, IDENTITY_MEMBER);
        assert_true(a.disk_id == b.disk_id);
        m->data[copy][20] ^= 1;
    }
}

/* Two damaged copies are refused; a new identity is not made over them. */
static void two_damaged_copies_are_refused(void **state)
{
    struct memory *m = *state;
    struct identity a;

    assert_int_equal(open_as(m, "c", 3, &a), HF_OK);
    m->data[0][20] ^= 1;
    m->data[1][20] ^= 1;
    assert_int_equal(open_as(m, "c", 3, &a), HF_E_CORRUPT);
    assert_non_null(strstr(why, "remove the data directory"));
}

/* A change whose write fails, at whichever of its writes, leaves a whole identity:
 * the one before or the one after. */
static void a_failed_write_leaves_a_whole_identity(void **state)
{
    struct memory *m = *state;
    struct disk disk = memory_disk(m);
    struct identity a;
    struct identity b;
    int n;

    assert_int_equal(open_as(m, "c", 3, &a), HF_OK);
    for (n = 0; n < 3; n++) {
        int rc;

        m->writes_left = n;
        rc = identity_set_state(&disk, &a, IDENTITY_JOINING);
        m->writes_left = 1000;
        assert_int_equal(rc, n < 2 ? HF_E_IO : HF_OK);
        assert_int_equal(open_as(m, "c", 3, &b), HF_OK);
        assert_true(b.disk_id == a.disk_id);
        assert_int_equal(b.state, n == 0 ? IDENTITY_BLANK : IDENTITY_JOINING);
        a = b;
        assert_int_equal(identity_set_state(&disk, &a, IDENTITY_BLANK), HF_OK);
    }
}

/* Every record that is cut short, or has one bit flipped, is refused. */
static void a_damaged_record_is_refused(void **state)
{
    struct identity a = {.node = 7, .disk_id = 99, .generation = 4, .cluster = "name"};
    struct identity b;
    uint8_t record[512];
    size_t len = identity_encode(&a, record, sizeof record);
    size_t i;

    (void)state;
    assert_true(len > 0);
    assert_int_equal(identity_decode(record, len, &b), HF_OK);
    assert_int_equal(b.disk_id, 99);
    for (i = 0; i < len; i++) {
        assert_int_equal(identity_decode(record, i, &b), HF_E_CORRUPT);
    }
    for (i = 0; i < 8 * len; i++) {
        record[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_int_equal(identity_decode(record, len, &b), HF_E_CORRUPT);
        record[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    assert_int_equal(identity_encode(&a, record, len - 1), 0);
}

/* A record of before cluster ids: a founder's follows from whom it founded with. */
static void a_record_of_version_1_is_read(void **state)
{
    struct identity a = {.node = 7, .disk_id = 99, .generation = 4, .cluster = "name"};
    struct identity b;
    uint8_t record[512];
    size_t len;

    (void)state;
    for (uint32_t founders = 0; founders < 3; founders++) {
        a.founding.count = founders;
        for (uint32_t i = 0; i < founders; i++) {
            a.founding.members[i].raft_id = 65543 + i;
            a.founding.members[i].role = MEMBER_VOTER;
        }
        len = identity_encode(&a, record, sizeof record) - 8;
        record[5] = 1;
        bytes_put_u32(record + len - 4, crc32c(0, record, len - 4));
        assert_int_equal(identity_decode(record, len, &b), HF_OK);
        assert_true(b.cluster_id ==
                    (founders == 0 ? 0 : identity_cluster_id(&a.founding)));
        record[5] = 3; /* of a later version */
        bytes_put_u32(record + len - 4, crc32c(0, record, len - 4));
        assert_int_equal(identity_decode(record, len, &b), HF_E_CORRUPT);
    }
}

/* The cluster that a disk joins is remembered; blank again, it belongs to none. */
static void the_cluster_is_remembered(void **state)
{
    struct disk disk = memory_disk(*state);
    struct identity a;
    struct identity b;

    assert_int_equal(open_as(*state, "c", 3, &a), HF_OK);
    assert_true(a.cluster_id == 0);
    assert_int_equal(identity_set_joining(&disk, &a, 77), HF_OK);
    assert_int_equal(identity_set_state(&disk, &a, IDENTITY_MEMBER), HF_OK);
    assert_int_equal(open_as(*state, "c", 3, &b), HF_OK);
    assert_true(b.cluster_id == 77);
    assert_int_equal(identity_set_state(&disk, &b, IDENTITY_BLANK), HF_OK);
    assert_int_equal(open_as(*state, "c", 3, &b), HF_OK);
    assert_true(b.cluster_id == 0);
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(a_fresh_disk_gets_an_identity_that_stays),
        t(another_disk_has_another_raft_id),
        t(a_foreign_disk_is_refused),
        t(founding_is_remembered),
        t(one_damaged_copy_does_not_bring_back_the_past),
        t(two_damaged_copies_are_refused),
        t(a_failed_write_leaves_a_whole_identity),
        t(a_damaged_record_is_refused),
        t(a_record_of_version_1_is_read),
        t(the_cluster_is_remembered),
    };

    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
