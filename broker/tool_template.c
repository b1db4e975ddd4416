/* tool_template.c: see tool_template.h. */
#include "broker/tool_template.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_lists(struct tool *t, struct template *m)
{
    const char *text;
    unsigned n;

    for (n = 0; (text = tool_flag_at(t, "key", n)) != NULL; n++) {
        if (n == TEMPLATE_KEYS) {
            return tool_usage(t, "more than %u keys", TEMPLATE_KEYS);
        }
        m->keys[n] = hf_text(text);
    }
    m->entry.keys = m->keys;
    m->entry.key_count = n;
    for (n = 0; (text = tool_flag_at(t, "attr", n)) != NULL; n++) {
        if (n == TEMPLATE_ATTRIBUTES) {
            return tool_usage(t, "more than %u attributes", TEMPLATE_ATTRIBUTES);
        }
        if (!format_read_attribute(text, &m->attributes[n])) {
            return tool_usage(t, "--attr %s is not k=v", text);
        }
    }
    m->entry.attributes = m->attributes;
    m->entry.attribute_count = n;
    return TOOL_DONE;
}

int template_read(struct tool *t, struct template *m)
{
    int64_t priority = 0;
    bool delay;
    bool at;
    bool ttl;
    bool has;

    memset(m, 0, sizeof *m);
    if (!tool_flag_duration(t, "delay", &delay, &m->entry.delay_ms) ||
        !tool_flag_time(t, "at", &at, &m->entry.deliver_at_ms) ||
        !tool_flag_duration(t, "ttl", &ttl, &m->entry.ttl_ms) ||
        !tool_flag_number(t, "priority", 1, 16, &has, &priority)) {
        return TOOL_USAGE;
    }
    if (delay && at) {
        return tool_usage(t, "give either --delay or --at");
    }
    m->entry.has_delay = delay;
    m->entry.has_deliver_at = at;
    m->entry.has_ttl = ttl;
    m->entry.priority = (unsigned)priority;
    m->entry.tag = hf_text(tool_flag(t, "tag"));
    m->entry.group = hf_text(tool_flag(t, "group"));
    m->entry.dedup_id = hf_text(tool_flag(t, "dedup-id"));
    return read_lists(t, m);
}

/* Called right after what failed, for its errno. */
static int unreadable(const struct tool *t, const char *path)
{
    char why[1024];

    snprintf(why, sizeof why, "--file %.900s: %s", path, strerror(errno));
    return tool_failed(t, why, "give a file that can be read");
}

int template_read_file(struct tool *t, const char *path, char **body, size_t *len)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *bytes = malloc(TEMPLATE_BODY_MAX + 1);
    int rc = TOOL_DONE;

    if (f == NULL || bytes == NULL) {
        rc = f == NULL ? unreadable(t, path)
                       : tool_failed(t, "out of memory", "free some");
        goto done;
    }
    *len = fread(bytes, 1, TEMPLATE_BODY_MAX + 1, f);
    if (ferror(f)) {
        rc = unreadable(t, path);
    } else if (*len > TEMPLATE_BODY_MAX) {
        rc =
            tool_failed(t, "the file is above 4 MiB", "send less, or where it is kept");
    }
done:
    if (f != NULL && f != stdin) {
        fclose(f);
    }
    if (rc != TOOL_DONE) {
        free(bytes);
        return rc;
    }
    *body = bytes;
    return TOOL_DONE;
}
