/* refuse.c: error details. */
#include "raftlog/refuse.h"

#include <stdarg.h>
#include <stdio.h>

static struct slice format_text(struct arena *arena, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static struct slice format_text(struct arena *arena, const char *format, va_list args)
{
    char text[512];
    int n = vsnprintf(text, sizeof text, format, args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    const void *copy = arena_copy(arena, text, len);

    return copy != NULL ? slice_of(copy, len) : (struct slice){NULL, 0};
}

struct slice refuse_text(struct arena *arena, const char *format, ...)
{
    va_list args;
    struct slice text;

    va_start(args, format);
    text = format_text(arena, format, args);
    va_end(args);
    return text;
}

int refuse(struct arena *arena, struct op_error *error, int status, const char *element,
           const char *format, ...)
{
    va_list args;

    error->status = status;
    error->element = element != NULL ? slice_text(element) : (struct slice){NULL, 0};
    va_start(args, format);
    error->message = format_text(arena, format, args);
    va_end(args);
    return status;
}

int refuse_bounds(struct arena *arena, struct op_error *error, int status,
                  const char *element, int64_t low, int64_t high)
{
    error->has_bounds = true;
    error->low = low;
    error->high = high;
    return refuse(arena, error, status, element, "%s must be from %lld to %lld",
                  element, (long long)low, (long long)high);
}

void refuse_printable(struct slice text, char out[65])
{
    size_t n = text.len < 64 ? text.len : 64;

    for (size_t i = 0; i < n; i++) {
        out[i] = text.data[i] >= 0x20 && text.data[i] < 0x7f ? (char)text.data[i] : '?';
    }
    out[n] = '\0';
}

int refuse_queue(struct arena *arena, struct op_error *error, struct slice name)
{
    char shown[65];

    refuse_printable(name, shown);
    return refuse(arena, error, HF_E_QUEUE_NOT_FOUND, "queue",
                  "there is no queue %s: create it first", shown);
}
