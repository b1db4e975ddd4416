/* zone.h: a time zone, compiled: how far local time is from UTC, when.
 *
 * Pure: a zone is bytes that travel in a command and stay with what was set up by it,
 * so that every node reckons alike whatever its own time zone database says. They are
 * made from a file of that database (RFC 8536) by the node that proposes the command.
 *
 * Bytes (big-endian): u8 version 1, u8 length of the rule, u16 changes, i32 offset in
 * seconds before the first change, then per change {i64 second since 1970, i32 offset
 * from then on}, then the rule: a POSIX TZ string that holds after the last change;
 * empty: the last offset stays. */
#ifndef HF_RAFTLOG_ZONE_H
#define HF_RAFTLOG_ZONE_H

#include "proto/limits.h"
#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_CHANGES_MAX 320u
#define ZONE_RULE_MAX    64u
#define ZONE_BYTES_MAX   (8u + 12u * ZONE_CHANGES_MAX + ZONE_RULE_MAX)

_Static_assert(ZONE_BYTES_MAX <= LIMIT_ZONE_DATA, "it travels in a request");

/* A day of the year, and a time of it, when the clocks change. */
struct zone_day {
    char kind;      /* 'M': week and weekday of a month; 'J': day, never 29 February;
                     * 'D': day from 0 */
    int month;      /* 1..12 */
    int week;       /* 1..5, 5 = the last */
    int day;        /* M: weekday, 0 = Sunday; J: 1..365; D: 0..365 */
    int32_t time_s; /* from midnight, also before it and beyond 24 h */
};

struct zone {
    uint32_t count;
    int32_t first_offset_s;
    struct {
        int64_t at_s;
        int32_t offset_s;
    } changes[ZONE_CHANGES_MAX];

    bool has_rule;
    int32_t standard_s;
    bool has_summer;
    int32_t summer_s;
    struct zone_day begins; /* of summer time, by standard time */
    struct zone_day ends;   /* by summer time */
};

void zone_utc(struct zone *z);
/* From compiled bytes; empty ones are UTC. False: damaged. */
bool zone_decode(struct slice bytes, struct zone *z);

/* The offset in force at a second since 1970, and when it changes next (INT64_MAX:
 * never). */
int32_t zone_offset(const struct zone *z, int64_t at_s, int64_t *until_s);

/* Compile a file of the time zone database, as it is needed from from_s on. Gives the
 * length; 0: it is not such a file, or of an unknown version. */
size_t zone_compile(struct slice file, int64_t from_s, uint8_t out[ZONE_BYTES_MAX]);

/* Days since 1970 of a date, and back. */
int64_t zone_days(int64_t year, int month, int day);
void zone_date(int64_t days, int64_t *year, int *month, int *day);

#endif
