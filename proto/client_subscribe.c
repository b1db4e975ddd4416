/* client_subscribe.c: subscriptions: messages that the leader sends as they become
 * ready, for as long as there is credit.
 *
 *   OFF --leader, credit--> ASKED --first reply--> ON --ended by its owner--> ENDING
 *    ^                        |                     |                            |
 *    +--- last reply, link lost, another leader ----+----------------------------+
 *
 * Under the next leader it goes on by itself. What was on its way to a lost link comes
 * again, because each reply with messages is an attempt: the next SUBSCRIBE names the
 * first one that was not seen. A refusal that the owner should know of is told, and
 * tried again after a pause.
 *
 * S1: credit = what the node may still send; it was given that much and has not sent
 * it. */
#include "proto/client.h"

#include "proto/check.h"

void client_subscription_open(struct hf_client *client, struct client_subscription *s)
{
    client_random(s->attempt);
    s->state = SUBSCRIPTION_OFF;
    s->wanted_ms = -1;
    s->next = client->subscriptions;
    client->subscriptions = s;
}

void client_subscription_close(struct hf_client *client, struct client_subscription *s)
{
    struct client_subscription **at = &client->subscriptions;

    while (*at != NULL && *at != s) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = s->next;
    }
}

/* The node has forgotten it, or will not be heard any more. */
static void switch_off(struct client_subscription *s)
{
    s->state = SUBSCRIPTION_OFF;
    s->id = 0;
    s->credit = 0;
}

/* ---- asking ---- */

static bool write_request(struct hf_client *c, unsigned node,
                          struct op_request *request)
{
    struct link *link = finder_link(&c->finder, node);

    request->id = c->next_id++;
    return link != NULL && link_request(link, request) == HF_OK;
}

/* Each try costs a pause, which grows, before the next. */
static void pause_after(struct hf_client *c, struct client_subscription *s,
                        int64_t at_least_ms, int64_t now_ms)
{
    int64_t pause_ms = backoff_delay_ms(&c->backoff, s->tries++);

    s->retry_ms = now_ms + (pause_ms > at_least_ms ? pause_ms : at_least_ms);
    s->wanted_ms = -1;
}

static void subscribe(struct hf_client *c, struct client_subscription *s,
                      uint32_t credit, int64_t now_ms)
{
    struct op_request request = {.op = OP_SUBSCRIBE};
    unsigned leader = (unsigned)c->finder.leader;

    request.subscribe =
        (struct op_subscribe){.queue = slice_text(s->queue),
                              .credit = credit,
                              .lease = s->lease,
                              .attempt = slice_of(s->attempt, sizeof s->attempt)};
    if (s->filter[0] != '\0') {
        request.subscribe.filter = slice_text(s->filter);
    }
    if (!write_request(c, leader, &request)) {
        pause_after(c, s, 0, now_ms); /* out of memory */
        return;
    }
    finder_owed(&c->finder, now_ms);
    s->state = SUBSCRIPTION_ASKED;
    s->id = request.id;
    s->node = leader;
    s->credit = credit;
    s->wanted_ms = -1;
}

static void seek_leader(struct hf_client *c, struct client_subscription *s,
                        int64_t now_ms)
{
    struct hf_error error;

    if (s->wanted_ms < 0) {
        s->wanted_ms = now_ms;
    }
    if (now_ms - s->wanted_ms >= c->timeout_ms) {
        s->wanted_ms = now_ms;
        (void)client_no_leader(c, &error);
        s->on_refused(s->ctx, &error);
    }
}

void client_subscription_step(struct hf_client *c, struct client_subscription *s,
                              uint32_t wanted, int64_t now_ms)
{
    struct op_request request = {.op = OP_CREDIT};

    s->wanted = s->state == SUBSCRIPTION_OFF && wanted > 0 && now_ms >= s->retry_ms;
    if (s->wanted && finder_leader_link(&c->finder) != NULL) {
        subscribe(c, s, wanted, now_ms);
    } else if (s->wanted) {
        seek_leader(c, s, now_ms);
    } else if ((s->state == SUBSCRIPTION_ASKED || s->state == SUBSCRIPTION_ON) &&
               wanted > s->credit) {
        request.credit =
            (struct op_credit){.subscription = s->id, .credit = wanted - s->credit};
        if (write_request(c, s->node, &request)) {
            s->credit = wanted;
        }
    }
}

void client_subscription_end(struct hf_client *c, struct client_subscription *s)
{
    struct op_request request = {.op = OP_UNSUBSCRIBE};

    s->wanted = false;
    if (s->state == SUBSCRIPTION_OFF || s->state == SUBSCRIPTION_ENDING) {
        return;
    }
    request.unsubscribe.subscription = s->id;
    if (write_request(c, s->node, &request)) {
        s->state = SUBSCRIPTION_ENDING;
        finder_owed(&c->finder, client_now_ms());
    } else {
        switch_off(s);
    }
}

/* ---- what the node says ---- */

static void next_attempt(struct client_subscription *s)
{
    size_t i = sizeof s->attempt;

    while (i > 8 && ++s->attempt[i - 1] == 0) {
        i--;
    }
}

/* HF_E_PROTOCOL: more than it had credit for. */
static int on_pushed(struct client_subscription *s, const struct op_reply *reply,
                     struct client_answer *kept)
{
    uint32_t count = reply->subscribe.count;
    int rc = count <= s->credit
                 ? client_read_messages(kept, reply->subscribe.messages, count)
                 : HF_E_PROTOCOL;

    if (rc != HF_OK) {
        client_answer_free(kept);
        return rc;
    }
    s->tries = 0;
    if (s->state == SUBSCRIPTION_ASKED) {
        s->state = SUBSCRIPTION_ON;
    }
    if (count == 0) {
        client_answer_free(kept);
        return HF_OK;
    }
    s->credit -= count;
    next_attempt(s);
    s->on_messages(s->ctx, &kept->messages);
    return HF_OK;
}

static void on_over(struct hf_client *c, struct client_subscription *s,
                    const struct op_error *error, int64_t now_ms)
{
    unsigned node = s->node;
    bool ending = s->state == SUBSCRIPTION_ENDING;
    struct hf_error converted;

    switch_off(s);
    switch (error->status) {
    case HF_OK:
        return;
    case HF_E_NOT_LEADER:
    case HF_E_NO_LEADER:
    case HF_E_UNAVAILABLE:
    case HF_E_UNKNOWN_OUTCOME: /* a claim was out when its term ended */
        finder_refused(&c->finder, node, now_ms);
        finder_hint(&c->finder, error->leader, now_ms);
        return;
    default:
        break;
    }
    pause_after(c, s, error->retry_after_ms, now_ms);
    if (!ending) {
        client_error_from_op(&converted, error);
        s->on_refused(s->ctx, &converted);
    }
}

int client_subscriptions_on_message(struct hf_client *c, unsigned node, uint64_t id,
                                    struct slice message, int64_t now_ms)
{
    struct client_subscription *s = c->subscriptions;
    struct client_answer *kept;
    struct op_reply reply;
    int rc;

    while (s != NULL && (s->id != id || s->node != node)) {
        s = s->next;
    }
    if (s == NULL) {
        return HF_OK;
    }
    rc = client_decode_kept(message, OP_SUBSCRIBE, &reply, &kept);
    if (rc != HF_OK) {
        return rc;
    }
    client_note_stamp(c, &reply);
    if (reply.error.status == HF_OK && reply.subscribe.more) {
        return on_pushed(s, &reply, kept);
    }
    on_over(c, s, &reply.error, now_ms);
    client_answer_free(kept);
    return HF_OK;
}

/* ---- what the finder says, and is told ---- */

void client_subscriptions_lost(struct hf_client *c, unsigned node)
{
    for (struct client_subscription *s = c->subscriptions; s != NULL; s = s->next) {
        if (s->state != SUBSCRIPTION_OFF && s->node == node) {
            switch_off(s);
        }
    }
}

void client_subscriptions_move(struct hf_client *c, unsigned leader)
{
    for (struct client_subscription *s = c->subscriptions; s != NULL; s = s->next) {
        if (s->node != leader) {
            switch_off(s);
        }
    }
}

void client_subscriptions_want(const struct hf_client *c, struct finder_want *want)
{
    for (const struct client_subscription *s = c->subscriptions; s != NULL;
         s = s->next) {
        want->leader = want->leader || s->wanted || s->state != SUBSCRIPTION_OFF;
        want->flying = want->flying || s->state != SUBSCRIPTION_OFF;
        want->only_waiting = want->only_waiting && s->state != SUBSCRIPTION_ASKED &&
                             s->state != SUBSCRIPTION_ENDING;
    }
}

int64_t client_subscription_wake_ms(const struct hf_client *c,
                                    const struct client_subscription *s)
{
    if (s->state != SUBSCRIPTION_OFF) {
        return INT64_MAX;
    }
    return s->wanted_ms >= 0 ? s->wanted_ms + c->timeout_ms : s->retry_ms;
}
