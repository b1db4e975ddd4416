/* test_store.c: the LMDB environment: trees, errors that stick, views, checkpoints. */
#include "raftlog/bytes.h"
#include "raftlog/store.h"
#include "tests/lib/rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place_on_disk {
    char base[256];
    char dir[280];
    struct store *store;
    char why[512];
};

static int setup(void **state)
{
    static struct place_on_disk p;

    memset(&p, 0, sizeof p);
    rig_make_dir(p.base, sizeof p.base);
    (void)snprintf(p.dir, sizeof p.dir, "%s/state", p.base);
    if (mkdir(p.dir, 0700) != 0 ||
        store_create(p.dir, 64u << 20, &p.store, p.why, sizeof p.why) != HF_OK) {
        return -1;
    }
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    struct place_on_disk *p = *state;

    store_close(p->store);
    rig_remove_dir(p->base);
    return 0;
}

static struct slice key_of(uint64_t n)
{
    static uint8_t key[8];

    bytes_put_u64(key, n);
    return slice_of(key, 8);
}

static void checkpoint(struct place_on_disk *p, uint64_t index)
{
    struct store_pin *pin;

    assert_int_equal(store_commit(p->store), HF_OK);
    assert_int_equal(store_pin(p->store, &pin), HF_OK);
    assert_int_equal(store_checkpoint(pin, index, 1), HF_OK);
    store_pin_keep(p->store, pin);
}

static int reopen(struct place_on_disk *p, uint64_t *index)
{
    uint64_t term;

    store_close(p->store);
    p->store = NULL;
    return store_open(p->dir, 64u << 20, &p->store, index, &term, p->why,
                      sizeof p->why);
}

/* Put, get, overwrite, delete, and the cursor in key order. */
static void records_are_kept_in_order(void **state)
{
    struct place_on_disk *p = *state;
    struct slice key;
    struct slice value;

    store_put(p->store, TREE_MSG, key_of(3), slice_text("three"));
    store_put(p->store, TREE_MSG, key_of(1), slice_text("one"));
    store_put(p->store, TREE_MSG, key_of(2), slice_text("two"));
    assert_true(store_get(p->store, TREE_MSG, key_of(2), &value));
    assert_true(slice_equal(value, slice_text("two")));
    store_put(p->store, TREE_MSG, key_of(2), slice_text("zwei"));
    assert_true(store_seek(p->store, TREE_MSG, key_of(1), &key, &value));
    assert_int_equal(bytes_get_u64(key.data), 1);
    assert_true(store_next(p->store, TREE_MSG, &key, &value));
    assert_true(slice_equal(value, slice_text("zwei")));
    store_drop(p->store, TREE_MSG);
    assert_true(store_next(p->store, TREE_MSG, &key, &value));
    assert_int_equal(bytes_get_u64(key.data), 3);
    assert_false(store_next(p->store, TREE_MSG, &key, &value));
    assert_false(store_delete(p->store, TREE_MSG, key_of(2)));
    assert_true(store_delete(p->store, TREE_MSG, key_of(3)));
    assert_false(store_get(p->store, TREE_MSG, key_of(3), &value));
    assert_int_equal(store_status(p->store), HF_OK);
}

/* Putting late is only a hint: keys in any order come out right. */
static void late_puts_may_come_in_any_order(void **state)
{
    static const uint64_t order[] = {5, 9, 7, 1, 12, 11, 3, 20, 2};
    struct place_on_disk *p = *state;
    struct slice key;
    struct slice value;
    uint64_t last = 0;
    size_t seen = 0;
    bool more;

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        store_put_late(p->store, TREE_MSG, key_of(order[i]), slice_text("x"));
        if (order[i] == 12) {
            assert_true(store_delete(p->store, TREE_MSG, key_of(12)));
            store_put_late(p->store, TREE_MSG, key_of(12), slice_text("x"));
        }
    }
    more = store_seek(p->store, TREE_MSG, key_of(1), &key, &value);
    while (more) {
        assert_true(bytes_get_u64(key.data) > last);
        last = bytes_get_u64(key.data);
        seen++;
        more = store_next(p->store, TREE_MSG, &key, &value);
    }
    assert_int_equal(seen, sizeof order / sizeof order[0]);
    assert_int_equal(store_status(p->store), HF_OK);
}

/* Appending a key that is not the greatest is damage, and sticks. */
static void appending_out_of_order_fails_for_good(void **state)
{
    struct place_on_disk *p = *state;
    struct slice value;

    assert_non_null(store_put_space(p->store, TREE_MSG, key_of(5), 1, true));
    assert_null(store_put_space(p->store, TREE_MSG, key_of(4), 1, true));
    assert_int_equal(store_status(p->store), HF_E_CORRUPT);
    assert_false(store_get(p->store, TREE_MSG, key_of(5), &value));
    assert_int_equal(store_commit(p->store), HF_E_CORRUPT);
}

/* A full map is told as such; nothing of the transaction is committed. */
static void full_map_sticks_and_commits_nothing(void **state)
{
    static uint8_t block[60000];
    struct place_on_disk *p = *state;
    uint64_t index;
    struct slice value;

    store_put(p->store, TREE_MSG, key_of(1), slice_text("kept"));
    checkpoint(p, 1);
    for (uint64_t i = 2; store_status(p->store) == HF_OK && i < 3000; i++) {
        store_put(p->store, TREE_MSG, key_of(i), slice_of(block, sizeof block));
    }
    assert_int_equal(store_status(p->store), HF_E_NO_SPACE);
    assert_int_equal(store_commit(p->store), HF_E_NO_SPACE);
    assert_int_equal(reopen(p, &index), HF_OK);
    assert_true(store_get(p->store, TREE_MSG, key_of(1), &value));
    assert_false(store_get(p->store, TREE_MSG, key_of(2), &value));
}

static int count_record(void *ctx, struct slice key, struct slice value)
{
    (void)key;
    (void)value;
    ++*(int *)ctx;
    return HF_OK;
}

/* A view shows what was committed when it was opened, without the sentinel. */
static void view_stays_as_it_was_opened(void **state)
{
    struct place_on_disk *p = *state;
    struct store_view *v;
    int n = 0;

    store_put(p->store, TREE_MSG, key_of(1), slice_text("a"));
    assert_int_equal(store_commit(p->store), HF_OK);
    store_put(p->store, TREE_MSG, key_of(2), slice_text("b"));
    assert_int_equal(store_view_open(p->store, &v), HF_OK);
    assert_int_equal(store_commit(p->store), HF_OK);
    store_put(p->store, TREE_MSG, key_of(3), slice_text("c"));
    assert_int_equal(store_commit(p->store), HF_OK);
    assert_int_equal(store_view_each(v, TREE_MSG, count_record, &n), HF_OK);
    assert_int_equal(n, 1);
    assert_int_equal(store_view_each(v, TREE_BLOB, count_record, &n), HF_OK);
    assert_int_equal(n, 1);
    store_view_close(v);
}

/* Whatever was committed after the checkpoint, opening goes back to it. */
static void open_goes_back_to_the_checkpoint(void **state)
{
    struct place_on_disk *p = *state;
    struct slice value;
    uint64_t index = 0;

    store_put(p->store, TREE_MSG, key_of(1), slice_text("kept"));
    checkpoint(p, 42);
    for (uint64_t i = 2; i < 40; i++) {
        store_put(p->store, TREE_MSG, key_of(i), slice_text("not kept"));
        assert_int_equal(store_commit(p->store), HF_OK);
    }
    assert_int_equal(reopen(p, &index), HF_OK);
    assert_int_equal(index, 42);
    assert_true(store_get(p->store, TREE_MSG, key_of(1), &value));
    assert_false(store_get(p->store, TREE_MSG, key_of(2), &value));
}

static void state_without_checkpoint_is_refused(void **state)
{
    struct place_on_disk *p = *state;
    uint64_t index;

    assert_int_equal(store_commit(p->store), HF_OK);
    assert_int_equal(reopen(p, &index), HF_E_CORRUPT);
    assert_non_null(strstr(p->why, "no checkpoint"));
}

/* A checkpoint record that is cut or changed anywhere is not believed. */
static void damaged_checkpoint_is_refused(void **state)
{
    static const off_t places[] = {0, 7, 9, 20, 33, 4000, 8223, 8225};
    struct place_on_disk *p = *state;
    char path[300];
    uint64_t index;
    int fd;

    checkpoint(p, 1);
    (void)snprintf(path, sizeof path, "%s/checkpoint", p->dir);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        uint8_t byte;

        fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
        assert_int_equal(reopen(p, &index), HF_E_CORRUPT);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
        close(fd);
    }
    assert_int_equal(reopen(p, &index), HF_OK);
    assert_int_equal(truncate(path, 8000), 0);
    assert_int_equal(reopen(p, &index), HF_E_CORRUPT);
}

static void missing_data_file_is_refused(void **state)
{
    struct place_on_disk *p = *state;
    char path[300];
    uint64_t index;

    checkpoint(p, 1);
    (void)snprintf(path, sizeof path, "%s/data.mdb", p->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(reopen(p, &index), HF_E_CORRUPT);
}

/* Pages that nobody needs are used again once a checkpoint has let them go. */
static void checkpoints_let_pages_be_used_again(void **state)
{
    static uint8_t block[40000];
    struct place_on_disk *p = *state;
    uint64_t used = 0;

    for (int round = 0; round < 60; round++) {
        store_put(p->store, TREE_MSG, key_of(1), slice_of(block, sizeof block));
        checkpoint(p, (uint64_t)round + 1);
        if (round == 10) {
            used = store_room_bytes(p->store);
        }
    }
    assert_true(store_room_bytes(p->store) + (1u << 20) >= used);
    assert_true(store_used_bytes(p->store) < (1u << 20));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(records_are_kept_in_order),
        T(late_puts_may_come_in_any_order),
        T(appending_out_of_order_fails_for_good),
        T(full_map_sticks_and_commits_nothing),
        T(view_stays_as_it_was_opened),
        T(open_goes_back_to_the_checkpoint),
        T(state_without_checkpoint_is_refused),
        T(damaged_checkpoint_is_refused),
        T(missing_data_file_is_refused),
        T(checkpoints_let_pages_be_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
