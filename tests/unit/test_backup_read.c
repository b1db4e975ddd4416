/* test_backup_read.c: BACKUP and BACKUP_READ: who is given the state, and what becomes
 * of it when a client goes away. The log is the fake of fake_raftlog.h. */
#include "tests/unit/fake_client.h"

static struct op_reply last;
static uint8_t data[FAKE_COPY_BYTES];

static void on_backup_reply(void *ctx, const struct op_reply *reply)
{
    on_reply(ctx, reply);
    last = *reply;
    if (reply->op == OP_BACKUP_READ && reply->error.status == HF_OK) {
        assert_true(reply->backup_read.data.len <= sizeof data);
        if (reply->backup_read.data.len > 0) {
            memcpy(data, reply->backup_read.data.data, reply->backup_read.data.len);
        }
    }
}

static uint64_t begin(struct client *c, uint64_t at_least)
{
    struct op_request r = {.op = OP_BACKUP, .backup = {.at_least = at_least}};

    c->session.reply = on_backup_reply;
    assert_int_equal(ask(c, &r, 7), HF_OK);
    return last.error.status == HF_OK ? last.backup.backup : 0;
}

static int read_at(struct client *c, uint64_t backup, uint64_t offset, uint32_t max)
{
    struct op_request r = {
        .op = OP_BACKUP_READ,
        .backup_read = {.backup = backup, .offset = offset, .max = max}};

    return ask(c, &r, 8);
}

/* Piece by piece to the end; with the last one the file is given back. */
static void a_backup_comes_in_pieces(void **state)
{
    struct client *c = &clients[0];
    uint64_t number;
    uint64_t offset = 0;

    (void)state;
    fake.applied = 20;
    number = begin(c, 0);
    assert_true(number != 0);
    assert_int_equal(last.backup.index, 20);
    assert_int_equal(last.backup.term, 3);
    while (offset < FAKE_COPY_BYTES) {
        uint32_t answers = c->answers;

        assert_int_equal(fake.copies, 1);
        assert_int_equal(read_at(c, number, offset, 300), HF_OK);
        assert_int_equal(c->answers, answers); /* it is being read */
        fake_copy_read(HF_OK);
        assert_int_equal(c->answers, answers + 1);
        assert_int_equal(last.error.status, HF_OK);
        assert_true(last.backup_read.done);
        assert_int_equal(last.backup_read.bytes, FAKE_COPY_BYTES);
        assert_int_equal(last.backup_read.digest, 0xd16e57);
        for (uint32_t i = 0; i < last.backup_read.data.len; i++) {
            assert_int_equal(data[i], (uint8_t)(offset + i));
        }
        offset += last.backup_read.data.len;
    }
    assert_int_equal(offset, FAKE_COPY_BYTES);
    assert_int_equal(fake.copies, 0);
    (void)read_at(c, number, 0, 300);
    assert_int_equal(last.error.status, HF_E_INVALID_ARGUMENT);
}

/* Before the file is complete the answer comes at once, and says so. */
static void a_backup_that_is_not_ready_says_so(void **state)
{
    struct client *c = &clients[0];
    uint64_t number;

    (void)state;
    number = begin(c, 0);
    fake.copy_status = HF_E_UNAVAILABLE;
    (void)read_at(c, number, 0, 300);
    assert_int_equal(last.error.status, HF_OK);
    assert_false(last.backup_read.done);
    assert_int_equal(fake.copies, 1);
    fake.copy_status = HF_E_DISK_LOW; /* it came to nothing */
    (void)read_at(c, number, 0, 300);
    assert_int_equal(last.error.status, HF_E_DISK_LOW);
    assert_int_equal(fake.copies, 0);
}

/* Whatever was confirmed must be in it: a leader that is sure that it leads, or anybody
 * who has come far enough. */
static void only_who_has_applied_enough_begins(void **state)
{
    struct client *c = &clients[0];

    (void)state;
    fake.applied = 20;
    fake.may_read = false;
    assert_int_equal(begin(c, 0), 0);
    assert_int_equal(last.error.status, HF_E_NO_LEADER);
    fake.serving = false;
    fake.leader_id = 2;
    fake.leader_address = "10.0.0.2:7400";
    assert_int_equal(begin(c, 0), 0);
    assert_int_equal(last.error.status, HF_E_NOT_LEADER);
    assert_string_equal(c->leader, "10.0.0.2:7400");
    assert_int_equal(begin(c, 21), 0);
    assert_int_equal(last.error.status, HF_E_UNAVAILABLE);
    assert_int_equal(fake.copies, 0);
    assert_true(begin(c, 20) != 0);
    assert_int_equal(last.backup.index, 20);
}

/* A second one on the node is refused; a second one of a connection ends the first. */
static void there_is_one_at_a_time(void **state)
{
    uint64_t first;
    uint64_t second;

    (void)state;
    first = begin(&clients[0], 0);
    assert_int_equal(begin(&clients[1], 0), 0);
    assert_int_equal(last.error.status, HF_E_CONFLICT);
    second = begin(&clients[0], 0);
    assert_true(second != 0 && second != first);
    assert_int_equal(fake.copies, 1);
    (void)read_at(&clients[0], first, 0, 300);
    assert_int_equal(last.error.status, HF_E_INVALID_ARGUMENT);
    (void)read_at(&clients[1], second, 0, 300);
    assert_int_equal(last.error.status, HF_E_INVALID_ARGUMENT);
}

/* A client that goes away, also in the middle of a piece, frees everything. */
static void a_client_that_goes_away_frees_everything(void **state)
{
    uint64_t number;

    (void)state;
    for (int reading = 0; reading < 2; reading++) {
        struct client *c = &clients[reading];

        number = begin(c, 0);
        if (reading == 1) {
            (void)read_at(c, number, 0, 300);
            assert_int_equal(dispatch_in_flight(dispatch), 1);
        }
        assert_int_equal(fake.copies, 1);
        dispatch_session_close(dispatch, &c->session);
        assert_int_equal(fake.copies, 0);
        assert_int_equal(dispatch_in_flight(dispatch), 0);
    }
}

/* A piece is asked for once at a time, and lies in the file. */
static void a_piece_lies_in_the_file(void **state)
{
    struct client *c = &clients[0];
    uint64_t number;

    (void)state;
    number = begin(c, 0);
    (void)read_at(c, number, FAKE_COPY_BYTES, 1);
    assert_int_equal(last.error.status, HF_E_INVALID_ARGUMENT);
    (void)read_at(c, number, INT64_MAX, 1);
    assert_int_equal(last.error.status, HF_E_INVALID_ARGUMENT);
    (void)read_at(c, number, FAKE_COPY_BYTES - 1, 500);
    (void)read_at(c, number, 0, 500);
    assert_int_equal(last.error.status, HF_E_CONFLICT);
    fake_copy_read(HF_E_IO); /* and a disk that fails ends it */
    assert_int_equal(last.error.status, HF_E_IO);
    assert_int_equal(fake.copies, 0);
}

/* A node that stops says so. */
static void a_stopping_node_gives_no_backup(void **state)
{
    (void)state;
    dispatch_stop(dispatch);
    assert_int_equal(begin(&clients[0], 1), 0);
    assert_int_equal(last.error.status, HF_E_UNAVAILABLE);
    assert_int_equal(fake.copies, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_backup_comes_in_pieces),
        TEST(a_backup_that_is_not_ready_says_so),
        TEST(only_who_has_applied_enough_begins),
        TEST(there_is_one_at_a_time),
        TEST(a_client_that_goes_away_frees_everything),
        TEST(a_piece_lies_in_the_file),
        TEST(a_stopping_node_gives_no_backup),
    };

    return cmocka_run_group_tests_name("backup_read", tests, NULL, NULL);
}
