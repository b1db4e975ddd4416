/* tool_template.h: what the command line says of a message to be sent: send, recur set.
 */
#ifndef HF_BROKER_TOOL_TEMPLATE_H
#define HF_BROKER_TOOL_TEMPLATE_H

#include "broker/tool_command.h"

#define TEMPLATE_KEYS       8u
#define TEMPLATE_ATTRIBUTES 64u
#define TEMPLATE_BODY_MAX   (4u << 20)

struct template
{
    struct hf_send_entry entry; /* without its body */
    struct hf_bytes keys[TEMPLATE_KEYS];
    struct hf_attribute attributes[TEMPLATE_ATTRIBUTES];
};

/* From the flags, into a template that stays where it is. TOOL_DONE, or it was
 * complained about. */
int template_read(struct tool *t, struct template *m);

/* The content of a file, - is stdin. Gives the bytes: free. TOOL_DONE, or it was
 * complained about. */
int template_read_file(struct tool *t, const char *path, char **body, size_t *len);

#endif
