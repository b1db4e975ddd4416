/* status.c: names, texts and classes of the list in status.h. */
#include "proto/status.h"

#include <stddef.h>

const char *status_name(int code)
{
    switch (code) {
#define X(name, wire, printed, class, text)                                            \
    case name:                                                                         \
        return printed;
        STATUS_MAP(X)
#undef X
    default:
        return "Unknown";
    }
}

const char *status_text(int code)
{
    switch (code) {
#define X(name, wire, printed, class, text)                                            \
    case name:                                                                         \
        return text;
        STATUS_MAP(X)
#undef X
    default:
        return "a status this version does not know";
    }
}

enum status_class status_class(int code)
{
    switch (code) {
#define X(name, wire, printed, class, text)                                            \
    case name:                                                                         \
        return STATUS_CLASS_##class;
        STATUS_MAP(X)
#undef X
    default:
        return STATUS_CLASS_FATAL;
    }
}

int status_from_wire(unsigned wire)
{
    /* Compared as unsigned, so that a number beyond INT_MAX cannot wrap into the list.
     */
#define X(name, number, printed, class, text)                                          \
    if (wire == (unsigned)-(number)) {                                                 \
        return name;                                                                   \
    }
    STATUS_MAP(X)
#undef X
    return HF_E_INTERNAL;
}
