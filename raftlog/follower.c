/* follower.c: see follower.h. */
#include "raftlog/follower.h"

#include "proto/check.h"

#include <stdlib.h>

void followers_done(struct followers *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->list[i]);
    }
    free(f->list);
    memset(f, 0, sizeof *f);
}

struct follower *followers_find(const struct followers *f, uint64_t raft_id)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i]->raft_id == raft_id) {
            return f->list[i];
        }
    }
    return NULL;
}

struct follower *followers_get(struct followers *f, uint64_t raft_id, void *owner)
{
    struct follower *one = followers_find(f, raft_id);
    struct follower **list;

    if (one != NULL) {
        return one;
    }
    list = realloc(f->list, (f->count + 1) * sizeof(struct follower *));
    if (list == NULL) {
        return NULL;
    }
    f->list = list;
    one = calloc(1, sizeof *one);
    if (one == NULL) {
        return NULL;
    }
    one->owner = owner;
    one->raft_id = raft_id;
    one->echo_ms = -1;
    one->answer_ms = -1;
    f->list[f->count++] = one;
    return one;
}

void followers_begin_term(struct followers *f)
{
    for (size_t i = 0; i < f->count; i++) {
        f->list[i]->echo_ms = -1;
        f->list[i]->answer_ms = -1;
        f->list[i]->match = 0;
    }
}

void follower_answered(struct follower *f, uint64_t echo, int64_t now_ms)
{
    f->answer_ms = now_ms;
    /* One from the future is not ours. */
    if (echo != 0 && echo <= (uint64_t)now_ms + 1 && (int64_t)echo - 1 > f->echo_ms) {
        f->echo_ms = (int64_t)echo - 1;
    }
}

void follower_matched(struct follower *f, uint64_t match, int64_t now_ms)
{
    if (match != f->match) {
        f->match = match;
        f->match_ms = now_ms;
    }
}

bool follower_lost_entries(const struct follower *f, uint64_t rejected, uint64_t echo)
{
    /* Composed after a message that was sent after the acknowledgement had come. */
    return rejected > 0 && rejected <= f->match && (int64_t)echo - 1 > f->match_ms;
}

bool followers_answered_within(const struct followers *f, uint64_t raft_id,
                               int64_t now_ms, int64_t ms)
{
    const struct follower *one = followers_find(f, raft_id);

    return one != NULL && one->answer_ms >= 0 && now_ms - one->answer_ms <= ms;
}

static int compare_descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

int64_t followers_majority_ms(const struct followers *f, const struct membership *m,
                              uint64_t self, int64_t now_ms)
{
    int64_t followed[MEMBERS_MAX];
    uint32_t voters = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *member = &m->members[i];
        const struct follower *one = followers_find(f, member->raft_id);

        if (member->role != MEMBER_VOTER) {
            continue;
        }
        CHECK(voters < MEMBERS_MAX);
        if (member->raft_id == self) {
            followed[voters++] = now_ms;
        } else {
            followed[voters++] = one != NULL ? one->echo_ms : -1;
        }
    }
    if (voters == 0) {
        return -1;
    }
    qsort(followed, voters, sizeof followed[0], compare_descending);
    return followed[voters / 2];
}
