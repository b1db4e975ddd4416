/* body.c: see body.h. */
#include "tests/attack/body.h"

#include <stdio.h>
#include <string.h>

#define HEAD_BYTES 32u

uint32_t body_len(uint32_t sender, uint32_t number)
{
    uint32_t x = (number * 2654435761u) ^ (sender * 40503u);

    if (x % 97 == 0) {
        return 1000 + x % (BODY_MAX - 1000);
    }
    return HEAD_BYTES + x % 300;
}

static void body_fill(uint8_t *out, unsigned round, uint32_t sender, uint32_t number)
{
    uint32_t len = body_len(sender, number), i;
    char head[HEAD_BYTES + 1];

    snprintf(head, sizeof head, "HFN %06u %04u %012u   ", round, sender, number);
    memcpy(out, head, HEAD_BYTES);
    for (i = HEAD_BYTES; i < len; i++) {
        out[i] = (uint8_t)(number * 31 + sender * 7 + i);
    }
}

bool body_read(struct workload *w, struct slice body, uint32_t *sender,
               uint32_t *number)
{
    char head[HEAD_BYTES + 1] = {0};
    unsigned round;
    uint32_t i;

    if (body.len >= HEAD_BYTES) {
        memcpy(head, body.data, HEAD_BYTES);
    }
    if (sscanf(head, "HFN %6u %4u %12u", &round, sender, number) != 3 ||
        round != w->o.round || *sender >= WORKLOAD_ACTORS ||
        *number >= atomic_load(&w->actors[*sender].sent)) {
        violation(w->v, "a body that nobody sent was delivered: '%s' of %u bytes", head,
                  body.len);
        return false;
    }
    if (body.len != body_len(*sender, *number)) {
        violation(w->v, "message %u of sender %u came back with %u bytes", *number,
                  *sender, body.len);
        return false;
    }
    for (i = HEAD_BYTES; i < body.len; i++) {
        if (body.data[i] != (uint8_t)(*number * 31 + *sender * 7 + i)) {
            violation(w->v, "message %u of sender %u came back changed at byte %u",
                      *number, *sender, i);
            return false;
        }
    }
    return true;
}

uint8_t *body_of(struct actor *a, uint32_t i, uint32_t number)
{
    uint8_t *body = a->bodies + (size_t)i * BODY_MAX;

    body_fill(body, a->w->o.round, a->number, number);
    return body;
}
