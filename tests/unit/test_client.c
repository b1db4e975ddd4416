/* test_client.c: the client against nodes that a test thread plays: each claim is one
 * thing that a real cluster does to its clients at a bad moment. The fake nodes speak
 * the real protocol over real sockets; what they answer is the test's. */
#include "tests/unit/fake_node.h"

static unsigned fake_seen(struct fake *f)
{
    unsigned n;

    pthread_mutex_lock(&f->lock);
    n = f->seen_count;
    pthread_mutex_unlock(&f->lock);
    return n;
}

static enum act answer_nothing(struct fake *f, const struct op_request *request,
                               struct op_reply *reply)
{
    (void)f;
    (void)request;
    (void)reply;
    return ACT_SILENT;
}

/* Takes one send, makes the next node leader, and dies without an answer. */
static enum act take_and_close(struct fake *f, const struct op_request *request,
                               struct op_reply *reply)
{
    if (request->op != OP_SEND && request->op != OP_KICK && request->op != OP_RECEIVE &&
        request->op != OP_MODIFY && request->op != OP_TX &&
        request->op != OP_HEARTBEAT) {
        return answer_ok(f, request, reply);
    }
    if (f->next != NULL) {
        fake_lead(f->next, f->next, f->term + 1);
        set_leader(f, f->next, f->term + 1);
    }
    f->on_request = answer_not_leader;
    return ACT_CLOSE;
}

static enum act answer_cancelled(struct fake *f, const struct op_request *request,
                                 struct op_reply *reply)
{
    if (request->op == OP_MODIFY) {
        reply->error.status = HF_E_MESSAGE_NOT_FOUND;
        reply->error.gone = GONE_CANCELLED;
        return ACT_REPLY;
    }
    return answer_ok(f, request, reply);
}

static enum act answer_duplicate(struct fake *f, const struct op_request *request,
                                 struct op_reply *reply)
{
    enum act act = answer_ok(f, request, reply);

    many[0].duplicate = request->op == OP_SEND;
    return act;
}

static int send_one(struct bed *bed, struct hf_send_result *result)
{
    return hf_send(bed->client, "q", "body", 4, result, &bed->error);
}

/* ---- finding the leader ---- */

/* The address list may name a follower only. */
static void leader_is_found_through_a_follower(void **state)
{
    struct bed bed;
    struct hf_send_result result;

    (void)state;
    bed_open(&bed, 5000);
    hf_client_close(bed.client);
    open_client(&bed, bed.b->address, 5000);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_int_equal(result.id.low, 1);
    assert_int_equal(fake_seen(bed.b), 0);
    assert_int_equal(fake_seen(bed.a), 2); /* the session and the send */
    bed_close(&bed);
}

/* A refusal that names the leader is followed at once, without backing off. */
static void not_leader_is_followed_at_once(void **state)
{
    struct bed bed;
    struct hf_send_result result;
    int64_t began;

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    fake_lead(bed.b, bed.b, 2);
    fake_lead(bed.a, bed.b, 2);
    fake_script(bed.a, answer_not_leader);
    began = now_ms();
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_true(now_ms() - began < 300);
    assert_int_equal(fake_seen(bed.b), 1);
    bed_close(&bed);
}

/* A node that was named may be lost for ever: the members of the cluster were learned
 * meanwhile. */
static void members_are_learned(void **state)
{
    struct bed bed;
    struct hf_send_result result;

    (void)state;
    bed_open(&bed, 5000);
    hf_client_close(bed.client);
    bed.a->members[0] =
        (struct op_member){.node = 1, .client_address = slice_text(bed.a->address)};
    bed.a->members[1] =
        (struct op_member){.node = 2, .client_address = slice_text(bed.b->address)};
    bed.a->member_count = 2;
    open_client(&bed, bed.a->address, 5000);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_int_equal(hf_ping(bed.client, &bed.error), HF_OK);
    fake_kill(bed.a);
    fake_lead(bed.b, bed.b, 2);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_int_equal(fake_seen(bed.b), 1);
    bed_close(&bed);
}

/* A cut-off node that still thinks it leads is not believed after a higher term was
 * heard of. */
static void lower_term_is_no_leader(void **state)
{
    struct bed bed;
    struct hf_send_result result;
    unsigned refused;

    (void)state;
    bed_open(&bed, 5000);
    fake_lead(bed.b, bed.b, 9);
    fake_script(bed.a, answer_not_leader);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    refused = fake_seen(bed.a);
    assert_true(refused < 10); /* asked at a steady pace, not in a circle */
    pthread_mutex_lock(&bed.b->lock);
    bed.b->on_request = answer_not_leader; /* for a moment nobody leads */
    snprintf(bed.b->leader, sizeof bed.b->leader, "%s", bed.a->address);
    bed.b->leader_id = 1;
    pthread_mutex_unlock(&bed.b->lock);
    hf_client_set_timeout(bed.client, 400);
    assert_int_not_equal(send_one(&bed, &result), HF_OK);
    assert_int_equal(fake_seen(bed.a), refused);
    bed_close(&bed);
}

/* Nobody there: the call ends at its limit and says that no leader could be reached. */
static void no_leader_ends_at_the_limit(void **state)
{
    struct bed bed;
    int64_t began;

    (void)state;
    bed_open(&bed, 400);
    fake_kill(bed.a);
    fake_kill(bed.b);
    began = now_ms();
    assert_int_equal(send_one(&bed, NULL), HF_E_NO_LEADER);
    assert_true(now_ms() - began >= 400);
    assert_true(now_ms() - began < 2000);
    assert_true(bed.error.unreachable);
    assert_non_null(strstr(bed.error.sentence, bed.a->address));
    bed_close(&bed);
}

/* ---- lost answers ---- */

/* The connection dies after the request was written: the same number goes to the new
 * leader. */
static void lost_answer_is_asked_again_with_the_same_number(void **state)
{
    struct bed bed;
    struct hf_send_result result;
    const struct seen *first;
    const struct seen *second;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, answer_duplicate);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_true(result.duplicate);
    assert_int_equal(fake_seen(bed.a), 2);
    assert_int_equal(fake_seen(bed.b), 1);
    first = &bed.a->seen[1];
    second = &bed.b->seen[0];
    assert_int_equal(first->sequence, 1);
    assert_int_equal(second->sequence, 1);
    assert_int_equal(second->epoch, 7);
    assert_memory_equal(first->session, second->session, 16);
    bed_close(&bed);
}

static enum act answer_tx(struct fake *f, const struct op_request *request,
                          struct op_reply *reply)
{
    static struct op_tx_result results[3];

    if (request->op != OP_TX) {
        return answer_duplicate(f, request, reply);
    }
    if (request->tx.count == 1) {
        reply->error.status = HF_E_QUEUE_NOT_FOUND;
        reply->error.element = slice_text("items[0].queue");
        reply->error.has_item = true;
        return ACT_REPLY;
    }
    results[0].state =
        request->tx.items[0].kind == TX_ACK ? MESSAGE_DELETED : MESSAGE_PARKED;
    results[1].id = (struct message_id){1, request->tx.items[1].send->body.len};
    results[1].duplicate = true;
    results[2].state_before = MESSAGE_SCHEDULED;
    results[2].count = request->tx.items[2].cancel->key.len;
    reply->tx.results = results;
    reply->tx.count = request->tx.count;
    return ACT_REPLY;
}

/* A transaction is numbered in the sequence of the sends, so a lost answer is asked for
 * under its number. */
static void lost_tx_is_asked_again_with_the_same_number(void **state)
{
    struct hf_tx_item items[3] = {
        {.queue = "a", .kind = HF_ACK, .settle.receipt = {"receipt", 7}},
        {.queue = "b", .kind = HF_TX_SEND, .send.body = {"body", 4}},
        {.queue = "c", .kind = HF_TX_CANCEL, .key = {"key", 3}},
    };
    struct hf_tx_result results[3];
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, answer_tx);
    assert_int_equal(hf_tx(bed.client, items, 3, results, &bed.error), HF_OK);
    assert_int_equal(results[0].state, HF_MESSAGE_DELETED);
    assert_int_equal(results[1].id.low, 4);
    assert_true(results[1].duplicate);
    assert_int_equal(results[2].state_before, HF_MESSAGE_SCHEDULED);
    assert_int_equal(results[2].count, 3);
    assert_int_equal(bed.a->seen[1].op, OP_TX);
    assert_int_equal(bed.a->seen[1].sequence, 1);
    assert_int_equal(bed.b->seen[0].sequence, 1);
    assert_memory_equal(bed.a->seen[1].session, bed.b->seen[0].session, 16);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    assert_int_equal(bed.b->seen[1].sequence, 2);
    bed_close(&bed);
}

static void refused_tx_names_its_item(void **state)
{
    struct hf_tx_item items[2] = {{.queue = "b", .kind = HF_TX_SEND},
                                  {.queue = "c", .kind = HF_TX_CANCEL}};
    struct hf_tx_result results[2];
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, answer_tx);
    assert_int_equal(hf_tx(bed.client, items, 1, results, &bed.error),
                     HF_E_QUEUE_NOT_FOUND);
    assert_true(bed.error.has_item);
    assert_int_equal(bed.error.item, 0);
    assert_string_equal(bed.error.element, "items[0].queue");
    /* A cancel without id and key does not leave the house. */
    assert_int_equal(hf_tx(bed.client, items, 2, results, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(bed.error.item, 1);
    items[1].kind = 9;
    assert_int_equal(hf_tx(bed.client, items, 2, results, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_tx(bed.client, items, 0, results, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(fake_seen(bed.a), 2);
    bed_close(&bed);
}

static enum act answer_beat(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    static struct op_lost lost = {.id = {1, 9}};

    (void)f;
    lost.queue = slice_text("q");
    lost.receipt = slice_text("receipt");
    reply->heartbeat.extended = request->heartbeat.queue_count;
    reply->heartbeat.next_visible_at = request->heartbeat.lease.value;
    reply->heartbeat.lost = &lost;
    reply->heartbeat.lost_count = 1;
    reply->heartbeat.more = true;
    return ACT_REPLY;
}

/* A heartbeat whose answer was lost is sent again under its attempt id, so that what was
 * lost is told again. */
static void lost_heartbeat_is_the_same_attempt(void **state)
{
    static const char *const queues[] = {"q", "p"};
    const unsigned char session[HF_SESSION_BYTES] = "consumer session";
    struct hf_heartbeat *heartbeat;
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, answer_beat);
    assert_int_equal(hf_heartbeat(bed.client, session, queues, 2, 1, 7000, &heartbeat,
                                  &bed.error),
                     HF_OK);
    assert_int_equal(heartbeat->extended, 2);
    assert_int_equal(heartbeat->next_visible_at, 7000);
    assert_int_equal(heartbeat->lost_count, 1);
    assert_int_equal(heartbeat->lost[0].id.low, 9);
    assert_int_equal(heartbeat->lost[0].receipt.len, 7);
    assert_true(heartbeat->more);
    hf_heartbeat_free(heartbeat);
    assert_memory_equal(bed.a->seen[0].attempt, bed.b->seen[0].attempt, 16);
    assert_memory_equal(bed.b->seen[0].session, session, 16);
    assert_int_equal(
        hf_heartbeat(bed.client, NULL, NULL, 0, 0, 0, &heartbeat, &bed.error),
        HF_E_INVALID_ARGUMENT);
    bed_close(&bed);
}

/* What is not safe to repeat is not repeated. */
static void unsafe_call_ends_as_unknown(void **state)
{
    struct bed bed;
    uint64_t count = 99;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    assert_int_equal(hf_kick(bed.client, "q", NULL, 10, &count, &bed.error),
                     HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(count, 99);
    assert_int_equal(fake_seen(bed.b), 0);
    bed_close(&bed);
}

/* Two pages of a key: 256 and then 3; a fire is refused. */
static enum act answer_changes(struct fake *f, const struct op_request *request,
                               struct op_reply *reply)
{
    static const uint8_t cursor[8] = {0, 0, 0, 0, 0, 0, 1, 0};
    const struct op_modify *op = &request->modify;

    if (request->op != OP_MODIFY) {
        return answer_ok(f, request, reply);
    }
    if (op->kind == MODIFY_FIRE_NOW || op->kind == MODIFY_SET_PRIORITY) {
        reply->error.status = HF_E_IN_FLIGHT;
        return ACT_REPLY;
    }
    reply->modify.id.low = op->cursor.data != NULL ? 300 : 1;
    reply->modify.state_before = MESSAGE_SCHEDULED;
    reply->modify.state = MESSAGE_SCHEDULED;
    reply->modify.due_ms = op->deliver_at.value;
    reply->modify.count = op->cursor.data != NULL ? 3 : 256;
    if (op->cursor.data == NULL) {
        reply->modify.more = true;
        reply->modify.cursor = slice_of(cursor, 8);
    }
    return ACT_REPLY;
}

/* A change by key asks on until all are changed, and shows the first. */
static void change_by_key_goes_through_all_pages(void **state)
{
    struct hf_change change = {.kind = HF_CHANGE_RESCHEDULE,
                               .key = "order",
                               .has_deliver_at = 1,
                               .deliver_at_ms = 5000};
    struct hf_changed changed;
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, answer_changes);
    assert_int_equal(hf_change(bed.client, "q", &change, &changed, &bed.error), HF_OK);
    assert_int_equal(changed.count, 259);
    assert_int_equal(changed.id.low, 1);
    assert_int_equal(changed.due_ms, 5000);
    assert_int_equal(fake_seen(bed.a), 2);
    change.kind = HF_CHANGE_FIRE_NOW;
    change.has_deliver_at = 0;
    assert_int_equal(hf_change(bed.client, "q", &change, &changed, &bed.error),
                     HF_E_IN_FLIGHT);
    change.kind = 9;
    assert_int_equal(hf_change(bed.client, "q", &change, &changed, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(fake_seen(bed.a), 3);
    bed_close(&bed);
}

/* A refusal of the second try does not say what the first one did. */
static void refused_repeat_of_a_change_is_unknown(void **state)
{
    struct hf_change change = {.kind = HF_CHANGE_PRIORITY, .key = "k", .priority = 1};
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, answer_changes);
    assert_int_equal(hf_change(bed.client, "q", &change, NULL, &bed.error),
                     HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(fake_seen(bed.b), 1);
    bed_close(&bed);

    /* And what cannot be done twice is not tried twice. */
    change.kind = HF_CHANGE_FIRE_NOW;
    change.priority = 0;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, answer_changes);
    assert_int_equal(hf_change(bed.client, "q", &change, NULL, &bed.error),
                     HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(fake_seen(bed.b), 0);
    bed_close(&bed);
}

/* A cancel says where the message was. */
static void cancel_tells_where_it_was(void **state)
{
    struct bed bed;
    struct hf_id id = {1, 2};
    int before = 99;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, answer_ok);
    assert_int_equal(hf_cancel(bed.client, "q", id, NULL, &before, &bed.error), HF_OK);
    assert_int_equal(before, HF_MESSAGE_SCHEDULED);
    /* Somebody else's cancel is no success of this one. */
    fake_script(bed.a, answer_cancelled);
    before = 99;
    assert_int_equal(hf_cancel(bed.client, "q", id, NULL, &before, &bed.error),
                     HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(bed.error.gone, HF_GONE_CANCELLED);
    assert_int_equal(before, 99);
    bed_close(&bed);
}

/* A cancel whose answer was lost is repeated; found cancelled, it is done. */
static void lost_cancel_is_repeated(void **state)
{
    struct bed bed;
    struct hf_id id = {1, 2};
    int before = 99;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, answer_cancelled);
    assert_int_equal(hf_cancel(bed.client, "q", id, NULL, &before, &bed.error), HF_OK);
    assert_int_equal(before, HF_MESSAGE_DELETED);
    assert_int_equal(fake_seen(bed.b), 1);
    bed_close(&bed);
}

static void schedule_is_counted(void **state)
{
    struct bed bed;
    struct hf_due due = {.has_from = 1, .from_ms = 1000};
    struct hf_schedule *schedule = NULL;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, answer_ok);
    assert_int_equal(
        hf_schedule_count(bed.client, "q", &due, 4000, &schedule, &bed.error), HF_OK);
    assert_int_equal(schedule->total, 7);
    assert_int_equal(schedule->bucket_ms, 4000);
    assert_int_equal(schedule->bucket_count, 2);
    assert_int_equal(schedule->buckets[1].start_ms, 5000);
    assert_int_equal(schedule->buckets[1].count, 4);
    assert_true(schedule->more);
    hf_schedule_free(schedule);
    bed_close(&bed);
}

/* An unnumbered send is not safe either. */
static void unnumbered_send_ends_as_unknown(void **state)
{
    struct bed bed;
    struct hf_options options;
    char cluster[80];

    (void)state;
    bed_open(&bed, 5000);
    hf_client_close(bed.client);
    hf_options_init(&options);
    options.unnumbered = 1;
    snprintf(cluster, sizeof cluster, "%s,%s", bed.a->address, bed.b->address);
    assert_int_equal(hf_client_open(cluster, &options, &bed.client, &bed.error), HF_OK);
    fake_script(bed.a, take_and_close);
    assert_int_equal(send_one(&bed, NULL), HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(fake_seen(bed.a), 1);
    assert_int_equal(fake_seen(bed.b), 0);
    bed_close(&bed);
}

/* Written and never answered: the outcome is not known, and is not reported as "no
 * leader". */
static void silence_after_writing_is_unknown(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    fake_script(bed.a, answer_nothing);
    hf_client_set_timeout(bed.client, 300);
    assert_int_equal(send_one(&bed, NULL), HF_E_UNKNOWN_OUTCOME);
    bed_close(&bed);
}

/* A stopped leader costs no longer than a dead one: another that leads in a higher term
 * takes over. */
static void silent_leader_is_left(void **state)
{
    struct bed bed;
    struct hf_send_result result;
    int64_t began;

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    fake_freeze(bed.a);
    fake_lead(bed.b, bed.b, 2);
    began = now_ms();
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_true(now_ms() - began < 1000);
    assert_int_equal(fake_seen(bed.b), 1);
    bed_close(&bed);
}

/* A leader that is slow but answers PING is not left. */
static enum act answer_late(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    if (request->op == OP_SEND && f->step++ == 0) {
        return ACT_SILENT;
    }
    return answer_ok(f, request, reply);
}

static void slow_leader_is_kept(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, answer_late);
    hf_client_set_timeout(bed.client, 800);
    assert_int_equal(send_one(&bed, NULL), HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    assert_int_equal(fake_seen(bed.b), 0);
    assert_int_equal(bed.a->accepted, 1);
    bed_close(&bed);
}

/* Bytes that are no answer cost the connection, not the call. */
static enum act garbage_once(struct fake *f, const struct op_request *request,
                             struct op_reply *reply)
{
    if (request->op == OP_SEND && f->step++ == 0) {
        return ACT_GARBAGE;
    }
    return answer_ok(f, request, reply);
}

static void malformed_answer_costs_the_connection_only(void **state)
{
    struct bed bed;
    struct hf_send_result result;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, garbage_once);
    assert_int_equal(send_one(&bed, &result), HF_OK);
    assert_int_equal(bed.a->seen[1].sequence, 1);
    assert_int_equal(bed.a->seen[2].sequence, 1);
    bed_close(&bed);
}

/* ---- refusals ---- */

static enum act refuse_once(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    if (request->op == OP_SEND && f->step++ == 0) {
        reply->error.status = HF_E_QUEUE_FULL;
        return ACT_REPLY;
    }
    return answer_ok(f, request, reply);
}

/* A refusal that may pass is tried again, under the same number. */
static void passing_refusal_is_tried_again(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, refuse_once);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    assert_int_equal(fake_seen(bed.a), 3);
    assert_int_equal(bed.a->seen[1].sequence, bed.a->seen[2].sequence);
    bed_close(&bed);
}

static enum act refuse_full(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    if (request->op == OP_SEND) {
        reply->error.status = HF_E_QUEUE_FULL;
        reply->error.message =
            slice_text("queue q holds 10 messages, its max_messages");
        reply->error.retry_after_ms = 2000;
        return ACT_REPLY;
    }
    return answer_ok(f, request, reply);
}

/* When the advised pause is longer than the call may last, the refusal comes at once
 * and as it was. */
static void refusal_beyond_the_limit_ends_the_call(void **state)
{
    struct bed bed;
    int64_t began = now_ms();

    (void)state;
    bed_open(&bed, 1000);
    fake_script(bed.a, refuse_full);
    assert_int_equal(send_one(&bed, NULL), HF_E_QUEUE_FULL);
    assert_true(now_ms() - began < 900);
    assert_string_equal(bed.error.sentence,
                        "queue q holds 10 messages, its max_messages");
    assert_int_equal(bed.error.retry_after_ms, 2000);
    assert_false(bed.error.unreachable);
    bed_close(&bed);
}

static enum act refuse_bounds(struct fake *f, const struct op_request *request,
                              struct op_reply *reply)
{
    (void)f;
    (void)request;
    reply->error.status = HF_E_INVALID_ARGUMENT;
    reply->error.element = slice_text("lease");
    reply->error.has_bounds = true;
    reply->error.low = 1000;
    reply->error.high = 43200000;
    return ACT_REPLY;
}

/* Any other refusal ends the call, with the element and its bounds. */
static void refusal_of_the_argument_ends_the_call(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, refuse_bounds);
    assert_int_equal(hf_queue_create(bed.client, "q", NULL, 0, NULL, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_string_equal(bed.error.element, "lease");
    assert_true(bed.error.has_bounds);
    assert_int_equal(bed.error.low, 1000);
    assert_int_equal(bed.error.high, 43200000);
    assert_true(bed.error.sentence[0] != '\0');
    assert_int_equal(fake_seen(bed.a), 1);
    bed_close(&bed);
}

/* The second answer to a deletion whose first answer was lost is success. */
static enum act delete_lost(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    (void)request;
    if (f->step++ == 0) {
        return ACT_CLOSE;
    }
    reply->error.status = HF_E_QUEUE_NOT_FOUND;
    return ACT_REPLY;
}

static void repeated_delete_that_finds_nothing_is_done(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, delete_lost);
    assert_int_equal(hf_queue_delete(bed.client, "q", 1, NULL, &bed.error), HF_OK);
    assert_int_equal(hf_queue_delete(bed.client, "q", 1, NULL, &bed.error),
                     HF_E_QUEUE_NOT_FOUND);
    bed_close(&bed);
}

/* ---- sessions ---- */

static enum act forget_once(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    if (request->op == OP_SEND && f->step++ == 0) {
        reply->error.status = HF_E_SEQUENCE_TOO_OLD;
        return ACT_REPLY;
    }
    return answer_ok(f, request, reply);
}

/* The opening of a session goes out in the turn that asks for it: nothing else may be
 * coming that would wake the client for it. */
static void session_is_opened_without_delay(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(hf_ping(bed.client, &bed.error), HF_OK);
    assert_int_equal(hf_ping(bed.client, &bed.error),
                     HF_OK); /* the members are known */
    hf_client_set_timeout(bed.client, 1000);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    bed_close(&bed);
}

/* A forgotten session: a send that certainly was not stored takes a number of a new
 * one. */
static void fresh_send_survives_a_forgotten_session(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, forget_once);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    assert_int_equal(fake_seen(bed.a), 4); /* open, refused, open, stored */
    assert_int_equal(bed.a->seen[2].op, OP_SESSION_OPEN);
    assert_int_equal(bed.a->seen[3].sequence, 1);
    assert_memory_not_equal(bed.a->seen[1].session, bed.a->seen[3].session, 16);
    bed_close(&bed);
}

/* A session that the caller names is opened under that name, again when it was
 * forgotten: its numbers begin anew with each opening. */
static void named_session_is_opened_by_name(void **state)
{
    static const unsigned char name[] = "a session by name";
    struct hf_options options;
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    hf_client_close(bed.client);
    hf_options_init(&options);
    options.session = name;
    assert_int_equal(hf_client_open(bed.a->address, &options, &bed.client, NULL),
                     HF_OK);
    fake_script(bed.a, forget_once);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    assert_int_equal(fake_seen(bed.a), 4);
    assert_memory_equal(bed.a->seen[1].session, name, 16);
    assert_memory_equal(bed.a->seen[3].session, name, 16);
    assert_int_equal(bed.a->seen[3].sequence, 1);
    bed_close(&bed);
}

static enum act lose_then_fence(struct fake *f, const struct op_request *request,
                                struct op_reply *reply)
{
    if (request->op != OP_SEND) {
        return answer_ok(f, request, reply);
    }
    if (f->step++ == 0) {
        return ACT_CLOSE;
    }
    reply->error.status = HF_E_INVALID_ARGUMENT;
    reply->error.element = slice_text("epoch");
    return ACT_REPLY;
}

/* Fenced by another producer: a plain refusal for a send that was not answered before,
 * an unknown outcome for one that may have been stored. */
static void fenced_send_is_told_apart(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, lose_then_fence);
    assert_int_equal(send_one(&bed, NULL), HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(send_one(&bed, NULL), HF_E_INVALID_ARGUMENT);
    bed_close(&bed);
}

static enum act lose_then_forget(struct fake *f, const struct op_request *request,
                                 struct op_reply *reply)
{
    if (request->op != OP_SEND) {
        return answer_ok(f, request, reply);
    }
    if (f->step++ == 0) {
        return ACT_CLOSE;
    }
    reply->error.status = HF_E_SEQUENCE_TOO_OLD;
    return ACT_REPLY;
}

/* But one that may have been stored under the forgotten session must not be stored a
 * second time. */
static void resend_meeting_a_forgotten_session_is_unknown(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, lose_then_forget);
    assert_int_equal(send_one(&bed, NULL), HF_E_UNKNOWN_OUTCOME);
    bed_close(&bed);
}

/* ---- many at once ---- */

struct tally {
    unsigned ok;
    unsigned failed;
    int last_status;
    uint64_t order[2048];
    unsigned count;
    struct hf_client *client;
    int nested_status;
};

static void on_sent(void *ctx, const struct hf_error *error,
                    const struct hf_send_result *results, size_t count)
{
    struct tally *t = ctx;

    if (error->status == HF_OK) {
        assert_int_equal(count, 1);
        t->order[t->count++ % 2048] = results[0].id.low;
        t->ok++;
    } else {
        assert_null(results);
        t->failed++;
    }
    t->last_status = error->status;
}

static void begin_send(struct bed *bed, struct tally *t)
{
    struct hf_send_entry entry = {.body = hf_text("x")};

    assert_int_equal(
        hf_send_begin(bed->client, "q", &entry, 1, on_sent, t, &bed->error), HF_OK);
}

static void wait_all(struct bed *bed)
{
    while (hf_pending(bed->client) > 0) {
        assert_int_equal(hf_poll(bed->client, NULL, 0, -1), HF_OK);
    }
}

static enum act hold_three(struct fake *f, const struct op_request *request,
                           struct op_reply *reply)
{
    return request->op == OP_SEND ? ACT_HOLD : answer_ok(f, request, reply);
}

/* Answers may come in any order; each goes to its own call. */
static void answers_in_any_order_find_their_calls(void **state)
{
    struct bed bed;
    struct tally t = {0};

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, hold_three);
    for (int i = 0; i < 3; i++) {
        begin_send(&bed, &t);
    }
    wait_all(&bed);
    assert_int_equal(t.ok, 3);
    assert_int_equal(t.order[0], 3);
    assert_int_equal(t.order[1], 2);
    assert_int_equal(t.order[2], 1);
    bed_close(&bed);
}

static enum act close_after_fifty(struct fake *f, const struct op_request *request,
                                  struct op_reply *reply)
{
    if (request->op == OP_SEND && ++f->step == 50) {
        fake_lead(f->next, f->next, f->term + 1);
        set_leader(f, f->next, f->term + 1);
        return ACT_CLOSE;
    }
    return request->op == OP_SEND ? ACT_SILENT : answer_ok(f, request, reply);
}

/* After a failover everything unanswered goes out again in the order it was begun, none
 * left out. */
static void numbered_sends_keep_their_order(void **state)
{
    struct bed bed;
    struct tally t = {0};

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, close_after_fifty);
    for (int i = 0; i < 700; i++) {
        begin_send(&bed, &t);
    }
    wait_all(&bed);
    assert_int_equal(t.ok, 700);
    assert_int_equal(fake_seen(bed.b), 700);
    for (unsigned i = 0; i < 700; i++) {
        assert_int_equal(bed.b->seen[i].sequence, i + 1);
    }
    bed_close(&bed);
}

static enum act answer_all_but_first(struct fake *f, const struct op_request *request,
                                     struct op_reply *reply)
{
    return request->op == OP_SEND && request->send.sequence == 1
               ? ACT_SILENT
               : answer_ok(f, request, reply);
}

/* The cluster remembers a bounded window of numbers: sends do not run ahead of an
 * unanswered one beyond it. */
static void sends_do_not_outrun_the_window(void **state)
{
    struct bed bed;
    struct tally t = {0};
    uint64_t highest = 0;

    (void)state;
    bed_open(&bed, 1500);
    fake_script(bed.a, answer_all_but_first);
    for (int i = 0; i < 1500; i++) {
        begin_send(&bed, &t);
    }
    while (t.ok < CLIENT_SEQUENCE_LAG - 1) {
        assert_int_equal(hf_poll(bed.client, NULL, 0, -1), HF_OK);
    }
    pthread_mutex_lock(&bed.a->lock);
    for (unsigned i = 0; i < bed.a->seen_count; i++) {
        highest = bed.a->seen[i].sequence > highest ? bed.a->seen[i].sequence : highest;
    }
    pthread_mutex_unlock(&bed.a->lock);
    assert_int_equal(highest, CLIENT_SEQUENCE_LAG);
    wait_all(&bed);
    bed_close(&bed);
}

static void on_sent_blocking(void *ctx, const struct hf_error *error,
                             const struct hf_send_result *results, size_t count)
{
    struct tally *t = ctx;

    (void)error;
    (void)results;
    (void)count;
    t->nested_status = hf_ping(t->client, NULL);
    t->ok++;
}

/* A callback that blocks would never end: it is refused. */
static void callback_must_not_block(void **state)
{
    struct bed bed;
    struct tally t = {0};
    struct hf_send_entry entry = {.body = hf_text("x")};

    (void)state;
    bed_open(&bed, 5000);
    t.client = bed.client;
    assert_int_equal(
        hf_send_begin(bed.client, "q", &entry, 1, on_sent_blocking, &t, NULL), HF_OK);
    wait_all(&bed);
    assert_int_equal(t.ok, 1);
    assert_int_equal(t.nested_status, HF_E_INVALID_ARGUMENT);
    bed_close(&bed);
}

/* Closing ends every call exactly once, and says of each whether it may have
 * happened. */
static void close_ends_every_call(void **state)
{
    struct bed bed;
    struct tally t = {0};

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    begin_send(&bed, &t);
    hf_client_close(bed.client);
    bed.client = NULL;
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.last_status, HF_E_CLOSED); /* it was never written */

    open_client(&bed, bed.a->address, 5000);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    fake_script(bed.a, answer_nothing);
    begin_send(&bed, &t);
    assert_int_equal(hf_poll(bed.client, NULL, 0, 10), HF_OK);
    hf_client_close(bed.client);
    bed.client = NULL;
    assert_int_equal(t.failed, 2);
    assert_int_equal(t.last_status, HF_E_UNKNOWN_OUTCOME);
    bed_close(&bed);
}

/* ---- receive ---- */

static enum act take_receive(struct fake *f, const struct op_request *request,
                             struct op_reply *reply)
{
    static struct op_message message;
    static const uint8_t receipt[RECEIPT_BYTES] = {1};

    if (request->op != OP_RECEIVE) {
        return answer_ok(f, request, reply);
    }
    memset(&message, 0, sizeof message);
    message.id = (struct message_id){5, 6};
    message.queue = slice_text("q");
    message.receipt = slice_of(receipt, sizeof receipt);
    message.body = slice_text("hello");
    message.attributes = slice_text("\x82\xa1"
                                    "a\x07\xa1"
                                    "b\xa1"
                                    "c");
    message.keys = slice_text("\x91\xa2k1");
    message.deliveries = 2;
    message.priority = 8;
    message.state = MESSAGE_LEASED;
    reply->receive.messages = &message;
    reply->receive.count = 1;
    return ACT_REPLY;
}

static struct hf_receive receive_from(const char *const *queue, int64_t wait_ms)
{
    struct hf_receive receive = {
        .queues = queue, .queue_count = 1, .max = 10, .wait_ms = wait_ms};

    return receive;
}

/* A long poll goes on at the next leader with what is left of its wait, as the same
 * attempt: whatever the first leader leased for it is what the second one gives. */
static void long_poll_survives_the_leader(void **state)
{
    static const char *const queue[] = {"q"};
    struct hf_receive receive = receive_from(queue, 20000);
    struct hf_messages *messages = NULL;
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(hf_ping(bed.client, &bed.error), HF_OK);
    fake_script(bed.a, take_and_close);
    fake_script(bed.b, take_receive);
    assert_int_equal(hf_receive(bed.client, &receive, &messages, &bed.error), HF_OK);
    assert_int_equal(messages->count, 1);
    assert_int_equal(messages->items[0].id.low, 6);
    assert_int_equal(messages->items[0].deliveries, 2);
    assert_int_equal(messages->items[0].key_count, 1);
    assert_memory_equal(messages->items[0].keys[0].data, "k1", 2);
    assert_int_equal(messages->items[0].attribute_count, 2);
    assert_int_equal(messages->items[0].attributes[0].integer, 7);
    assert_int_equal(messages->items[0].attributes[1].type, HF_TEXT);
    hf_messages_free(messages);
    assert_memory_equal(bed.a->seen[0].attempt, bed.b->seen[0].attempt, 16);
    assert_int_equal(bed.a->seen[0].wait_ms <= 20000, 1);
    assert_true(bed.b->seen[0].wait_ms <= bed.a->seen[0].wait_ms);
    assert_true(bed.b->seen[0].wait_ms > 15000);
    bed_close(&bed);
}

/* Long polls are silent by nature; a stopped leader is left all the same, and the poll
 * goes on elsewhere. */
static void silent_leader_is_left_by_a_long_poll(void **state)
{
    static const char *const queue[] = {"q"};
    struct hf_receive receive = {
        .queues = queue, .queue_count = 1, .max = 1, .wait_ms = 20000};
    struct hf_messages *messages;
    struct bed bed;
    int64_t began;

    (void)state;
    bed_open(&bed, 5000);
    assert_int_equal(hf_ping(bed.client, &bed.error), HF_OK);
    fake_freeze(bed.a);
    fake_script(bed.b, take_receive);
    fake_lead(bed.b, bed.b, 2);
    began = now_ms();
    assert_int_equal(hf_receive(bed.client, &receive, &messages, &bed.error), HF_OK);
    hf_messages_free(messages);
    assert_true(now_ms() - began < 2500);
    assert_int_equal(fake_seen(bed.b), 1);
    bed_close(&bed);
}

static enum act empty_then_message(struct fake *f, const struct op_request *request,
                                   struct op_reply *reply)
{
    if (request->op == OP_RECEIVE && f->step++ == 0) {
        return ACT_REPLY; /* nothing */
    }
    return take_receive(f, request, reply);
}

/* A wait longer than one request may wait goes on in the next, which is a new
 * attempt. */
static void long_wait_is_several_requests(void **state)
{
    static const char *const queue[] = {"q"};
    struct hf_receive receive = receive_from(queue, 600000);
    struct hf_messages *messages = NULL;
    struct bed bed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, empty_then_message);
    assert_int_equal(hf_receive(bed.client, &receive, &messages, &bed.error), HF_OK);
    assert_int_equal(messages->count, 1);
    hf_messages_free(messages);
    assert_int_equal(fake_seen(bed.a), 2);
    assert_int_equal(bed.a->seen[0].wait_ms, LIMIT_WAIT_MS);
    assert_memory_not_equal(bed.a->seen[0].attempt, bed.a->seen[1].attempt, 16);
    bed_close(&bed);
}

/* ---- memory ---- */

static void on_settled(void *ctx, const struct hf_error *error,
                       const struct hf_settle_result *results, size_t count)
{
    struct tally *t = ctx;

    (void)results;
    (void)count;
    t->ok += error->status == HF_OK;
    t->failed += error->status != HF_OK;
}

/* A little of everything; each call that was begun ends. */
static void live(const char *cluster)
{
    static const char *const queue[] = {"q"};
    static const unsigned char receipt[HF_RECEIPT_BYTES] = {1};
    struct hf_receive receive = {.queues = queue, .queue_count = 1, .max = 10};
    struct hf_bytes key = hf_text("k");
    struct hf_attribute attribute = {
        .name = hf_text("a"), .type = HF_INT, .integer = 1};
    struct hf_send_entry entry = {.body = hf_text("x"),
                                  .keys = &key,
                                  .key_count = 1,
                                  .attributes = &attribute,
                                  .attribute_count = 1};
    struct hf_settle_entry settle = {.receipt = hf_data(receipt, sizeof receipt)};
    struct hf_messages *messages;
    struct hf_client *client;
    struct tally t = {0};
    struct hf_error error;
    unsigned begun = 0;

    if (hf_client_open(cluster, NULL, &client, &error) != HF_OK) {
        assert_int_equal(error.status, HF_E_MEMORY_LOW);
        return;
    }
    hf_client_set_timeout(client, 500);
    (void)hf_send(client, "q", "x", 1, NULL, &error);
    begun += hf_send_begin(client, "q", &entry, 1, on_sent, &t, NULL) == HF_OK;
    begun +=
        hf_settle_begin(client, "q", HF_ACK, &settle, 1, on_settled, &t, NULL) == HF_OK;
    while (hf_pending(client) > 0) {
        assert_int_equal(hf_poll(client, NULL, 0, -1), HF_OK);
    }
    assert_int_equal(t.ok + t.failed, begun);
    if (hf_receive(client, &receive, &messages, &error) == HF_OK) {
        assert_int_equal(messages->count, 1);
        hf_messages_free(messages);
    }
    (void)hf_queue_create(client, "q", &attribute, 1, NULL, &error);
    hf_client_close(client);
}

/* Whatever allocation fails, every call ends, nothing is lost or freed twice, and the
 * rest goes on. */
static void every_failed_allocation_is_survived(void **state)
{
    struct bed bed;
    unsigned failed;

    (void)state;
    bed_open(&bed, 5000);
    fake_script(bed.a, take_receive);
    for (failed = 1;; failed++) {
        fail_at = failed;
        allocations = 0;
        live(bed.a->address);
        fail_at = 0;
        if (allocations < failed) {
            break; /* there were no more to fail */
        }
    }
    assert_true(failed > 20);
    assert_int_equal(send_one(&bed, NULL), HF_OK);
    bed_close(&bed);
}

/* ---- cluster status ---- */

/* Every node is asked itself; one that is dead has its reason and does not hold up the
 * rest. */
static void status_names_the_dead(void **state)
{
    struct hf_node *nodes = calloc(8, sizeof *nodes);
    struct bed bed;
    size_t count = 0;
    int64_t began;

    (void)state;
    assert_non_null(nodes);
    bed_open(&bed, 5000);
    fake_kill(bed.b);
    began = now_ms();
    assert_int_equal(hf_cluster_status(bed.client, 0, nodes, 8, &count, &bed.error),
                     HF_OK);
    assert_true(now_ms() - began < 1000);
    assert_int_equal(count, 2);
    assert_int_equal(nodes[0].error.status, HF_OK);
    assert_int_equal(nodes[0].node, 1);
    assert_string_equal(nodes[0].state, "leader");
    assert_int_equal(nodes[1].error.status, HF_E_UNAVAILABLE);
    assert_string_equal(nodes[1].address, bed.b->address);
    fake_kill(bed.a);
    assert_int_equal(hf_cluster_status(bed.client, 0, nodes, 8, &count, &bed.error),
                     HF_E_NO_LEADER);
    free(nodes);
    bed_close(&bed);
}

/* ---- arguments ---- */

static void addresses_are_checked(void **state)
{
    struct hf_client *client = NULL;
    struct hf_error error;

    (void)state;
    assert_int_equal(hf_client_open("", NULL, &client, &error), HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open(" , ", NULL, &client, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open("host:port", NULL, &client, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open(":7400", NULL, &client, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open("[::1:7400", NULL, &client, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open("a:1x", NULL, &client, NULL),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open("a:0", NULL, &client, NULL), HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_client_open("a:65536", NULL, &client, NULL),
                     HF_E_INVALID_ARGUMENT);
    assert_null(client);
    assert_int_equal(hf_client_open("[::1]:65535", NULL, &client, &error), HF_OK);
    hf_client_close(client);
    assert_int_equal(hf_client_open("[::1]:7400, b, c:1", NULL, &client, &error),
                     HF_OK);
    hf_client_close(client);
    hf_client_close(NULL);
}

static void arguments_are_checked_before_anything_is_sent(void **state)
{
    struct hf_send_entry entry = {.body = {"x", 1}};
    struct hf_settle_entry short_receipt = {.receipt = {"x", 97}};
    struct hf_settle_result result;
    struct hf_send_result sent;
    struct bed bed;

    (void)state;
    bed_open(&bed, 1000);
    assert_int_equal(hf_send_batch(bed.client, "", &entry, 1, &sent, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_send_batch(bed.client, "q", &entry, 0, &sent, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_send_batch(bed.client, "q", &entry, 257, &sent, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    entry.key_count = 9;
    assert_int_equal(hf_send_batch(bed.client, "q", &entry, 1, &sent, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    entry = (struct hf_send_entry){.body = {"x", 100u << 20}};
    assert_int_equal(hf_send_batch(bed.client, "q", &entry, 1, &sent, &bed.error),
                     HF_E_TOO_LARGE);
    assert_int_equal(
        hf_settle(bed.client, "q", HF_ACK, &short_receipt, 1, &result, &bed.error),
        HF_E_RECEIPT_MALFORMED);
    assert_int_equal(fake_seen(bed.a), 0);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leader_is_found_through_a_follower),
        cmocka_unit_test(not_leader_is_followed_at_once),
        cmocka_unit_test(members_are_learned),
        cmocka_unit_test(lower_term_is_no_leader),
        cmocka_unit_test(no_leader_ends_at_the_limit),
        cmocka_unit_test(lost_answer_is_asked_again_with_the_same_number),
        cmocka_unit_test(lost_tx_is_asked_again_with_the_same_number),
        cmocka_unit_test(refused_tx_names_its_item),
        cmocka_unit_test(lost_heartbeat_is_the_same_attempt),
        cmocka_unit_test(unsafe_call_ends_as_unknown),
        cmocka_unit_test(unnumbered_send_ends_as_unknown),
        cmocka_unit_test(change_by_key_goes_through_all_pages),
        cmocka_unit_test(refused_repeat_of_a_change_is_unknown),
        cmocka_unit_test(cancel_tells_where_it_was),
        cmocka_unit_test(lost_cancel_is_repeated),
        cmocka_unit_test(schedule_is_counted),
        cmocka_unit_test(silence_after_writing_is_unknown),
        cmocka_unit_test(silent_leader_is_left),
        cmocka_unit_test(slow_leader_is_kept),
        cmocka_unit_test(silent_leader_is_left_by_a_long_poll),
        cmocka_unit_test(malformed_answer_costs_the_connection_only),
        cmocka_unit_test(passing_refusal_is_tried_again),
        cmocka_unit_test(refusal_beyond_the_limit_ends_the_call),
        cmocka_unit_test(refusal_of_the_argument_ends_the_call),
        cmocka_unit_test(repeated_delete_that_finds_nothing_is_done),
        cmocka_unit_test(session_is_opened_without_delay),
        cmocka_unit_test(named_session_is_opened_by_name),
        cmocka_unit_test(fenced_send_is_told_apart),
        cmocka_unit_test(fresh_send_survives_a_forgotten_session),
        cmocka_unit_test(resend_meeting_a_forgotten_session_is_unknown),
        cmocka_unit_test(answers_in_any_order_find_their_calls),
        cmocka_unit_test(numbered_sends_keep_their_order),
        cmocka_unit_test(sends_do_not_outrun_the_window),
        cmocka_unit_test(callback_must_not_block),
        cmocka_unit_test(close_ends_every_call),
        cmocka_unit_test(long_poll_survives_the_leader),
        cmocka_unit_test(long_wait_is_several_requests),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(status_names_the_dead),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(arguments_are_checked_before_anything_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
