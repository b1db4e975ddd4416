/* keeper.h: keeps leases alive while somebody works on their messages.
 *
 * Pure data: the owner says what time it is, asks which leases are due, extends them in
 * one batch, and reports how that went.
 *
 *   added --renew_at--> due --keeper_take--> out --keeper_renewed--> (renew_at)
 *                                             |---keeper_retry-----> due again soon
 *                                             `---refused: keeper_remove
 *
 * A lease is renewed when interval + min_life of it are left: there is time for one
 * more try before less than min_life is left. After give_up_after it is renewed no
 * more: the message comes back when the last lease ends. Times are of one monotonic
 * clock. */
#ifndef HF_PROTO_KEEPER_H
#define HF_PROTO_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keeper_options {
    int64_t min_life_ms;      /* work is not begun, and a lease not left, with less */
    int64_t interval_ms;      /* at least so long between two renewals of one lease */
    int64_t visibility_ms;    /* the length of a renewed lease */
    int64_t give_up_after_ms; /* from keeper_add on */
};

/* Embedded in whatever the owner works on. */
struct keeper_lease {
    struct keeper_lease *prev, *next;
    int64_t added_ms;
    int64_t deadline_ms;
    int64_t renew_at_ms; /* INT64_MAX: no more */
    bool kept;           /* it is in the keeper */
    bool out;            /* taken and not yet reported on */
};

struct keeper {
    struct keeper_options options;
    struct keeper_lease *first, *last;
    size_t count;
};

/* False: visibility is not longer than interval + min_life, or a time is not
 * positive. */
bool keeper_init(struct keeper *k, const struct keeper_options *options);

/* A third of the lease as interval, a sixth as min_life: two tries before the end. */
void keeper_options_for(struct keeper_options *o, int64_t lease_ms,
                        int64_t give_up_after_ms);

/* False: less than min_life is left, it is not worth beginning. Else the lease is kept
 * (borrowed until keeper_remove). */
bool keeper_add(struct keeper *k, struct keeper_lease *l, int64_t deadline_ms,
                int64_t now_ms);

/* Also for one that is out, or not kept. */
void keeper_remove(struct keeper *k, struct keeper_lease *l);

/* When the next lease is due; INT64_MAX for none. */
int64_t keeper_due_ms(const struct keeper *k);

/* Take the leases that are due, at most `capacity`; returns how many. They are out
 * until reported on. Leases whose time is given up are left alone. */
size_t keeper_take(struct keeper *k, int64_t now_ms, struct keeper_lease **out,
                   size_t capacity);

/* It holds until deadline_ms now. */
void keeper_renewed(struct keeper *k, struct keeper_lease *l, int64_t deadline_ms,
                    int64_t now_ms);
/* No answer: try again after a tenth of the interval. */
void keeper_retry(struct keeper *k, struct keeper_lease *l, int64_t now_ms);

#endif
