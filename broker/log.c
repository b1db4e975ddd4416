/* log.c: a line is composed in one buffer and written with one call, so that lines of
 * several processes in one file do not mix. Repetition is judged by a small table of
 * hashes of area and text without its numbers: "connection 17 closed" and "connection
 * 18 closed" are the same news. */
#include "broker/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_REPEAT_SLOTS 64u

struct log_repeat {
    uint64_t hash;
    int64_t since_ms; /* when its window began; 0 = unused */
    uint32_t seen;
    uint32_t suppressed;
};

static struct {
    FILE *out;
    const struct clock_source *clock;
    enum log_level level;
    struct log_repeat repeats[LOG_REPEAT_SLOTS];
} sink = {.level = LOG_INFO};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(FILE *out, const struct clock_source *clock)
{
    if (out != NULL) {
        sink.out = out;
    }
    if (clock != NULL) {
        sink.clock = clock;
    }
    memset(sink.repeats, 0, sizeof sink.repeats);
}

void log_set_level(enum log_level level)
{
    sink.level = level;
}

enum log_level log_get_level(void)
{
    return sink.level;
}

bool log_level_parse(const char *text, enum log_level *level)
{
    for (unsigned i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

static const struct clock_source *log_clock(void)
{
    return sink.clock != NULL ? sink.clock : clock_system();
}

static size_t log_time(char *buf, size_t size, int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    size_t len;

    gmtime_r(&seconds, &tm);
    len = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return len +
           (size_t)snprintf(buf + len, size - len, ".%03dZ", (int)(wall_ms % 1000));
}

/* FNV-1a over everything but digits. */
static uint64_t log_hash(const char *area, const char *text)
{
    uint64_t hash = 14695981039346656037ull;

    for (int part = 0; part < 2; part++) {
        for (const char *p = part == 0 ? area : text; *p != '\0'; p++) {
            if (*p >= '0' && *p <= '9') {
                continue;
            }
            hash = (hash ^ (uint8_t)*p) * 1099511628211ull;
        }
    }
    return hash;
}

/* May this line be written? *suppressed: how many like it were not, since the last that
 * was. */
static bool log_admit(const char *area, const char *text, uint32_t *suppressed)
{
    uint64_t hash = log_hash(area, text);
    struct log_repeat *r = &sink.repeats[hash % LOG_REPEAT_SLOTS];
    int64_t now_ms = log_clock()->mono_ms(log_clock()->ctx);

    *suppressed = 0;
    if (r->since_ms == 0 || r->hash != hash) {
        *r = (struct log_repeat){.hash = hash, .since_ms = now_ms + 1, .seen = 1};
        return true;
    }
    if (now_ms - r->since_ms >= LOG_REPEAT_WINDOW_MS) {
        *suppressed = r->suppressed;
        *r = (struct log_repeat){.hash = hash, .since_ms = now_ms + 1, .seen = 1};
        return true;
    }
    if (r->seen < LOG_REPEAT_MAX) {
        r->seen++;
        return true;
    }
    r->suppressed++;
    return false;
}

static void log_clean(char *text)
{
    for (char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?';
        }
    }
}

void log_line(enum log_level level, const char *area, const char *format, ...)
{
    const struct clock_source *clock = log_clock();
    FILE *out = sink.out != NULL ? sink.out : stderr;
    char text[LOG_LINE_BYTES];
    char when[40];
    uint32_t suppressed;
    va_list args;

    if (level < sink.level) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* cut when too long */
    va_end(args);
    log_clean(text);
    if (!log_admit(area, text, &suppressed)) {
        return;
    }
    log_time(when, sizeof when, clock->wall_ms(clock->ctx));
    if (suppressed > 0) {
        fprintf(out, "%s %s %s: %s repeated=%u\n", when, level_names[level], area, text,
                suppressed);
    } else {
        fprintf(out, "%s %s %s: %s\n", when, level_names[level], area, text);
    }
    fflush(out);
}

void log_fatal(const char *what, const char *why, const char *remedy)
{
    fprintf(stderr, "holdfast: %s: %s: %s\n", what, why, remedy);
    fflush(stderr);
}
