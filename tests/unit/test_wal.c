/* test_wal.c: what the log keeps, cuts and refuses, at every write and every byte. */
#include "raftlog/wal.h"
#include "tests/lib/simdisk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LOG_ID 0x5eed

struct rig {
    struct simdisk disk;
    struct wal *wal;
    uint64_t cache_bytes;
    uint32_t segment_bytes;
    uint32_t segment;
    uint64_t base_index;
    bool may_be_empty;
    unsigned stored_calls;
    unsigned fatal_calls;
    char why[512];
    /* What wal_read gave. */
    uint64_t read_first;
    uint32_t read_count;
    uint8_t read_bytes[4096];
    size_t read_len;
    unsigned read_calls;
};

static void on_stored(void *ctx)
{
    struct rig *r = ctx;

    r->stored_calls++;
}

static void on_fatal(void *ctx, const char *what, const char *why, const char *remedy)
{
    struct rig *r = ctx;

    r->fatal_calls++;
    (void)snprintf(r->why, sizeof r->why, "%s: %s: %s", what, why, remedy);
}

static void rig_init(struct rig *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    simdisk_init(&r->disk, seed);
    r->cache_bytes = 1 << 20;
    r->segment_bytes = 4096;
    r->may_be_empty = true;
}

static int rig_open(struct rig *r)
{
    struct wal_config config = {
        .disk = simdisk_disk(&r->disk),
        .log_id = LOG_ID,
        .cache_bytes = r->cache_bytes,
        .segment_bytes = r->segment_bytes,
        .segment = r->segment,
        .base_index = r->base_index,
        .may_be_empty = r->may_be_empty,
        .events = {.stored = on_stored, .fatal = on_fatal},
        .ctx = r,
    };

    r->why[0] = '\0';
    return wal_open(&config, &r->wal, r->why, sizeof r->why);
}

static void rig_close(struct rig *r)
{
    simdisk_abort(&r->disk);
    wal_close(r->wal);
    r->wal = NULL;
}

static void rig_done(struct rig *r)
{
    rig_close(r);
    simdisk_done(&r->disk);
}

/* Entry i of a term: bytes that tell both. */
static void fill(uint8_t *bytes, uint32_t len, uint64_t index, uint64_t term)
{
    for (uint32_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(index * 31 + term * 7 + i);
    }
}

static void append(struct rig *r, uint64_t index, uint64_t term, uint32_t len)
{
    uint8_t *payload = len > 0 ? malloc(len) : NULL;

    fill(payload, len, index, term);
    assert_int_equal(wal_append(r->wal, index, term, RECORD_COMMAND, payload, len),
                     HF_OK);
}

/* Write all that waits. */
static void sync_all(struct rig *r)
{
    wal_flush(r->wal);
    while (r->disk.write != NULL) {
        simdisk_finish_write(&r->disk, HF_OK);
        wal_flush(r->wal);
    }
}

static void on_read(void *ctx, uint64_t first, const struct slice *payloads,
                    uint32_t count)
{
    struct rig *r = ctx;

    r->read_calls++;
    r->read_first = first;
    r->read_count = count;
    r->read_len = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(r->read_len + payloads[i].len <= sizeof r->read_bytes);
        memcpy(r->read_bytes + r->read_len, payloads[i].data, payloads[i].len);
        r->read_len += payloads[i].len;
    }
}

/* Entry `index` is there, with this term and its own bytes; read back if it has to be.
 */
static void assert_entry(struct rig *r, uint64_t index, uint64_t term, uint32_t len)
{
    uint8_t expected[4096];
    struct slice payload;

    assert_true(len <= sizeof expected);
    fill(expected, len, index, term);
    assert_int_equal(wal_term(r->wal, index), term);
    assert_int_equal(wal_len(r->wal, index), len);
    if (wal_payload(r->wal, index, &payload)) {
        assert_int_equal(payload.len, len);
        assert_memory_equal(payload.data, expected, len);
        return;
    }
    assert_int_equal(wal_read(r->wal, index, index, on_read, r), HF_OK);
    simdisk_finish_read(&r->disk, HF_OK);
    assert_int_equal(r->read_count, 1);
    assert_int_equal(r->read_len, len);
    assert_memory_equal(r->read_bytes, expected, len);
}

static void reopen(struct rig *r)
{
    rig_close(r);
    assert_int_equal(rig_open(r), HF_OK);
}

/* ---- keeping ---- */

/* Lengths that are no multiple of eight, and every short one, come back byte by byte.
 */
static void every_length_survives_a_restart(void **state)
{
    struct rig r;
    uint32_t lens[80];
    uint32_t count = 0;

    (void)state;
    for (uint32_t len = 0; len <= 64; len++) {
        lens[count++] = len;
    }
    lens[count++] = 157;
    lens[count++] = 161;
    lens[count++] = 1001;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    for (uint32_t i = 0; i < count; i++) {
        append(&r, i + 1, 3, lens[i]);
        sync_all(&r);
    }
    reopen(&r);
    assert_int_equal(wal_first(r.wal), 1);
    assert_int_equal(wal_last(r.wal), count);
    assert_int_equal(wal_stored(r.wal), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_entry(&r, i + 1, 3, lens[i]);
    }
    rig_done(&r);
}

/* What arrives during a write goes into the next one, in one piece. */
static void one_write_for_all_that_waits(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    r.segment_bytes = 0;
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 100);
    wal_flush(r.wal);
    for (uint64_t i = 2; i <= 50; i++) {
        append(&r, i, 1, 100);
        wal_flush(r.wal);
    }
    assert_int_equal(r.disk.writes, 1);
    assert_int_equal(wal_stored(r.wal), 0);
    simdisk_finish_write(&r.disk, HF_OK);
    assert_int_equal(wal_stored(r.wal), 1);
    assert_int_equal(r.stored_calls, 1);
    wal_flush(r.wal);
    simdisk_finish_write(&r.disk, HF_OK);
    assert_int_equal(r.disk.writes, 2);
    assert_int_equal(wal_stored(r.wal), 50);
    rig_done(&r);
}

/* One write has a bound; an entry larger than it is a write of its own. */
static void a_write_is_bounded(void **state)
{
    struct rig r;
    const uint32_t large = 6u << 20;
    uint64_t index = 0;

    (void)state;
    rig_init(&r, 1);
    r.segment_bytes = 0;
    assert_int_equal(rig_open(&r), HF_OK);
    for (unsigned i = 0; i < 30; i++) {
        append(&r, ++index, 1, 300000);
    }
    append(&r, ++index, 1, large);
    append(&r, ++index, 1, 10);
    wal_flush(r.wal);
    while (r.disk.write != NULL) {
        assert_true(r.disk.write->len <= WAL_WRITE_BYTES ||
                    r.disk.write->len == record_bytes(large));
        assert_true(r.disk.write->offset + r.disk.write->len <= DISK_SEGMENT_BYTES);
        simdisk_finish_write(&r.disk, HF_OK);
        wal_flush(r.wal);
    }
    assert_int_equal(wal_stored(r.wal), index);
    reopen(&r);
    assert_int_equal(wal_last(r.wal), index);
    rig_done(&r);
}

/* A record is never split over two segments. */
static void a_record_that_does_not_fit_begins_a_segment(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    for (uint64_t i = 1; i <= 40; i++) {
        append(&r, i, 1, 500);
    }
    sync_all(&r);
    assert_true(simdisk_newest(&r.disk) > 4);
    for (uint32_t s = 1; s <= simdisk_newest(&r.disk); s++) {
        assert_true(simdisk_file(&r.disk, s)->len <= 4096);
    }
    reopen(&r);
    for (uint64_t i = 1; i <= 40; i++) {
        assert_entry(&r, i, 1, 500);
    }
    append(&r, 41, 2, 500);
    sync_all(&r);
    reopen(&r);
    assert_entry(&r, 41, 2, 500);
    rig_done(&r);
}

/* An entry at an index that is taken replaces it and all behind it, also after a
 * restart. */
static void a_later_record_replaces_the_tail(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    for (uint64_t i = 1; i <= 10; i++) {
        append(&r, i, 1, 20);
    }
    sync_all(&r);
    append(&r, 6, 2, 30);
    assert_int_equal(wal_last(r.wal), 6);
    assert_int_equal(wal_stored(r.wal), 5);
    sync_all(&r);
    assert_int_equal(wal_stored(r.wal), 6);
    reopen(&r);
    assert_int_equal(wal_last(r.wal), 6);
    assert_entry(&r, 5, 1, 20);
    assert_entry(&r, 6, 2, 30);
    rig_done(&r);
}

/* When a replaced entry's write ends, its successor is not stored by it. */
static void a_replaced_entry_is_not_stored(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 8);
    append(&r, 2, 1, 8);
    wal_flush(r.wal);
    append(&r, 2, 2, 8);
    simdisk_finish_write(&r.disk, HF_OK);
    assert_int_equal(wal_stored(r.wal), 1);
    sync_all(&r);
    assert_int_equal(wal_stored(r.wal), 2);
    rig_done(&r);
}

/* Payloads are kept within the bound, the newest first, but never less than what is not
 * applied or not stored. */
static void the_cache_is_bounded_in_bytes(void **state)
{
    struct rig r;
    struct slice payload;

    (void)state;
    rig_init(&r, 1);
    r.cache_bytes = 1000;
    assert_int_equal(rig_open(&r), HF_OK);
    for (uint64_t i = 1; i <= 30; i++) {
        append(&r, i, 1, 100);
    }
    wal_trim(r.wal, 30);
    assert_true(wal_payload(r.wal, 1, &payload)); /* nothing is stored yet */
    sync_all(&r);
    wal_trim(r.wal, 12);
    assert_false(wal_payload(r.wal, 12, &payload));
    assert_true(wal_payload(r.wal, 13, &payload)); /* not applied */
    wal_trim(r.wal, 30);
    assert_false(wal_payload(r.wal, 20, &payload));
    assert_true(wal_payload(r.wal, 21, &payload));
    assert_entry(&r, 7, 1, 100);
    assert_int_equal(wal_keep(r.wal, 7, slice_of(r.read_bytes, 100)), HF_OK);
    assert_true(wal_payload(r.wal, 7, &payload));
    wal_trim(r.wal, 30);
    assert_false(wal_payload(r.wal, 7, &payload));
    rig_done(&r);
}

/* ---- reading back ---- */

/* Neighbours come in one read; a membership entry stays in memory. */
static void a_read_takes_neighbours_along(void **state)
{
    struct rig r;
    struct slice payload;
    uint8_t *change = calloc(1, 16);

    (void)state;
    rig_init(&r, 1);
    r.cache_bytes = 0;
    assert_int_equal(rig_open(&r), HF_OK);
    for (uint64_t i = 1; i <= 5; i++) {
        append(&r, i, 1, 40);
    }
    assert_int_equal(wal_append(r.wal, 6, 1, RECORD_CHANGE, change, 16), HF_OK);
    sync_all(&r);
    wal_trim(r.wal, 6);
    assert_true(wal_payload(r.wal, 6, &payload));
    assert_int_equal(wal_read(r.wal, 2, 4, on_read, &r), HF_OK);
    assert_false(wal_idle(r.wal));
    simdisk_finish_read(&r.disk, HF_OK);
    assert_true(wal_idle(r.wal));
    assert_int_equal(r.read_first, 2);
    assert_int_equal(r.read_count, 3);
    assert_int_equal(r.read_len, 120);
    reopen(&r);
    assert_true(wal_payload(r.wal, 6, &payload));
    rig_done(&r);
}

/* Entries that were replaced while they were being read are not given out. */
static void a_read_that_was_overtaken_gives_nothing(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    r.cache_bytes = 0;
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 40);
    append(&r, 2, 1, 40);
    sync_all(&r);
    wal_trim(r.wal, 1);
    assert_int_equal(wal_read(r.wal, 1, 2, on_read, &r), HF_OK);
    append(&r, 2, 2, 40);
    simdisk_finish_read(&r.disk, HF_OK);
    assert_int_equal(r.read_calls, 1);
    assert_int_equal(r.read_count, 0);
    assert_int_equal(r.fatal_calls, 0);
    rig_done(&r);
}

/* Bytes that changed on the disk stop the node; they are not passed on. */
static void a_damaged_read_is_fatal(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    r.cache_bytes = 0;
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 40);
    sync_all(&r);
    wal_trim(r.wal, 1);
    simdisk_file(&r.disk, 1)->data[RECORD_SEGMENT_BYTES + RECORD_HEADER_BYTES + 5] ^= 1;
    assert_int_equal(wal_read(r.wal, 1, 1, on_read, &r), HF_OK);
    simdisk_finish_read(&r.disk, HF_OK);
    assert_int_equal(r.read_calls, 0);
    assert_int_equal(r.fatal_calls, 1);
    assert_non_null(strstr(r.why, "damaged"));
    rig_done(&r);
}

/* A failed write is final: told once, never tried again. */
static void a_failed_write_is_final(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 40);
    wal_flush(r.wal);
    append(&r, 2, 1, 40);
    simdisk_finish_write(&r.disk, HF_E_NO_SPACE);
    assert_int_equal(r.fatal_calls, 1);
    assert_int_equal(r.stored_calls, 0);
    assert_int_equal(wal_stored(r.wal), 0);
    wal_flush(r.wal);
    assert_null(r.disk.write);
    assert_int_equal(r.fatal_calls, 1);
    rig_done(&r);
}

/* ---- crashes ---- */

/* What a scenario has promised and tried by now. */
struct model {
    uint64_t terms[64]; /* by index */
    uint64_t last;
    uint64_t promised; /* indexes up to here were reported as stored */
};

/* Append some entries, at times replacing a tail, and let `writes` writes end; the next
 * one is under way when this returns. Returns false when there were fewer. */
static bool play(struct rig *r, struct model *m, unsigned writes)
{
    static const struct {
        uint64_t index, term;
        uint32_t len;
    } steps[] = {{1, 1, 40},  {2, 1, 0},   {3, 1, 300}, {4, 1, 700},
                 {5, 1, 9},   {3, 2, 100}, {4, 2, 50},  {5, 2, 900},
                 {6, 2, 800}, {7, 2, 30},  {8, 2, 900}, {9, 2, 1},
                 {8, 3, 600}, {9, 3, 600}, {10, 3, 77}, {11, 3, 900}};
    unsigned done = 0;

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        append(r, steps[i].index, steps[i].term, steps[i].len);
        m->terms[steps[i].index] = steps[i].term;
        m->last = steps[i].index;
        if (m->promised >= m->last) {
            m->promised = m->last - 1;
        }
        if (i % 2 == 0) {
            continue; /* two entries per write, now and then more */
        }
        wal_flush(r->wal);
        if (r->disk.write != NULL && i % 3 != 0) {
            if (done++ == writes) {
                return true;
            }
            simdisk_finish_write(&r->disk, HF_OK);
            m->promised = wal_stored(r->wal);
        }
    }
    while (r->disk.write != NULL) {
        if (done++ == writes) {
            return true;
        }
        simdisk_finish_write(&r->disk, HF_OK);
        m->promised = wal_stored(r->wal);
        wal_flush(r->wal);
    }
    return false;
}

/* Whatever happened to the write under way: what was promised is there. */
static void assert_promises(struct rig *r, const struct model *m)
{
    static const uint32_t any[] = {0,   1,   9,   30,  40,  50, 77,
                                   100, 300, 600, 700, 800, 900};

    assert_true(wal_last(r->wal) >= m->promised);
    for (uint64_t i = 1; i <= m->promised; i++) {
        uint32_t len = wal_len(r->wal, i);
        bool known = false;

        for (size_t k = 0; k < sizeof any / sizeof any[0]; k++) {
            known |= any[k] == len;
        }
        assert_true(known);
        assert_int_equal(wal_term(r->wal, i), m->terms[i]);
        assert_entry(r, i, wal_term(r->wal, i), len);
    }
    for (uint64_t i = m->promised + 1; i <= wal_last(r->wal); i++) {
        assert_entry(r, i, wal_term(r->wal, i), wal_len(r->wal, i));
    }
    /* And the log can be written on, and read again. */
    append(r, wal_last(r->wal) + 1, 9, 123);
    sync_all(r);
    {
        uint64_t last = wal_last(r->wal);

        reopen(r);
        assert_int_equal(wal_last(r->wal), last);
        assert_entry(r, last, 9, 123);
    }
}

/* The n-th write is torn in any way: nothing, a prefix, any of its sectors. */
static void any_torn_write_is_survived(void **state)
{
    unsigned writes = 0;
    bool more = true;

    (void)state;
    while (more) {
        for (uint64_t seed = 1; seed <= 300; seed++) {
            struct rig r;
            struct model m = {.last = 0};

            rig_init(&r, seed);
            assert_int_equal(rig_open(&r), HF_OK);
            more = play(&r, &m, writes);
            if (!more) {
                rig_done(&r);
                break;
            }
            simdisk_crash(&r.disk);
            rig_close(&r);
            if (rig_open(&r) != HF_OK) {
                fail_msg("write %u, seed %u: %s", writes, (unsigned)seed, r.why);
            }
            assert_promises(&r, &m);
            rig_done(&r);
        }
        writes++;
    }
    assert_true(writes > 5);
}

/* Every prefix of the last write, byte by byte, and every choice of its first 8
 * sectors. */
static void put_write(struct simdisk *d, const struct disk_write *w, uint64_t from,
                      uint64_t to)
{
    struct simdisk_file *f;

    if (from >= to) {
        return;
    }
    if (simdisk_file(d, w->segment) == NULL ||
        simdisk_file(d, w->segment)->len < w->offset + to) {
        simdisk_resize(d, w->segment, (size_t)(w->offset + to));
    }
    f = simdisk_file(d, w->segment);
    memcpy(f->data + w->offset + from, w->data + from, (size_t)(to - from));
}

static void check_torn(struct rig *r, const struct model *m,
                       const struct simdisk *before, uint32_t sectors, uint64_t prefix)
{
    struct rig torn = *r;
    const struct disk_write *w = r->disk.write;

    torn.wal = NULL;
    simdisk_copy(&torn.disk, before);
    put_write(&torn.disk, w, 0, prefix);
    for (uint32_t s = 0; s < 8; s++) {
        uint64_t from = s == 0 ? 0 : s * SIMDISK_SECTOR - w->offset % SIMDISK_SECTOR;
        uint64_t to = (s + 1) * SIMDISK_SECTOR - w->offset % SIMDISK_SECTOR;

        if ((sectors & 1u << s) != 0 && from < w->len) {
            put_write(&torn.disk, w, from, to < w->len ? to : w->len);
        }
    }
    if (rig_open(&torn) != HF_OK) {
        fail_msg("sectors %x, prefix %u: %s", sectors, (unsigned)prefix, torn.why);
    }
    assert_promises(&torn, m);
    rig_done(&torn);
}

static void every_tear_of_one_write_is_survived(void **state)
{
    struct rig r;
    struct model m = {.last = 0};
    struct simdisk before;

    (void)state;
    rig_init(&r, 1);
    r.segment_bytes = 0;
    assert_int_equal(rig_open(&r), HF_OK);
    assert_true(play(&r, &m, 4));
    simdisk_copy(&before, &r.disk);
    for (uint64_t prefix = 0; prefix <= r.disk.write->len; prefix++) {
        check_torn(&r, &m, &before, 0, prefix);
    }
    for (uint32_t sectors = 0; sectors < 256; sectors++) {
        check_torn(&r, &m, &before, sectors, 0);
    }
    simdisk_done(&before);
    rig_done(&r);
}

/* Records read from the page cache after kill -9 are synced before they count. */
static void what_was_read_is_synced(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rig r;
        uint64_t last;

        rig_init(&r, seed);
        assert_int_equal(rig_open(&r), HF_OK);
        append(&r, 1, 1, 100);
        sync_all(&r);
        append(&r, 2, 1, 100);
        append(&r, 3, 1, 100);
        wal_flush(r.wal);
        simdisk_crash(&r.disk);
        reopen(&r);
        last = wal_last(r.wal);
        simdisk_crash(&r.disk);
        reopen(&r);
        assert_int_equal(wal_last(r.wal), last);
        rig_done(&r);
    }
}

/* ---- damage ---- */

/* Three synced writes; a bit is flipped in each byte in turn. Before the last write the
 * log is refused; in it the tail is cut. Padding is not looked at. */
static void a_flipped_bit_is_refused_or_cut(void **state)
{
    struct rig r;
    size_t third;
    size_t end;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 50);
    append(&r, 2, 1, 64);
    sync_all(&r);
    append(&r, 3, 1, 72);
    sync_all(&r);
    third = simdisk_file(&r.disk, 1)->len;
    append(&r, 4, 1, 80);
    append(&r, 5, 1, 88);
    sync_all(&r);
    end = simdisk_file(&r.disk, 1)->len;
    for (size_t at = 0; at < end; at++) {
        struct rig damaged = r;
        bool padding = at >= RECORD_SEGMENT_BYTES + RECORD_HEADER_BYTES + 50 &&
                       at < RECORD_SEGMENT_BYTES + record_bytes(50);
        int rc;

        damaged.wal = NULL;
        simdisk_copy(&damaged.disk, &r.disk);
        simdisk_file(&damaged.disk, 1)->data[at] ^= (uint8_t)(1u << at % 8);
        rc = rig_open(&damaged);
        if (padding) {
            assert_int_equal(rc, HF_OK);
            assert_int_equal(wal_last(damaged.wal), 5);
        } else if (at < third) {
            assert_int_equal(rc, HF_E_CORRUPT);
            assert_non_null(strstr(damaged.why, "damaged"));
        } else {
            assert_int_equal(rc, HF_OK);
            assert_true(wal_last(damaged.wal) >= 3);
            assert_true(wal_last(damaged.wal) < 5);
            assert_entry(&damaged, 3, 1, 72);
        }
        if (rc == HF_OK) {
            rig_done(&damaged);
        } else {
            simdisk_done(&damaged.disk);
        }
    }
    rig_done(&r);
}

/* Bytes inside an entry that look like a record, with any durable position, are only
 * bytes: a client cannot make a torn tail look like damage. */
static void a_record_inside_an_entry_is_no_record(void **state)
{
    struct rig r;
    uint8_t *payload = calloc(1, 512);
    struct record fake = {.type = RECORD_COMMAND,
                          .index = 77,
                          .term = 9,
                          .durable = UINT64_MAX,
                          .payload = payload,
                          .len = 8};

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 50);
    sync_all(&r);
    /* The client does not know the log's id; everything else it may guess. */
    record_encode(
        &fake, 0,
        record_position(1, simdisk_file(&r.disk, 1)->len + RECORD_HEADER_BYTES),
        payload);
    assert_int_equal(wal_append(r.wal, 2, 1, RECORD_COMMAND, payload, 512), HF_OK);
    sync_all(&r);
    simdisk_resize(&r.disk, 1, simdisk_file(&r.disk, 1)->len - 8); /* torn */
    reopen(&r);
    assert_int_equal(wal_last(r.wal), 1);
    rig_done(&r);
}

/* Many small entries over several segments. */
static void build_segments(struct rig *r)
{
    rig_init(r, 1);
    assert_int_equal(rig_open(r), HF_OK);
    for (uint64_t i = 1; i <= 60; i++) {
        append(r, i, 1, 300);
        sync_all(r);
    }
    assert_true(simdisk_newest(&r->disk) >= 5);
    rig_close(r);
    r->may_be_empty = false;
}

/* S-11: a missing file is an error that names it. */
static void s11_a_missing_segment_is_named(void **state)
{
    struct rig r;
    uint32_t newest;

    (void)state;
    build_segments(&r);
    newest = simdisk_newest(&r.disk);
    for (uint32_t gone = 1; gone < newest; gone++) {
        struct rig hole = r;
        char name[32];

        simdisk_copy(&hole.disk, &r.disk);
        simdisk_remove(&hole.disk, gone);
        (void)snprintf(name, sizeof name, "segment %u is missing", (unsigned)gone);
        assert_int_equal(rig_open(&hole), HF_E_CORRUPT);
        assert_true(strstr(hole.why, name) != NULL ||
                    strstr(hole.why, "segments 1 to 1 are missing") != NULL);
        assert_non_null(strstr(hole.why, "join anew"));
        simdisk_done(&hole.disk);
    }
    for (uint32_t s = 1; s <= newest; s++) {
        simdisk_remove(&r.disk, s);
    }
    assert_int_equal(rig_open(&r), HF_E_CORRUPT);
    assert_non_null(strstr(r.why, "log is missing"));
    simdisk_done(&r.disk);
}

/* S-02: what may happen to the newest file. */
static void the_newest_file_may_be_short_or_padded(void **state)
{
    static const size_t cuts[] = {1, 7, 8, 100, 4096};
    struct rig r;
    uint32_t newest;

    (void)state;
    build_segments(&r);
    newest = simdisk_newest(&r.disk);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0] + 2; i++) {
        struct rig hurt = r;
        size_t len = simdisk_file(&r.disk, newest)->len;

        simdisk_copy(&hurt.disk, &r.disk);
        if (i < sizeof cuts / sizeof cuts[0]) {
            simdisk_resize(&hurt.disk, newest, len > cuts[i] ? len - cuts[i] : 0);
        } else if (i == sizeof cuts / sizeof cuts[0]) {
            simdisk_resize(&hurt.disk, newest, len + 4096);
        } else {
            simdisk_resize(&hurt.disk, newest + 1, 0);
        }
        if (rig_open(&hurt) != HF_OK) {
            fail_msg("variant %u: %s", (unsigned)i, hurt.why);
        }
        assert_true(wal_last(hurt.wal) >= 45);
        assert_entry(&hurt, wal_last(hurt.wal), 1, 300);
        append(&hurt, wal_last(hurt.wal) + 1, 2, 300);
        sync_all(&hurt);
        reopen(&hurt);
        assert_entry(&hurt, wal_last(hurt.wal), 2, 300);
        rig_done(&hurt);
    }
    simdisk_done(&r.disk);
}

/* The end of a closed segment cannot vanish unseen. */
static void a_closed_segment_that_ends_early_is_refused(void **state)
{
    struct rig r;
    struct simdisk_file *f;

    (void)state;
    build_segments(&r);
    f = simdisk_file(&r.disk, 2);
    simdisk_resize(&r.disk, 2, f->len - record_bytes(300));
    assert_int_equal(rig_open(&r), HF_E_CORRUPT);
    simdisk_done(&r.disk);
}

static void another_logs_segment_is_refused(void **state)
{
    struct rig r;
    uint8_t bytes[RECORD_SEGMENT_BYTES];

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(wal_begin(simdisk_disk(&r.disk), LOG_ID + 1, 1, 1, NULL), HF_OK);
    memcpy(bytes, simdisk_file(&r.disk, 1)->data, sizeof bytes);
    assert_int_equal(rig_open(&r), HF_E_CORRUPT);
    assert_non_null(strstr(r.why, "another log"));
    assert_memory_equal(simdisk_file(&r.disk, 1)->data, bytes, sizeof bytes);
    simdisk_done(&r.disk);
}

/* ---- forgetting ---- */

/* Segments that hold nothing else go; when they come back after a crash, they are not
 * read. */
static void a_cut_drops_whole_segments(void **state)
{
    struct rig r;
    uint32_t segment;

    (void)state;
    build_segments(&r);
    assert_int_equal(rig_open(&r), HF_OK);
    segment = wal_segment_of(r.wal, 41);
    wal_cut(r.wal, 40);
    assert_int_equal(wal_first(r.wal), 41);
    assert_null(simdisk_file(&r.disk, segment - 1));
    assert_non_null(simdisk_file(&r.disk, segment));
    assert_entry(&r, 41, 1, 300);
    for (uint32_t s = 1; s < segment; s++) {
        r.disk.files[s].dropped = s % 2 == 0;
    }
    rig_close(&r);
    r.segment = segment;
    r.base_index = 41;
    assert_int_equal(rig_open(&r), HF_OK);
    assert_true(wal_first(r.wal) <= 41);
    assert_int_equal(wal_last(r.wal), 60);
    assert_entry(&r, 60, 1, 300);
    rig_done(&r);
}

/* A reset forgets everything, also what waits and what is being written. */
static void a_reset_begins_anew(void **state)
{
    struct rig r;
    uint32_t segment;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    append(&r, 1, 1, 100);
    sync_all(&r);
    append(&r, 2, 1, 100);
    wal_flush(r.wal);
    append(&r, 3, 1, 100);
    segment = wal_segment_next(r.wal);
    assert_int_equal(wal_reset(r.wal, segment, 500), HF_OK);
    assert_int_equal(wal_first(r.wal), 501);
    assert_int_equal(wal_last(r.wal), 500);
    assert_int_equal(wal_stored(r.wal), 500);
    append(&r, 501, 7, 100);
    wal_flush(r.wal);
    simdisk_finish_write(&r.disk, HF_OK); /* the old one */
    assert_int_equal(wal_stored(r.wal), 500);
    sync_all(&r);
    assert_int_equal(wal_stored(r.wal), 501);
    rig_close(&r);
    r.segment = segment;
    r.base_index = 500;
    assert_int_equal(rig_open(&r), HF_OK);
    assert_int_equal(wal_first(r.wal), 501);
    assert_entry(&r, 501, 7, 100);
    rig_done(&r);
}

/* The bytes behind an index, which tell the owner when to checkpoint. */
static void bytes_above_an_index(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 1);
    assert_int_equal(rig_open(&r), HF_OK);
    assert_int_equal(wal_bytes_above(r.wal, 0), 0);
    append(&r, 1, 1, 100);
    append(&r, 2, 1, 0);
    append(&r, 3, 1, 8);
    assert_int_equal(wal_bytes_above(r.wal, 0), record_bytes(100) + 40 + 48);
    assert_int_equal(wal_bytes_above(r.wal, 2), 48);
    assert_int_equal(wal_bytes_above(r.wal, 3), 0);
    append(&r, 2, 2, 16);
    assert_int_equal(wal_bytes_above(r.wal, 1), 56);
    sync_all(&r);
    wal_cut(r.wal, 1);
    assert_int_equal(wal_bytes_above(r.wal, 1), 56);
    assert_int_equal(wal_bytes_above(r.wal, 0), 56);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_survives_a_restart),
        cmocka_unit_test(one_write_for_all_that_waits),
        cmocka_unit_test(a_write_is_bounded),
        cmocka_unit_test(a_record_that_does_not_fit_begins_a_segment),
        cmocka_unit_test(a_later_record_replaces_the_tail),
        cmocka_unit_test(a_replaced_entry_is_not_stored),
        cmocka_unit_test(the_cache_is_bounded_in_bytes),
        cmocka_unit_test(a_read_takes_neighbours_along),
        cmocka_unit_test(a_read_that_was_overtaken_gives_nothing),
        cmocka_unit_test(a_damaged_read_is_fatal),
        cmocka_unit_test(a_failed_write_is_final),
        cmocka_unit_test(any_torn_write_is_survived),
        cmocka_unit_test(every_tear_of_one_write_is_survived),
        cmocka_unit_test(what_was_read_is_synced),
        cmocka_unit_test(a_flipped_bit_is_refused_or_cut),
        cmocka_unit_test(a_record_inside_an_entry_is_no_record),
        cmocka_unit_test(s11_a_missing_segment_is_named),
        cmocka_unit_test(the_newest_file_may_be_short_or_padded),
        cmocka_unit_test(a_closed_segment_that_ends_early_is_refused),
        cmocka_unit_test(another_logs_segment_is_refused),
        cmocka_unit_test(a_cut_drops_whole_segments),
        cmocka_unit_test(a_reset_begins_anew),
        cmocka_unit_test(bytes_above_an_index),
    };

    return cmocka_run_group_tests_name("wal", tests, NULL, NULL);
}
