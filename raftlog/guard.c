/* guard.c: see guard.h. */
#include "raftlog/guard.h"

void guard_stale_answer(struct rpc *append_result)
{
    append_result->append_result.rejected = UINT64_MAX;
    append_result->append_result.last_index = 0;
}

void guard_compacted(struct rpc *append, uint64_t snapshot_index,
                     uint64_t snapshot_term, uint64_t kept_from)
{
    uint64_t previous = append->append.previous_index;
    uint64_t covered;

    if (previous >= snapshot_index || previous + 1 > kept_from) {
        return;
    }
    covered = snapshot_index - previous;
    if (covered >= append->append.count) {
        append->append.count = 0;
    } else {
        append->append.entries += covered;
        append->append.count -= (uint32_t)covered;
    }
    append->append.previous_index = snapshot_index;
    append->append.previous_term = snapshot_term;
}

void guard_late_rejection(struct rpc *append_result, uint64_t match)
{
    if (append_result->append_result.rejected > 0 &&
        append_result->append_result.rejected <= match) {
        append_result->append_result.rejected = 0;
        append_result->append_result.last_index = 0;
    }
}

uint32_t guard_piece(const struct rpc_entry *entries, uint32_t count)
{
    uint32_t n = 0;

    while (n < count && (n == 0 || entries[n].type != RECORD_CHANGE)) {
        n++;
    }
    return n;
}

void guard_pre_vote_answer(struct rpc *vote_result, uint64_t term)
{
    if (vote_result->vote_result.pre_vote && !vote_result->vote_result.granted &&
        term > vote_result->term) {
        vote_result->term = term;
    }
}
