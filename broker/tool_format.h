/* tool_format.h: values of the command line into numbers, and numbers back into text
 * and JSON. */
#ifndef HF_BROKER_TOOL_FORMAT_H
#define HF_BROKER_TOOL_FORMAT_H

#include "proto/holdfast.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* "500ms", "10s", "1.5m", "2h", "7d", "0". False: not a duration, or beyond 10
 * years. */
bool format_read_duration(const char *text, int64_t *ms);

/* RFC 3339 ("2031-01-01T00:00:00Z", "...+02:00", fractions of seconds), or Unix ms. */
bool format_read_time(const char *text, int64_t *ms);

/* A decimal number in low..high, nothing around it. */
bool format_read_number(const char *text, int64_t low, int64_t high, int64_t *value);

/* "k=v" of a message, the value by its shape: true and false; a whole number; one with
 * decimals; anything else is text, and so is what stands in "double quotes", without
 * them. Borrows `pair`. False: there is no name before a '='. */
bool format_read_attribute(const char *pair, struct hf_attribute *out);
/* The same of a queue, where a duration (in ms) or a size ("64KiB", "1MB", in bytes) is
 * a number, nothing at all is nil, which sets the default, and the name of a queue is
 * text whatever it looks like. */
bool format_read_setting(const char *pair, struct hf_attribute *out);
/* A queue's attribute as it would be given: 30s, 256KiB. */
void format_setting(FILE *out, const struct hf_attribute *a);

/* The 28 characters of "2031-01-01T00:00:00.000Z" and the zero fit. */
#define FORMAT_TIME 32
void format_time(int64_t ms, char text[FORMAT_TIME]);

/* "1.5 s", "20 ms", "2 h 5 min". */
#define FORMAT_SPAN 32
void format_span(int64_t ms, char text[FORMAT_SPAN]);

/* "ready", "leased", ...; and back, -1 for no such state. */
const char *format_state(int state);
int format_read_state(const char *text);
const char *format_gone(int gone);
const char *format_role(int role);

/* Set object[name] to the text, or object[name_base64] when it is not UTF-8. Absent
 * bytes set nothing. */
void format_json_bytes(json_t *object, const char *name, struct hf_bytes bytes);
/* {"k": v, ...} */
json_t *format_json_attributes(const struct hf_attribute *attributes, size_t count);
/* As `receive` prints it. */
json_t *format_json_message(const struct hf_message *message);
/* "receive", "send", "both". */
const char *format_pause(int mode);
json_t *format_json_queue(const struct hf_queue *queue, bool attributes, bool counters);

/* At most `width` characters on one line; what cannot be printed becomes '.', what was
 * cut is shown by "...". */
void format_preview(FILE *out, struct hf_bytes bytes, size_t width);

/* The value of an attribute, as it would be given. */
void format_value(FILE *out, const struct hf_attribute *a);

#endif
