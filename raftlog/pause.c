/* pause.c: pausing queues. */
#include "raftlog/pause.h"

#include "raftlog/bytes.h"
#include "raftlog/refuse.h"

#define HEAD_BYTES 12u

static struct slice key_of(uint8_t key[4], const struct queue *q)
{
    bytes_put_u32(key, q->number);
    return slice_of(key, 4);
}

bool pause_holds(const struct machine *m, const struct queue *q, enum pause_mode what)
{
    return (q->paused & what) != 0 && (q->paused_until == 0 || q->paused_until > m->now_ms);
}

int pause_check_send(struct machine *m, const struct queue *q, struct op_error *error)
{
    int64_t left = q->paused_until - m->now_ms;

    if (!pause_holds(m, q, PAUSE_SEND)) {
        return HF_OK;
    }
    error->retry_after_ms = q->paused_until == 0 ? 0 : left < 60000 ? left : 60000;
    return refuse(&m->arena, error, HF_E_PAUSED, "queue",
                  "the queue takes no messages while it is paused%s%.*s",
                  q->pause_reason_len != 0 ? ": " : "", (int)q->pause_reason_len,
                  (const char *)q->pause_reason);
}

static void mirror(struct queue *q, enum pause_mode mode, int64_t until_ms,
                   struct slice reason)
{
    q->paused = (uint8_t)mode;
    q->paused_until = until_ms;
    q->pause_reason_len =
        (uint16_t)(reason.len < LIMIT_REASON ? reason.len : LIMIT_REASON);
    if (q->pause_reason_len > 0) {
        memcpy(q->pause_reason, reason.data, q->pause_reason_len);
    }
}

void pause_forget(struct machine *m, struct queue *q)
{
    const struct slice none = {NULL, 0};
    uint8_t key[4];

    if (q->paused != PAUSE_NONE) {
        (void)store_delete(m->store, TREE_PAUSE, key_of(key, q));
        mirror(q, PAUSE_NONE, 0, none);
        queue_touch(&m->queues, q);
    }
}

void pause_sweep(struct machine *m, struct queue *q)
{
    if (q->paused != PAUSE_NONE && q->paused_until != 0 && q->paused_until <= m->now_ms) {
        pause_forget(m, q);
    }
}

static int load_one(void *ctx, struct slice key, struct slice value)
{
    struct machine *m = ctx;
    struct queue *q = queue_find_number(&m->queues, bytes_get_u32(key.data));

    if (q == NULL || value.len < HEAD_BYTES || value.data[0] != 1) {
        return HF_E_CORRUPT;
    }
    mirror(q, (enum pause_mode)value.data[1], bytes_get_i64(value.data + 4),
           slice_of(value.data + HEAD_BYTES, value.len - HEAD_BYTES));
    return HF_OK;
}

int pause_load(struct machine *m)
{
    struct store_view *view;
    int rc = store_view_open(m->store, &view);

    if (rc == HF_OK) {
        rc = store_view_each(view, TREE_PAUSE, load_one, m);
        store_view_close(view);
    }
    return rc;
}

int check_pause(struct machine *m, const struct op_pause *op, struct op_error *error)
{
    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    return HF_OK;
}

void apply_pause(struct machine *m, const struct apply *a)
{
    const struct op_pause *op = &a->request->pause;
    struct slice reason = op->reason;
    uint8_t at[HEAD_BYTES + LIMIT_REASON] = {1, (uint8_t)op->mode};
    uint8_t key[4];
    struct queue *q;

    if (check_pause(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    m->chain = machine_mix(m->chain, ((uint64_t)q->number << 8) ^ (uint64_t)op->mode);
    if (op->mode == PAUSE_NONE || (op->until.set && op->until.value <= m->now_ms)) {
        pause_forget(m, q);
        return;
    }
    mirror(q, op->mode, op->until.set ? op->until.value : 0, reason);
    bytes_put_i64(at + 4, q->paused_until);
    memcpy(at + HEAD_BYTES, q->pause_reason, q->pause_reason_len);
    store_put(m->store, TREE_PAUSE, key_of(key, q),
              slice_of(at, HEAD_BYTES + q->pause_reason_len));
    queue_touch(&m->queues, q);
}
