/* console.h: the page behind GET /: broker/console.html, embedded when the program is
 * built. */
#ifndef HF_BROKER_CONSOLE_H
#define HF_BROKER_CONSOLE_H

#include <stddef.h>

extern const unsigned char console_html[];
extern const size_t console_html_bytes;

#endif
