/* log.h: log lines to stderr:
 *
 *     2026-01-02T03:04:05.678Z info server: serving as leader term=7 outage_ms=412
 *
 * area and text come from the caller, details as key=value. Control characters are
 * replaced, so that one event is one line whatever a stranger sent. A line that repeats
 * is written LOG_REPEAT_MAX times in LOG_REPEAT_WINDOW_MS; after that it is counted,
 * and the count is written with the next one after the window.
 *
 * The one global of the program: where the lines go and how many. Only for the loop's
 * thread. */
#ifndef HF_BROKER_LOG_H
#define HF_BROKER_LOG_H

#include "proto/clock.h"

#include <stdbool.h>
#include <stdio.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

#define LOG_REPEAT_MAX       5u
#define LOG_REPEAT_WINDOW_MS 10000
#define LOG_LINE_BYTES       1024u

/* Where lines go; default: stderr, LOG_INFO, the system's clock. NULL keeps what is
 * set. */
void log_setup(FILE *out, const struct clock_source *clock);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* "debug" -> LOG_DEBUG; false when it is no level. */
bool log_level_parse(const char *text, enum log_level *level);
const char *log_level_name(enum log_level level);

/* One line, if the level lets it through. Cut at LOG_LINE_BYTES. */
void log_line(enum log_level level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What ends or refuses the program: "holdfast: what: why: remedy", without time or
 * level, on stderr. */
void log_fatal(const char *what, const char *why, const char *remedy);

#endif
