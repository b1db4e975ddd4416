/* zone.c: time zones: reading the database, and reckoning by what was read. */
#include "raftlog/zone.h"

#include "raftlog/bytes.h"

#include <string.h>

#define DAY_S 86400

/* ---- dates ---- */

/* Both after Howard Hinnant, "chrono-compatible low-level date algorithms". */
int64_t zone_days(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void zone_date(int64_t days, int64_t *year, int *month, int *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t mp = (5 * of_year + 2) / 153;

    *day = (int)(of_year - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = y + era * 400 + (*month <= 2);
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t floor_days(int64_t seconds)
{
    return (seconds >= 0 ? seconds : seconds - (DAY_S - 1)) / DAY_S;
}

/* ---- the rule: "CET-1CEST,M3.5.0,M10.5.0/3" ---- */

struct text {
    const char *at;
    const char *end;
};

static bool text_skip(struct text *t, char c)
{
    if (t->at < t->end && *t->at == c) {
        t->at++;
        return true;
    }
    return false;
}

static bool text_number(struct text *t, int max, int *out)
{
    const char *begin = t->at;
    int n = 0;

    while (t->at < t->end && *t->at >= '0' && *t->at <= '9') {
        n = n * 10 + (*t->at++ - '0');
        if (n > max) {
            return false;
        }
    }
    *out = n;
    return t->at != begin;
}

static bool text_name(struct text *t)
{
    const char *begin = t->at;

    if (text_skip(t, '<')) {
        while (t->at < t->end && *t->at != '>') {
            t->at++;
        }
        return text_skip(t, '>');
    }
    while (t->at < t->end &&
           ((*t->at >= 'a' && *t->at <= 'z') || (*t->at >= 'A' && *t->at <= 'Z'))) {
        t->at++;
    }
    return t->at - begin >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool text_time(struct text *t, int hours_max, int32_t *seconds)
{
    bool negative = text_skip(t, '-');
    int part[3] = {0, 0, 0};

    if (!negative) {
        (void)text_skip(t, '+');
    }
    if (!text_number(t, hours_max, &part[0])) {
        return false;
    }
    for (int i = 1; i < 3 && text_skip(t, ':'); i++) {
        if (!text_number(t, 59, &part[i])) {
            return false;
        }
    }
    *seconds = part[0] * 3600 + part[1] * 60 + part[2];
    *seconds = negative ? -*seconds : *seconds;
    return true;
}

static bool text_day(struct text *t, struct zone_day *day)
{
    *day = (struct zone_day){.kind = 'D', .time_s = 7200};
    if (text_skip(t, 'M')) {
        day->kind = 'M';
        if (!text_number(t, 12, &day->month) || !text_skip(t, '.') ||
            !text_number(t, 5, &day->week) || !text_skip(t, '.') ||
            !text_number(t, 6, &day->day) || day->month < 1 || day->week < 1) {
            return false;
        }
    } else if (text_skip(t, 'J')) {
        day->kind = 'J';
        if (!text_number(t, 365, &day->day) || day->day < 1) {
            return false;
        }
    } else if (!text_number(t, 365, &day->day)) {
        return false;
    }
    return !text_skip(t, '/') || text_time(t, 167, &day->time_s);
}

static bool rule_parse(const char *rule, size_t len, struct zone *z)
{
    struct text t = {rule, rule + len};

    if (!text_name(&t) || !text_time(&t, 24, &z->standard_s)) {
        return false;
    }
    z->standard_s = -z->standard_s; /* POSIX counts westwards */
    z->has_rule = true;
    z->has_summer = t.at != t.end;
    if (!z->has_summer) {
        return true;
    }
    if (!text_name(&t)) {
        return false;
    }
    z->summer_s = z->standard_s + 3600;
    if (t.at < t.end && *t.at != ',') {
        if (!text_time(&t, 24, &z->summer_s)) {
            return false;
        }
        z->summer_s = -z->summer_s;
    }
    return text_skip(&t, ',') && text_day(&t, &z->begins) && text_skip(&t, ',') &&
           text_day(&t, &z->ends) && t.at == t.end;
}

/* The local second since 1970 at which the clocks change in a year. */
static int64_t change_in(const struct zone_day *d, int64_t year)
{
    int64_t first = zone_days(year, 1, 1);
    int64_t day;

    if (d->kind == 'M') {
        int64_t month = zone_days(year, d->month, 1);
        int64_t next = d->month == 12 ? zone_days(year + 1, 1, 1)
                                      : zone_days(year, d->month + 1, 1);
        int weekday = (int)((month + 4) % 7); /* 1970 began on a Thursday */

        weekday = weekday < 0 ? weekday + 7 : weekday;
        day = month + (d->day - weekday + 7) % 7 + 7ll * (d->week - 1);
        day = day >= next ? day - 7 : day;
    } else if (d->kind == 'J') {
        day = first + d->day - 1 + (is_leap(year) && d->day >= 60);
    } else {
        day = first + d->day;
    }
    return day * DAY_S + d->time_s;
}

static int32_t rule_offset(const struct zone *z, int64_t at_s, int64_t *until_s)
{
    int32_t offset = z->standard_s;
    int64_t last = INT64_MIN;
    int64_t year;
    int month;
    int day;

    *until_s = INT64_MAX;
    if (!z->has_summer) {
        return offset;
    }
    zone_date(floor_days(at_s), &year, &month, &day);
    for (int64_t y = year - 1; y <= year + 1; y++) {
        int64_t change[2] = {change_in(&z->begins, y) - z->standard_s,
                             change_in(&z->ends, y) - z->summer_s};

        for (int i = 0; i < 2; i++) {
            if (change[i] > at_s) {
                *until_s = change[i] < *until_s ? change[i] : *until_s;
            } else if (change[i] >= last) {
                last = change[i];
                offset = i == 0 ? z->summer_s : z->standard_s;
            }
        }
    }
    return offset;
}

/* ---- compiled zones ---- */

void zone_utc(struct zone *z)
{
    z->count = 0;
    z->first_offset_s = 0;
    z->has_rule = false;
}

bool zone_decode(struct slice bytes, struct zone *z)
{
    const uint8_t *at = bytes.data;
    uint32_t rule_len;

    zone_utc(z);
    if (bytes.len == 0) {
        return true;
    }
    if (bytes.len < 8 || at[0] != 1) {
        return false;
    }
    rule_len = at[1];
    z->count = bytes_get_u16(at + 2);
    z->first_offset_s = (int32_t)bytes_get_u32(at + 4);
    if (z->count > ZONE_CHANGES_MAX || rule_len > ZONE_RULE_MAX ||
        bytes.len != 8 + 12 * z->count + rule_len) {
        return false;
    }
    at += 8;
    for (uint32_t i = 0; i < z->count; i++, at += 12) {
        z->changes[i].at_s = bytes_get_i64(at);
        z->changes[i].offset_s = (int32_t)bytes_get_u32(at + 8);
        if (i > 0 && z->changes[i].at_s <= z->changes[i - 1].at_s) {
            return false;
        }
    }
    return rule_len == 0 || rule_parse((const char *)at, rule_len, z);
}

int32_t zone_offset(const struct zone *z, int64_t at_s, int64_t *until_s)
{
    uint32_t n = 0; /* changes up to now */
    int32_t offset;

    while (n < z->count && z->changes[n].at_s <= at_s) {
        n++;
    }
    if (n == z->count && z->has_rule) {
        return rule_offset(z, at_s, until_s);
    }
    offset = n > 0 ? z->changes[n - 1].offset_s : z->first_offset_s;
    *until_s = n < z->count ? z->changes[n].at_s : INT64_MAX;
    return offset;
}

/* ---- a file of the database: RFC 8536 ---- */

#define TZ_HEADER 44u

struct tz_counts {
    uint32_t isut, isstd, leap, times, types, chars;
};

static bool tz_header(const uint8_t *at, size_t len, struct tz_counts *c)
{
    if (len < TZ_HEADER || memcmp(at, "TZif", 4) != 0 || at[4] < '2') {
        return false;
    }
    c->isut = bytes_get_u32(at + 20);
    c->isstd = bytes_get_u32(at + 24);
    c->leap = bytes_get_u32(at + 28);
    c->times = bytes_get_u32(at + 32);
    c->types = bytes_get_u32(at + 36);
    c->chars = bytes_get_u32(at + 40);
    return c->isut <= 4096 && c->isstd <= 4096 && c->leap <= 4096 &&
           c->times <= 65536 && c->types >= 1 && c->types <= 256 && c->chars <= 4096;
}

static size_t tz_block(const struct tz_counts *c, size_t time_bytes)
{
    return c->times * (time_bytes + 1) + c->types * 6 + c->chars +
           c->leap * (time_bytes + 4) + c->isstd + c->isut;
}

size_t zone_compile(struct slice file, int64_t from_s, uint8_t out[ZONE_BYTES_MAX])
{
    const uint8_t *at = file.data;
    const uint8_t *end = at + file.len;
    const uint8_t *types;
    const uint8_t *infos;
    const uint8_t *rule;
    struct tz_counts c;
    uint8_t *p = out + 8;
    uint32_t count = 0;
    int32_t first;
    struct zone z;

    /* The first block has times of 32 bits, for old readers. */
    if (!tz_header(at, file.len, &c) ||
        (size_t)(end - at) < TZ_HEADER + tz_block(&c, 4)) {
        return 0;
    }
    at += TZ_HEADER + tz_block(&c, 4);
    if (!tz_header(at, (size_t)(end - at), &c) ||
        (size_t)(end - at) < TZ_HEADER + tz_block(&c, 8) + 2) {
        return 0;
    }
    at += TZ_HEADER;
    types = at + 8 * (size_t)c.times;
    infos = types + c.times;
    rule = at + tz_block(&c, 8);
    first = (int32_t)bytes_get_u32(infos);
    for (uint32_t i = 0; i < c.times; i++, at += 8) {
        int64_t when = bytes_get_i64(at);
        int32_t offset;

        if (types[i] >= c.types) {
            return 0;
        }
        offset = (int32_t)bytes_get_u32(infos + 6 * (size_t)types[i]);
        /* The last change of all stays: from there on the rule holds. */
        if (when < from_s && i + 1 < c.times) {
            first = offset;
            continue;
        }
        if (count == ZONE_CHANGES_MAX) {
            return 0;
        }
        bytes_put_i64(p, when);
        bytes_put_u32(p + 8, (uint32_t)offset);
        p += 12;
        count++;
    }
    if (*rule++ != '\n') {
        return 0;
    }
    end = memchr(rule, '\n', (size_t)(end - rule));
    if (end == NULL || end - rule > (ptrdiff_t)ZONE_RULE_MAX) {
        return 0;
    }
    memcpy(p, rule, (size_t)(end - rule));
    p += end - rule;
    out[0] = 1;
    out[1] = (uint8_t)(end - rule);
    bytes_put_u16(out + 2, (uint16_t)count);
    bytes_put_u32(out + 4, (uint32_t)first);
    return zone_decode(slice_of(out, (uint32_t)(p - out)), &z) ? (size_t)(p - out) : 0;
}
