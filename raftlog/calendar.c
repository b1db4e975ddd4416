/* calendar.c: reading a calendar, and the next time that fits it.
 *
 * Local times are seconds since 1970 as if local time were UTC, so that the search for
 * the next one knows nothing of zones; what a local time means is decided afterwards.
 */
#include "raftlog/calendar.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DAY_S 86400
/* 29 February may be eight years away. */
#define YEARS_MAX 9
/* Changes of the clock that one search goes through: some zones have four a year. */
#define CHANGES_MAX 64
/* How far back a former offset may still matter: no clock was ever set back further. */
#define LOOK_BACK_S (2 * DAY_S)

/* ---- reading ---- */

struct field_rule {
    const char *name;
    int low;
    int high;
    const char *names; /* three letters each, from `low` on */
};

static const struct field_rule field_rules[6] = {
    {"second", 0, 59, NULL},
    {"minute", 0, 59, NULL},
    {"hour", 0, 23, NULL},
    {"day of the month", 1, 31, NULL},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    {"day of the week", 0, 7, "sunmontuewedthufrisat"},
};

struct item {
    const char *at;
    const char *end;
    const struct field_rule *rule;
};

static bool read_number(struct item *i, int *out)
{
    const char *begin = i->at;
    int n = 0;

    while (i->at < i->end && *i->at >= '0' && *i->at <= '9' && i->at - begin < 4) {
        n = n * 10 + (*i->at++ - '0');
    }
    *out = n;
    return i->at != begin;
}

static bool read_value(struct item *i, int *out)
{
    if (i->rule->names != NULL && i->end - i->at >= 3) {
        for (int n = 0; i->rule->names[3 * n] != '\0'; n++) {
            if (strncasecmp(i->at, i->rule->names + 3 * n, 3) == 0) {
                i->at += 3;
                *out = i->rule->low + n;
                return true;
            }
        }
    }
    return read_number(i, out) && *out >= i->rule->low && *out <= i->rule->high;
}

/* One item of a list; NULL, or what is wrong. */
static const char *read_item(struct item *i, uint64_t *mask)
{
    bool star = i->at < i->end && *i->at == '*';
    int low = i->rule->low;
    int high = i->rule->high;
    int step = 1;

    if (star) {
        i->at++;
        high = high == 7 ? 6 : high;
    } else {
        if (!read_value(i, &low)) {
            return "is not a number within bounds, a range, or *";
        }
        high = low;
        if (i->at < i->end && *i->at == '-') {
            i->at++;
            if (!read_value(i, &high)) {
                return "has a range without an end within bounds";
            }
            if (high < low) {
                return "has a range that runs backwards: make two of it, with a comma";
            }
        } else if (i->at < i->end && *i->at == '/') {
            return "has steps of a single number: write a-b/n or */n";
        }
    }
    if (i->at < i->end && *i->at == '/') {
        i->at++;
        if (!read_number(i, &step) || step < 1) {
            return "has steps that are not a number from 1 on";
        }
    }
    if (i->at != i->end) {
        return "is not a number within bounds, a range, or *";
    }
    for (int n = low; n <= high; n += step) {
        *mask |= 1ull << n;
    }
    return NULL;
}

static const char *read_field(const char *at, size_t len, const struct field_rule *rule,
                              uint64_t *mask)
{
    const char *end = at + len;

    *mask = 0;
    while (at <= end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct item item = {at, comma != NULL ? comma : end, rule};
        const char *wrong = read_item(&item, mask);

        if (wrong != NULL) {
            return wrong;
        }
        at = item.end + 1;
    }
    return NULL;
}

bool calendar_parse(struct slice text, struct calendar *c, char why[CALENDAR_WHY])
{
    const char *at = (const char *)text.data;
    const char *end = at + text.len;
    uint64_t mask[6] = {0};
    bool star[6] = {false};
    int count = 0;

    while (at < end) {
        const char *begin;
        const char *wrong;

        while (at < end && (*at == ' ' || *at == '\t')) {
            at++;
        }
        begin = at;
        while (at < end && *at != ' ' && *at != '\t') {
            at++;
        }
        if (at == begin) {
            break;
        }
        if (count == 6) {
            count++;
            break;
        }
        wrong =
            read_field(begin, (size_t)(at - begin), &field_rules[count], &mask[count]);
        if (wrong != NULL) {
            (void)snprintf(why, CALENDAR_WHY, "the %s (%d to %d) %s",
                           field_rules[count].name, field_rules[count].low,
                           field_rules[count].high, wrong);
            return false;
        }
        star[count] = at - begin == 1 && *begin == '*';
        count++;
    }
    if (count != 6) {
        (void)snprintf(
            why, CALENDAR_WHY,
            "a calendar has six fields: second minute hour day month weekday");
        return false;
    }
    c->seconds = mask[0];
    c->minutes = mask[1];
    c->hours = (uint32_t)mask[2];
    c->days = (uint32_t)mask[3];
    c->months = (uint16_t)mask[4];
    c->weekdays = (uint8_t)((mask[5] | mask[5] >> 7) & 0x7f);
    c->any_day = star[3];
    c->any_weekday = star[5];
    return true;
}

/* ---- searching local times ---- */

/* The lowest bit from `from` on; -1: there is none. */
static int next_bit(uint64_t mask, int from)
{
    mask = from > 63 ? 0 : mask & (UINT64_MAX << from);
    return mask == 0 ? -1 : __builtin_ctzll(mask);
}

/* The first time of a day at or after `from` seconds; -1: there is none. */
static int time_from(const struct calendar *c, int from)
{
    int hour = from / 3600;
    int minute = from / 60 % 60;
    int second = from % 60;
    int h = next_bit(c->hours, hour);
    int m;
    int s;

    if (h < 0) {
        return -1;
    }
    if (h == hour) {
        m = next_bit(c->minutes, minute);
        if (m == minute) {
            s = next_bit(c->seconds, second);
            if (s >= 0) {
                return h * 3600 + m * 60 + s;
            }
            m = next_bit(c->minutes, minute + 1);
        }
        if (m >= 0) {
            return h * 3600 + m * 60 + next_bit(c->seconds, 0);
        }
        h = next_bit(c->hours, hour + 1);
        if (h < 0) {
            return -1;
        }
    }
    return h * 3600 + next_bit(c->minutes, 0) * 60 + next_bit(c->seconds, 0);
}

static bool day_fits(const struct calendar *c, int64_t days, int day)
{
    bool by_day = (c->days >> day & 1) != 0;
    bool by_weekday = (c->weekdays >> ((days + 4) % 7) & 1) != 0;

    if (c->any_day || c->any_weekday) {
        return by_day && by_weekday; /* `*` fits always */
    }
    return by_day || by_weekday;
}

/* The first local time at or after `from` that fits; -1: there is none. */
static int64_t local_from(const struct calendar *c, int64_t from_s)
{
    int64_t days = from_s / DAY_S;
    int time = (int)(from_s % DAY_S);
    int64_t last;
    int64_t year;
    int month;
    int day;

    zone_date(days, &year, &month, &day);
    last = year + YEARS_MAX;
    while (year <= last) {
        int found;

        if ((c->months >> month & 1) == 0) {
            year += month == 12;
            month = month % 12 + 1;
            days = zone_days(year, month, 1);
            day = 1;
            time = 0;
            continue;
        }
        found = day_fits(c, days, day) ? time_from(c, time) : -1;
        if (found >= 0) {
            return days * DAY_S + found;
        }
        days++;
        time = 0;
        zone_date(days, &year, &month, &day);
    }
    return -1;
}

/* ---- local times to real ones ---- */

/* By the real hours: within each stretch of one offset, what it has. */
static int64_t next_by_hours(const struct calendar *c, const struct zone *z,
                             int64_t from_s)
{
    for (int n = 0; n < CHANGES_MAX; n++) {
        int64_t until_s;
        int32_t offset = zone_offset(z, from_s, &until_s);
        int64_t local = local_from(c, from_s + offset);

        if (local < 0) {
            return -1;
        }
        if (local - offset < until_s) {
            return local - offset;
        }
        from_s = until_s;
    }
    return -1;
}

/* The latest local time that any clock has shown up to this second. */
static int64_t latest_shown(const struct zone *z, int64_t at_s)
{
    int64_t from_s = at_s - LOOK_BACK_S;
    int64_t latest = INT64_MIN;

    for (int n = 0; n < CHANGES_MAX && from_s <= at_s; n++) {
        int64_t until_s;
        int32_t offset = zone_offset(z, from_s, &until_s);
        int64_t shown = (until_s - 1 < at_s ? until_s - 1 : at_s) + offset;

        latest = shown > latest ? shown : latest;
        from_s = until_s;
    }
    return latest;
}

/* By the clock on the wall: a time has come when the clock first shows it, or is past
 * it. */
static int64_t next_by_clock(const struct calendar *c, const struct zone *z,
                             int64_t from_s)
{
    int64_t local = local_from(c, latest_shown(z, from_s - 1) + 1);

    for (int n = 0; n < CHANGES_MAX && local >= 0; n++) {
        int64_t until_s;
        int32_t offset = zone_offset(z, from_s, &until_s);

        if (local - offset < until_s) {
            return local - offset > from_s ? local - offset : from_s;
        }
        from_s = until_s;
    }
    return -1;
}

int64_t calendar_next(const struct calendar *c, const struct zone *z, int64_t after_ms)
{
    int64_t from_s = after_ms / 1000 + 1;
    int64_t found = c->hours == 0xffffff ? next_by_hours(c, z, from_s)
                                         : next_by_clock(c, z, from_s);

    return found < 0 ? 0 : found * 1000;
}
