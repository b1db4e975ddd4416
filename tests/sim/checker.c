/* checker.c: see checker.h. */
#include "tests/sim/checker.h"

#include "proto/check.h"
#include "tests/sim/machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

struct place {
    uint64_t term; /* 0: nobody was here yet */
    uint64_t entry;
    uint64_t digest;
    uint64_t membership; /* hash, 0 = none seen */
};

struct term {
    uint64_t leader;
    int64_t since_ms;
};

struct command {
    uint64_t index; /* where it was applied; 0 = nowhere yet */
    uint32_t outcomes;
    bool confirmed;
    bool refused;
};

struct checker {
    struct place *places;
    uint64_t place_count;
    uint64_t last_index;
    struct term *terms;
    uint64_t term_count;
    struct command *commands;
    uint64_t command_count;
    uint64_t command_capacity;
    uint64_t confirmed;
    bool failed;
    char text[256];
};

struct checker *checker_open(void)
{
    struct checker *c = calloc(1, sizeof *c);

    CHECK(c != NULL);
    return c;
}

void checker_close(struct checker *c)
{
    free(c->places);
    free(c->terms);
    free(c->commands);
    free(c);
}

const char *checker_violation(const struct checker *c)
{
    return c->failed ? c->text : NULL;
}

void checker_fail(struct checker *c, uint64_t node, const char *format, ...)
{
    va_list args;
    int n;

    if (c->failed) {
        return;
    }
    c->failed = true;
    n = snprintf(c->text, sizeof c->text, "node %" PRIu64 ": ", node);
    va_start(args, format);
    (void)vsnprintf(c->text + n, sizeof c->text - (size_t)n, format, args);
    va_end(args);
}

/* Grow an array so that it has more than `index` zeroed elements. */
static void *grow(void *array, uint64_t *count, uint64_t index, size_t size)
{
    uint64_t wanted = *count > 0 ? *count : 1024;

    if (index < *count) {
        return array;
    }
    while (wanted <= index) {
        wanted *= 2;
    }
    array = realloc(array, wanted * size);
    CHECK(array != NULL);
    memset((char *)array + *count * size, 0, (wanted - *count) * size);
    *count = wanted;
    return array;
}

void checker_leader(struct checker *c, uint64_t node, uint64_t term, int64_t now_ms)
{
    struct term *t;

    c->terms = grow(c->terms, &c->term_count, term, sizeof *c->terms);
    t = &c->terms[term];
    if (t->leader == 0) {
        t->leader = node;
        t->since_ms = now_ms;
    } else if (t->leader != node) {
        checker_fail(c, node, "leads term %" PRIu64 ", and so does node %" PRIu64, term,
                     t->leader);
    }
}

bool checker_succeeded(const struct checker *c, uint64_t term)
{
    for (uint64_t t = term + 1; t < c->term_count; t++) {
        if (c->terms[t].leader != 0) {
            return true;
        }
    }
    return false;
}

void checker_followed(struct checker *c, uint64_t node, uint64_t term,
                      int64_t followed_ms)
{
    for (uint64_t t = term + 1; t < c->term_count; t++) {
        if (c->terms[t].leader != 0 && c->terms[t].since_ms <= followed_ms) {
            checker_fail(
                c, node,
                "claims a majority in term %" PRIu64 " at %" PRId64
                " ms, but node %" PRIu64 " led term %" PRIu64 " from %" PRId64 " on",
                term, followed_ms, c->terms[t].leader, t, c->terms[t].since_ms);
            return;
        }
    }
}

static struct place *place_at(struct checker *c, uint64_t index)
{
    c->places = grow(c->places, &c->place_count, index, sizeof *c->places);
    return &c->places[index];
}

static void note_command(struct checker *c, uint64_t node, uint64_t index,
                         struct slice entry)
{
    uint64_t number;

    if (entry.len < sizeof number) {
        return;
    }
    memcpy(&number, entry.data, sizeof number);
    if (number == 0 || number > c->command_count) {
        checker_fail(c, node, "applied a command nobody sent at %" PRIu64, index);
    } else if (c->commands[number - 1].refused) {
        checker_fail(c, node, "applied command %" PRIu64 ", which was refused", number);
    } else if (c->commands[number - 1].index == 0) {
        c->commands[number - 1].index = index;
    } else if (c->commands[number - 1].index != index) {
        checker_fail(c, node, "applied command %" PRIu64 " at %" PRIu64 " and %" PRIu64,
                     number, c->commands[number - 1].index, index);
    }
}

void checker_apply(struct checker *c, uint64_t node, uint64_t before, uint64_t index,
                   uint64_t term, struct slice entry, uint64_t digest)
{
    struct place *p = place_at(c, index);
    uint64_t hash = sim_hash(14695981039346656037ull, entry.data, entry.len);

    if (index != before + 1) {
        checker_fail(c, node, "applied %" PRIu64 " after %" PRIu64, index, before);
    }
    if (p->term == 0) {
        p->term = term;
        p->entry = hash;
        p->digest = digest;
    } else if (p->term != term || p->entry != hash) {
        checker_fail(c, node,
                     "another entry at %" PRIu64 " (terms %" PRIu64 ", %" PRIu64 ")",
                     index, term, p->term);
    } else if (p->digest != digest) {
        checker_fail(c, node, "another state at %" PRIu64, index);
    }
    if (index > c->last_index) {
        c->last_index = index;
    }
    note_command(c, node, index, entry);
}

void checker_state(struct checker *c, uint64_t node, uint64_t index, uint64_t digest)
{
    struct place *p = place_at(c, index);

    if (index > 0 && (p->term == 0 || p->digest != digest)) {
        checker_fail(c, node, "starts with another state at %" PRIu64, index);
    }
}

void checker_membership(struct checker *c, uint64_t node, uint64_t index,
                        const struct membership *m)
{
    uint8_t bytes[MEMBERSHIP_BYTES_MAX];
    uint64_t hash =
        sim_hash(14695981039346656037ull, bytes, membership_encode(m, bytes));
    struct place *p = place_at(c, index);

    if (p->membership == 0) {
        p->membership = hash;
    } else if (p->membership != hash) {
        checker_fail(c, node, "another membership at %" PRIu64, index);
    }
}

uint64_t checker_command(struct checker *c)
{
    c->commands =
        grow(c->commands, &c->command_capacity, c->command_count, sizeof *c->commands);
    return ++c->command_count;
}

void checker_outcome(struct checker *c, uint64_t command, bool confirmed)
{
    struct command *one = &c->commands[command - 1];

    one->outcomes++;
    one->confirmed = confirmed;
    c->confirmed += confirmed;
    if (one->outcomes > 1) {
        checker_fail(c, 0, "outcome of command %" PRIu64 " told twice", command);
    }
    if (confirmed && one->index == 0) {
        checker_fail(c, 0, "command %" PRIu64 " confirmed but not applied", command);
    }
}

void checker_refused(struct checker *c, uint64_t command)
{
    c->commands[command - 1].outcomes = 1;
    c->commands[command - 1].refused = true;
}

void checker_finish(struct checker *c, uint64_t applied)
{
    for (uint64_t i = 0; i < c->command_count; i++) {
        const struct command *one = &c->commands[i];

        if (one->outcomes == 0) {
            checker_fail(c, 0, "outcome of command %" PRIu64 " never told", i + 1);
        } else if (one->confirmed && one->index > applied) {
            checker_fail(c, 0,
                         "command %" PRIu64 " was confirmed at %" PRIu64 " and is lost",
                         i + 1, one->index);
        }
    }
}

uint64_t checker_confirmed(const struct checker *c)
{
    return c->confirmed;
}

uint64_t checker_last_index(const struct checker *c)
{
    return c->last_index;
}
