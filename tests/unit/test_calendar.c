/* test_calendar.c: calendars and time zones: known dates, changes of the clock, and a
 * search second by second that must agree. */
#include "raftlog/calendar.h"
#include "raftlog/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BERLIN  "CET-1CEST,M3.5.0,M10.5.0/3"
#define NEWYORK "EST5EDT,M3.2.0,M11.1.0"
#define HOWE    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"
#define DUBLIN  "IST-1GMT0,M10.5.0,M3.5.0/1"

static struct zone zone_of(const char *rule)
{
    uint8_t bytes[ZONE_BYTES_MAX] = {1, (uint8_t)strlen(rule)};
    struct zone z;

    memcpy(bytes + 8, rule, strlen(rule));
    assert_true(zone_decode(slice_of(bytes, 8 + (uint32_t)strlen(rule)), &z));
    return z;
}

static struct calendar calendar_of(const char *text)
{
    struct calendar c;
    char why[CALENDAR_WHY];

    if (!calendar_parse(slice_text(text), &c, why)) {
        fail_msg("%s: %s", text, why);
    }
    return c;
}

/* "2026-03-29 01:30:00" in UTC. */
static int64_t utc(const char *text)
{
    int part[6];

    assert_int_equal(sscanf(text, "%d-%d-%d %d:%d:%d", &part[0], &part[1], &part[2],
                            &part[3], &part[4], &part[5]),
                     6);
    return (zone_days(part[0], part[1], part[2]) * 86400 + part[3] * 3600 +
            part[4] * 60 + part[5]) *
           1000;
}

/* From `after` on the calendar comes at these times (UTC), ended by NULL. */
static void expect(const char *text, const char *rule, const char *after, ...)
{
    struct calendar c = calendar_of(text);
    struct zone z;
    int64_t at = utc(after);
    const char *wanted;
    va_list args;

    zone_utc(&z);
    if (rule != NULL) {
        z = zone_of(rule);
    }
    va_start(args, after);
    while ((wanted = va_arg(args, const char *)) != NULL) {
        int64_t next = calendar_next(&c, &z, at);

        if (next != utc(wanted)) {
            fail_msg("%s after %lld: %lld, should be %s = %lld", text, (long long)at,
                     (long long)next, wanted, (long long)utc(wanted));
        }
        at = next;
    }
    va_end(args);
}

static void known_dates(void **state)
{
    (void)state;
    expect("0 0 3 * * *", NULL, "2026-02-27 12:00:00", "2026-02-28 03:00:00",
           "2026-03-01 03:00:00", NULL);
    expect("0 0 0 29 2 *", NULL, "2026-01-01 00:00:00", "2028-02-29 00:00:00",
           "2032-02-29 00:00:00", NULL);
    expect("0 0 0 29 feb *", NULL, "2096-02-29 00:00:00", "2104-02-29 00:00:00", NULL);
    expect("0 30 8 * * mon-fri", NULL, "2026-12-04 08:30:00", "2026-12-07 08:30:00",
           "2026-12-08 08:30:00", NULL);
    expect("0 0 12 * * 0", NULL, "2026-12-01 00:00:00", "2026-12-06 12:00:00", NULL);
    expect("0 0 12 * * 7", NULL, "2026-12-01 00:00:00", "2026-12-06 12:00:00", NULL);
    expect("0 0 12 * * 6-7", NULL, "2026-12-01 00:00:00", "2026-12-05 12:00:00",
           "2026-12-06 12:00:00", "2026-12-12 12:00:00", NULL);
    expect("59 59 23 31 12 *", NULL, "2026-12-31 23:59:58", "2026-12-31 23:59:59",
           "2027-12-31 23:59:59", NULL);
    expect("*/20 * * * * *", NULL, "2026-01-01 00:00:05", "2026-01-01 00:00:20",
           "2026-01-01 00:00:40", "2026-01-01 00:01:00", NULL);
    expect("5,10-12 0 */8 * JAN,Dec *", NULL, "2026-01-31 16:00:10",
           "2026-01-31 16:00:11", "2026-01-31 16:00:12", "2026-12-01 00:00:05", NULL);
    /* Both days: either one will do. */
    expect("0 0 0 13 * fri", NULL, "2026-11-01 00:00:00", "2026-11-06 00:00:00",
           "2026-11-13 00:00:00", "2026-11-20 00:00:00", "2026-11-27 00:00:00",
           "2026-12-04 00:00:00", "2026-12-11 00:00:00", "2026-12-13 00:00:00", NULL);
    expect("0 0 0 31 * *", NULL, "2026-01-31 00:00:00", "2026-03-31 00:00:00",
           "2026-05-31 00:00:00", NULL);
}

/* Half past two does not come on the day it is left out: three o'clock does. */
static void left_out_times_come_when_the_clock_is_past_them(void **state)
{
    (void)state;
    expect("0 30 2 * * *", BERLIN, "2026-03-28 00:00:00", "2026-03-28 01:30:00",
           "2026-03-29 01:00:00", "2026-03-30 00:30:00", NULL);
    expect("0 0,15,30 2 * * *", BERLIN, "2026-03-28 12:00:00", "2026-03-29 01:00:00",
           "2026-03-30 00:00:00", NULL);
    expect("0 0 3 * * *", BERLIN, "2026-03-28 12:00:00", "2026-03-29 01:00:00",
           "2026-03-30 01:00:00", NULL);
    expect("0 30 2 * * *", NEWYORK, "2026-03-07 12:00:00", "2026-03-08 07:00:00",
           "2026-03-09 06:30:00", NULL);
    expect("0 15 2 * * *", HOWE, "2026-10-02 20:00:00", "2026-10-03 15:30:00",
           "2026-10-04 15:15:00", NULL);
}

/* What the clock shows twice counts the first time. */
static void repeated_times_come_once(void **state)
{
    (void)state;
    expect("0 30 2 * * *", BERLIN, "2026-10-24 12:00:00", "2026-10-25 00:30:00",
           "2026-10-26 01:30:00", NULL);
    expect("0 0 3 * * *", BERLIN, "2026-10-24 12:00:00", "2026-10-25 02:00:00",
           "2026-10-26 02:00:00", NULL);
    expect("0 30 1 * * *", NEWYORK, "2026-10-31 12:00:00", "2026-11-01 05:30:00",
           "2026-11-02 06:30:00", NULL);
    expect("0 45 1 * * *", HOWE, "2026-04-04 12:00:00", "2026-04-04 14:45:00",
           "2026-04-05 15:15:00", NULL);
    expect("0 30 1 * * *", DUBLIN, "2026-10-24 12:00:00", "2026-10-25 00:30:00",
           "2026-10-26 01:30:00", NULL);
}

/* Without hours it goes on by the real ones. */
static void every_hour_is_every_hour(void **state)
{
    (void)state;
    expect("0 30 * * * *", BERLIN, "2026-10-24 23:00:00", "2026-10-24 23:30:00",
           "2026-10-25 00:30:00", "2026-10-25 01:30:00", "2026-10-25 02:30:00", NULL);
    expect("0 30 * * * *", BERLIN, "2026-03-28 23:40:00", "2026-03-29 00:30:00",
           "2026-03-29 01:30:00", NULL);
    expect("0 */20 * * * *", HOWE, "2026-04-04 14:30:00", "2026-04-04 14:40:00",
           "2026-04-04 15:10:00", "2026-04-04 15:30:00", NULL);
}

static void expect_refused(const char *text, const char *word)
{
    struct calendar c;
    char why[CALENDAR_WHY] = "";

    if (calendar_parse(slice_text(text), &c, why)) {
        fail_msg("%s is taken", text);
    }
    if (strstr(why, word) == NULL) {
        fail_msg("%s: %s, without %s", text, why, word);
    }
}

static void bad_calendars_are_told(void **state)
{
    (void)state;
    expect_refused("", "six fields");
    expect_refused("* * * * *", "six fields");
    expect_refused("* * * * * * *", "six fields");
    expect_refused("60 * * * * *", "second");
    expect_refused("* 60 * * * *", "minute");
    expect_refused("* * 24 * * *", "hour");
    expect_refused("* * * 0 * *", "day of the month");
    expect_refused("* * * 32 * *", "day of the month");
    expect_refused("* * * * 13 *", "month");
    expect_refused("* * * * juni *", "month");
    expect_refused("* * * * * 8", "day of the week");
    expect_refused("* * * * * fri-mon", "backwards");
    expect_refused("* * 22-6 * * *", "backwards");
    expect_refused("5/10 * * * * *", "single number");
    expect_refused("*/0 * * * * *", "steps");
    expect_refused("1,,2 * * * * *", "second");
    expect_refused("1, * * * * *", "second");
    expect_refused("1- * * * * *", "range");
    expect_refused("-1 * * * * *", "second");
    expect_refused("99999999999999999999 * * * * *", "second");
}

/* A day that never comes. */
static void impossible_days_are_found_out(void **state)
{
    struct calendar c = calendar_of("0 0 0 30 2 *");
    struct zone z = zone_of(BERLIN);

    (void)state;
    assert_int_equal(calendar_next(&c, &z, utc("2026-01-01 00:00:00")), 0);
}

/* ---- second by second ---- */

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33) % n;
}

static bool fits(const struct calendar *c, int64_t local)
{
    int64_t year;
    int month;
    int day;
    int64_t days = local / 86400;
    bool by_day;
    bool by_weekday;

    zone_date(days, &year, &month, &day);
    by_day = (c->days >> day & 1) != 0;
    by_weekday = (c->weekdays >> ((days + 4) % 7) & 1) != 0;
    return (c->seconds >> local % 60 & 1) != 0 &&
           (c->minutes >> local / 60 % 60 & 1) != 0 &&
           (c->hours >> local / 3600 % 24 & 1) != 0 && (c->months >> month & 1) != 0 &&
           (c->any_day       ? by_weekday
            : c->any_weekday ? by_day
                             : by_day || by_weekday);
}

/* Around each change of a clock: what the search finds is what the clock on the wall
 * shows for the first time, or has passed. */
static void a_search_by_seconds_agrees(void **state)
{
    static const char *const rules[] = {BERLIN, NEWYORK, HOWE,
                                        DUBLIN, "UTC0",  "XXX3YYY,J60/0,300/26"};
    static const char *const starts[] = {"2026-03-28 12:00:00", "2026-10-24 12:00:00",
                                         "2026-03-07 18:00:00", "2026-10-31 18:00:00",
                                         "2026-04-04 06:00:00", "2026-10-03 06:00:00",
                                         "2028-02-29 20:00:00", "2026-10-28 00:00:00"};
    const char *given = getenv("HOLDFAST_SEED");

    (void)state;
    seed = given != NULL ? strtoull(given, NULL, 0) : 7;
    printf("replay with HOLDFAST_SEED=%llu\n", (unsigned long long)seed);
    for (int n = 0; n < 50; n++) {
        struct zone z = zone_of(rules[below(6)]);
        int64_t from = utc(starts[below(8)]) / 1000;
        char text[64];
        struct calendar c;
        int64_t next;
        int64_t shown = INT64_MIN;
        bool by_hours;

        snprintf(text, sizeof text, "%u %s %s * * *", below(60),
                 below(2) != 0 ? "*/7" : "30",
                 below(3) == 0   ? "*"
                 : below(2) == 0 ? "1-3"
                                 : "*/2");
        c = calendar_of(text);
        by_hours = c.hours == 0xffffff;
        next = calendar_next(&c, &z, from * 1000 - 1000);
        for (int64_t t = from - 172800; t < from + 86400; t++) {
            int64_t until;
            int64_t local = t + zone_offset(&z, t, &until);
            bool comes = by_hours && fits(&c, local);

            for (int64_t l = shown + 1; !by_hours && shown != INT64_MIN && l <= local;
                 l++) {
                comes = comes || fits(&c, l);
            }
            shown = local > shown ? local : shown;
            if (t < from) {
                continue;
            }
            if (comes != (next == t * 1000)) {
                fail_msg("%s, round %d: at %lld, search says %lld", text, n,
                         (long long)t, (long long)next);
            }
            next = comes ? calendar_next(&c, &z, t * 1000) : next;
        }
    }
}

/* ---- the time zone database ---- */

static size_t read_zone(const char *name, int64_t from_s, uint8_t out[ZONE_BYTES_MAX])
{
    char path[128];
    uint8_t file[16384];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
    f = fopen(path, "r");
    if (f == NULL) {
        fail_msg("%s is missing: install tzdata", path);
    }
    n = fread(file, 1, sizeof file, f);
    fclose(f);
    return zone_compile(slice_of(file, (uint32_t)n), from_s, out);
}

static void expect_offset(const struct zone *z, const char *at, int32_t offset_s)
{
    int64_t until;

    assert_int_equal(zone_offset(z, utc(at) / 1000, &until), offset_s);
    assert_true(until > utc(at) / 1000);
}

static void zones_are_read_from_the_database(void **state)
{
    static const char *const names[] = {"Europe/Berlin",     "America/New_York",
                                        "Asia/Kolkata",      "Australia/Lord_Howe",
                                        "Africa/Casablanca", "UTC",
                                        "Pacific/Apia",      "America/Sao_Paulo"};
    int64_t from = utc("2026-01-01 00:00:00") / 1000;
    uint8_t bytes[ZONE_BYTES_MAX];
    struct zone z;
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        len = read_zone(names[i], from, bytes);
        assert_true(len > 0);
        assert_true(zone_decode(slice_of(bytes, (uint32_t)len), &z));
    }
    len = read_zone("Europe/Berlin", from, bytes);
    assert_true(zone_decode(slice_of(bytes, (uint32_t)len), &z));
    expect_offset(&z, "2026-03-29 00:59:59", 3600);
    expect_offset(&z, "2026-03-29 01:00:00", 7200);
    expect_offset(&z, "2026-10-25 00:59:59", 7200);
    expect_offset(&z, "2026-10-25 01:00:00", 3600);
    expect_offset(&z, "2090-07-01 00:00:00", 7200);
    len = read_zone("Asia/Kolkata", from, bytes);
    assert_true(zone_decode(slice_of(bytes, (uint32_t)len), &z));
    expect_offset(&z, "2026-07-01 00:00:00", 19800);
    /* From long ago on the changes that were are there as well: Samoa left out a day.
     */
    len = read_zone("Pacific/Apia", utc("2011-12-01 00:00:00") / 1000, bytes);
    assert_true(zone_decode(slice_of(bytes, (uint32_t)len), &z));
    expect_offset(&z, "2011-12-30 09:59:59", -36000);
    expect_offset(&z, "2011-12-30 10:00:00", 50400);
    {
        struct calendar c = calendar_of("0 0 12 30 12 *");

        assert_int_equal(calendar_next(&c, &z, utc("2011-12-29 00:00:00")),
                         utc("2011-12-30 10:00:00"));
    }
}

/* Every zone of this machine's database is read: from a moment that does not change, so
 * that it is always the same bytes. */
static void every_zone_is_read(void **state)
{
    FILE *list =
        popen("cd /usr/share/zoneinfo && grep -Rla '^TZif' --exclude-dir=right "
              "--exclude-dir=posix . 2>/dev/null",
              "r");
    char name[128];
    int count = 0;

    (void)state;
    assert_non_null(list);
    while (fgets(name, sizeof name, list) != NULL) {
        uint8_t bytes[ZONE_BYTES_MAX];

        name[strcspn(name, "\n")] = '\0';
        if (read_zone(name + 2, 1577836800, bytes) == 0) {
            fail_msg("%s cannot be read", name);
        }
        count++;
    }
    pclose(list);
    assert_true(count > 200);
}

/* Damage, cut anywhere, is refused or reckoned with; nothing is read beyond the end. */
static void damaged_zones_are_refused(void **state)
{
    uint8_t bytes[ZONE_BYTES_MAX];
    size_t len = read_zone("Europe/Berlin", 0, bytes);
    struct zone z;

    (void)state;
    assert_true(len > 0);
    for (size_t n = 1; n < len; n++) {
        uint8_t *copy = malloc(n);

        memcpy(copy, bytes, n);
        assert_false(zone_decode(slice_of(copy, (uint32_t)n), &z));
        free(copy);
    }
    assert_int_equal(zone_compile(slice_text("TZif"), 0, bytes), 0);
    assert_int_equal(zone_compile(slice_text("no zone at all"), 0, bytes), 0);
}

static void damaged_files_are_refused(void **state)
{
    uint8_t out[ZONE_BYTES_MAX];
    static uint8_t file[16384];
    FILE *f = fopen("/usr/share/zoneinfo/Europe/Berlin", "r");
    size_t len;

    (void)state;
    assert_non_null(f);
    len = fread(file, 1, sizeof file, f);
    fclose(f);
    for (size_t n = 0; n < len; n++) {
        uint8_t *copy = malloc(n + 1);

        memcpy(copy, file, n);
        assert_int_equal(zone_compile(slice_of(copy, (uint32_t)n), 0, out), 0);
        free(copy);
    }
    for (size_t n = 0; n < len; n++) {
        uint8_t *copy = malloc(len);

        memcpy(copy, file, len);
        copy[n] ^= 0x81;
        (void)zone_compile(slice_of(copy, (uint32_t)len), 0, out);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_dates),
        cmocka_unit_test(left_out_times_come_when_the_clock_is_past_them),
        cmocka_unit_test(repeated_times_come_once),
        cmocka_unit_test(every_hour_is_every_hour),
        cmocka_unit_test(bad_calendars_are_told),
        cmocka_unit_test(impossible_days_are_found_out),
        cmocka_unit_test(a_search_by_seconds_agrees),
        cmocka_unit_test(zones_are_read_from_the_database),
        cmocka_unit_test(every_zone_is_read),
        cmocka_unit_test(damaged_zones_are_refused),
        cmocka_unit_test(damaged_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
