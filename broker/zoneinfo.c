/* zoneinfo.c: see zoneinfo.h. A name is a path below the database's folder, so it is
 * checked before it is used as one. */
#include "broker/zoneinfo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX 65536u
/* What was before does not matter to a rule. Not the present time: the same zone is the
 * same bytes whenever it is read, so that a rule can be told to be the same. */
#define FROM_S 1577836800 /* 2020-01-01 */

static const char folder[] = "/usr/share/zoneinfo";

/* Letters, digits, _ + - and single slashes between: "Etc/GMT+1". No dot, so no way
 * out of the folder. */
static bool is_name(struct slice name)
{
    bool slash = true;

    for (uint32_t i = 0; i < name.len; i++) {
        char c = (char)name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && strchr("_+-/", c) == NULL) {
            return false;
        }
        if (c == '\0' || (c == '/' && slash)) {
            return false;
        }
        slash = c == '/';
    }
    return !slash;
}

int zoneinfo_read(struct slice name, uint8_t out[ZONE_BYTES_MAX], size_t *len,
                  char *why, size_t size)
{
    char path[sizeof folder + LIMIT_ZONE + 2];
    uint8_t *file;
    size_t n;
    FILE *f;

    if (name.len > LIMIT_ZONE || !is_name(name)) {
        (void)snprintf(why, size,
                       "this is not the name of a time zone: Europe/Berlin is one");
        return HF_E_INVALID_ARGUMENT;
    }
    (void)snprintf(path, sizeof path, "%s/%.*s", folder, (int)name.len,
                   (const char *)name.data);
    f = fopen(path, "rb");
    file = malloc(FILE_BYTES_MAX);
    if (f == NULL || file == NULL) {
        (void)snprintf(why, size,
                       "there is no time zone %.*s in %s on this node: check the name, "
                       "and that the package tzdata is installed",
                       (int)name.len, (const char *)name.data, folder);
        if (f != NULL) {
            (void)fclose(f);
        }
        free(file);
        return HF_E_INVALID_ARGUMENT;
    }
    n = fread(file, 1, FILE_BYTES_MAX, f);
    (void)fclose(f);
    *len = zone_compile(slice_of(file, (uint32_t)n), FROM_S, out);
    free(file);
    if (*len == 0) {
        (void)snprintf(why, size, "%s is not a time zone that this version can read",
                       path);
        return HF_E_INVALID_ARGUMENT;
    }
    return HF_OK;
}
