/* order_timeout.c: an order that is not paid in time is given up.
 *
 *     order_timeout CLUSTER [QUEUE]
 *
 * Placing an order schedules a message "give up order N" under the key "order-N".
 * Paying cancels it by that key. At the last moment both may be tried at once: the
 * cluster decides, and the answer to the cancel says which it was. So no order is ever
 * both paid and given up, and there is no clock to be watched in between.
 *
 * Here every other order is paid, some of them at the very moment the time is over.
 * Exit 0: each order ended one way, and as the answer said. */
#include <holdfast.h>

#include <stdio.h>
#include <string.h>

#define ORDERS     40
#define PAYABLE_MS 1500

enum fate { OPEN, PAID, GIVEN_UP };

struct shop {
    struct hf_client *client;
    const char *queue;
    enum fate orders[ORDERS];
    int64_t due_ms[ORDERS];
    int twice;
};

static int complain(const char *what, const struct hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(error->status),
            error->sentence);
    return 1;
}

static int place_order(struct shop *shop, int order)
{
    char body[32];
    char key[32];
    struct hf_bytes keys[1];
    struct hf_send_entry timeout;
    struct hf_send_result sent;
    struct hf_error error;

    snprintf(body, sizeof body, "give up order %d", order);
    snprintf(key, sizeof key, "order-%d", order);
    keys[0] = hf_text(key);
    memset(&timeout, 0, sizeof timeout);
    timeout.body = hf_text(body);
    timeout.keys = keys;
    timeout.key_count = 1;
    timeout.has_delay = 1;
    timeout.delay_ms = PAYABLE_MS;
    if (hf_send_batch(shop->client, shop->queue, &timeout, 1, &sent, &error) != HF_OK) {
        return complain(shop->queue, &error);
    }
    if (sent.error.status != HF_OK) {
        return complain(shop->queue, &sent.error);
    }
    shop->due_ms[order] = sent.due_ms;
    return 0;
}

/* The customer pays. It counts only if the message that gives the order up is taken
 * back before anybody has it. */
static int pay_order(struct shop *shop, int order)
{
    struct hf_change cancel = {.kind = HF_CHANGE_CANCEL, .include_ready = 1};
    struct hf_error error;
    char key[32];

    snprintf(key, sizeof key, "order-%d", order);
    cancel.key = key;
    switch (hf_change(shop->client, shop->queue, &cancel, NULL, &error)) {
    case HF_OK:
        shop->orders[order] = PAID;
        return 0;
    case HF_E_IN_FLIGHT:         /* it is being given up right now */
    case HF_E_MESSAGE_NOT_FOUND: /* it is given up */
        printf("order %d: too late to pay\n", order);
        return 0;
    default:
        return complain(key, &error);
    }
}

/* What is due now: these orders are given up. *more: there may be others. */
static int give_up(struct shop *shop, int64_t wait_ms, int *more)
{
    const char *queues[1] = {shop->queue};
    struct hf_receive receive = {
        .queues = queues, .queue_count = 1, .max = 10, .wait_ms = wait_ms};
    struct hf_messages *messages;
    struct hf_error error;
    int failed = 0;

    if (hf_receive(shop->client, &receive, &messages, &error) != HF_OK) {
        return complain(shop->queue, &error);
    }
    *more = messages->count > 0;
    for (size_t i = 0; i < messages->count && !failed; i++) {
        const struct hf_message *m = &messages->items[i];
        char body[32] = "";
        int order;

        memcpy(body, m->body.data, m->body.len < 31 ? m->body.len : 31);
        if (sscanf(body, "give up order %d", &order) == 1 && order >= 0 &&
            order < ORDERS) {
            shop->twice += shop->orders[order] != OPEN;
            shop->orders[order] = GIVEN_UP;
        }
        if (hf_ack(shop->client, shop->queue, m->receipt, NULL, &error) != HF_OK) {
            failed = complain(shop->queue, &error);
        }
    }
    hf_messages_free(messages);
    return failed;
}

/* Cluster time, as of the last answer. */
static int64_t now_ms(struct shop *shop)
{
    struct hf_stamp stamp;

    hf_last_stamp(shop->client, &stamp);
    return stamp.cluster_ms;
}

static int trade(struct shop *shop)
{
    int more = 1;

    for (int order = 0; order < ORDERS; order++) {
        if (place_order(shop, order)) {
            return 1;
        }
    }
    /* Every fourth is paid at once, ... */
    for (int order = 0; order < ORDERS; order += 4) {
        if (pay_order(shop, order)) {
            return 1;
        }
    }
    /* ... others when the first of them are due: these may be paid or given up. */
    while (now_ms(shop) < shop->due_ms[0]) {
        if (give_up(shop, 10, &more)) {
            return 1;
        }
    }
    for (int order = 2; order < ORDERS; order += 4) {
        if (pay_order(shop, order) || give_up(shop, 0, &more)) {
            return 1;
        }
    }
    do {
        if (give_up(shop, PAYABLE_MS + 1000, &more)) {
            return 1;
        }
    } while (more);
    return 0;
}

static int judge(const struct shop *shop)
{
    int paid = 0;
    int given_up = 0;

    for (int order = 0; order < ORDERS; order++) {
        paid += shop->orders[order] == PAID;
        given_up += shop->orders[order] == GIVEN_UP;
        if (shop->orders[order] == OPEN) {
            fprintf(stderr, "order %d was forgotten\n", order);
        }
    }
    printf("%d orders: %d paid, %d given up\n", ORDERS, paid, given_up);
    if (shop->twice > 0) {
        fprintf(stderr, "%d orders ended twice\n", shop->twice);
    }
    return paid + given_up != ORDERS || shop->twice > 0 || paid < ORDERS / 4 ||
           given_up < ORDERS / 2;
}

int main(int argc, char **argv)
{
    static struct shop shop;
    struct hf_error error;
    int failed;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: order_timeout CLUSTER [QUEUE], as in: order_timeout "
                        "127.0.0.1:7400\n");
        return 2;
    }
    shop.queue = argc > 2 ? argv[2] : "example-order-timeout";
    if (hf_client_open(argv[1], NULL, &shop.client, &error) != HF_OK) {
        return complain(argv[1], &error);
    }
    if (hf_queue_create(shop.client, shop.queue, NULL, 0, NULL, &error) != HF_OK) {
        failed = complain(shop.queue, &error);
    } else {
        failed = trade(&shop) || judge(&shop);
    }
    hf_client_close(shop.client);
    return failed;
}
