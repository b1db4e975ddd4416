/* calendar.h: "at second, minute, hour, day, month, weekday": when next? Pure.
 *
 * Six fields, each `*`, a number, a range a-b, steps "*" "/n" or a-b/n, or a list of
 * these with commas; months and weekdays also by their first three letters; weekday 0
 * and 7 are Sunday. With both days given (not `*`) either one will do.
 *
 * When the clock changes:
 *   - hours are given: a time that is left out comes when the clock is past it, at the
 *     moment of the change; one that comes twice comes the first time only.
 *   - every hour (`*`): it goes on by the real hours, so that "every ten minutes" is
 *     every ten minutes. */
#ifndef HF_RAFTLOG_CALENDAR_H
#define HF_RAFTLOG_CALENDAR_H

#include "raftlog/zone.h"

struct calendar {
    uint64_t seconds; /* a bit for each that fits */
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;    /* bits 1..31 */
    uint16_t months;  /* bits 1..12 */
    uint8_t weekdays; /* bits 0..6 */
    bool any_day;     /* the day of the month is `*` */
    bool any_weekday;
};

#define CALENDAR_WHY 128

/* False: `why` says which field is wrong, and how. */
bool calendar_parse(struct slice text, struct calendar *c, char why[CALENDAR_WHY]);

/* The first time after after_ms (Unix ms) that fits; 0: there is none within nine
 * years, that is, never. */
int64_t calendar_next(const struct calendar *c, const struct zone *z, int64_t after_ms);

#endif
