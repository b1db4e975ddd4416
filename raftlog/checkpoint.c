/* checkpoint.c: make the applied state durable while the machine goes on. The argument
 * why a later torn write cannot hurt it is in store.h. */
#include "proto/check.h"
#include "raftlog/state.h"

#include <stdlib.h>

struct checkpoint {
    struct store_pin *pin;
    uint64_t index;
    uint64_t term;
};

int machine_checkpoint_begin(struct machine *m, struct checkpoint **out)
{
    struct checkpoint *c;
    int rc;

    if (m->checkpointing) {
        return HF_E_CONFLICT;
    }
    rc = machine_commit(m);
    if (rc != HF_OK) {
        return rc;
    }
    c = calloc(1, sizeof *c);
    if (c == NULL) {
        return HF_E_MEMORY_LOW;
    }
    c->index = m->applied;
    c->term = m->term;
    rc = store_pin(m->store, &c->pin);
    if (rc != HF_OK) {
        free(c);
        return rc;
    }
    m->checkpointing = true;
    *out = c;
    return HF_OK;
}

int checkpoint_run(struct checkpoint *c)
{
    return store_checkpoint(c->pin, c->index, c->term);
}

uint64_t checkpoint_index(const struct checkpoint *c)
{
    return c->index;
}

uint64_t checkpoint_term(const struct checkpoint *c)
{
    return c->term;
}

void machine_checkpoint_end(struct machine *m, struct checkpoint *c, bool ok)
{
    CHECK(m->checkpointing);
    m->checkpointing = false;
    if (ok) {
        store_pin_keep(m->store, c->pin);
        m->durable = c->index;
    } else {
        store_pin_drop(c->pin);
    }
    free(c);
}

uint64_t machine_durable(const struct machine *m)
{
    return m->durable;
}
