/* filter.c: tag filters. */
#include "raftlog/filter.h"

#include "raftlog/refuse.h"

static struct slice trim(struct slice s)
{
    while (s.len > 0 && s.data[0] == ' ') {
        s = slice_of(s.data + 1, s.len - 1);
    }
    while (s.len > 0 && s.data[s.len - 1] == ' ') {
        s.len--;
    }
    return s;
}

bool filter_next(struct slice *rest, struct slice *tag)
{
    if (rest->data == NULL) {
        return false;
    }
    for (uint32_t i = 0; i + 1 < rest->len; i++) {
        if (rest->data[i] == '|' && rest->data[i + 1] == '|') {
            *tag = trim(slice_of(rest->data, i));
            *rest = slice_of(rest->data + i + 2, rest->len - i - 2);
            return true;
        }
    }
    *tag = trim(*rest);
    *rest = (struct slice){NULL, 0};
    return true;
}

bool filter_is_open(struct slice filter)
{
    return filter.data == NULL || filter.len == 0 ||
           slice_equal(trim(filter), slice_text("*"));
}

int filter_check(struct arena *arena, struct slice filter, struct op_error *error)
{
    struct slice rest = filter;
    struct slice tag;

    if (filter_is_open(filter)) {
        return HF_OK;
    }
    if (filter.len > LIMIT_FILTER) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "filter", 0,
                             LIMIT_FILTER);
    }
    while (filter_next(&rest, &tag)) {
        if (tag.len == 0 || tag.len > LIMIT_TAG) {
            return refuse(arena, error, HF_E_INVALID_ARGUMENT, "filter",
                          "a tag of a filter has 1 to %u bytes: write `a`, `a || b`, "
                          "or `*` for every message",
                          LIMIT_TAG);
        }
        if (slice_equal(tag, slice_text("*"))) {
            return refuse(arena, error, HF_E_INVALID_ARGUMENT, "filter",
                          "`*` stands alone: it takes every message already");
        }
    }
    return HF_OK;
}

bool filter_takes(struct slice filter, struct slice tag)
{
    struct slice rest = filter;
    struct slice one;

    if (filter_is_open(filter)) {
        return true;
    }
    while (tag.data != NULL && filter_next(&rest, &one)) {
        if (slice_equal(one, tag)) {
            return true;
        }
    }
    return false;
}
