/* folder.h: a temporary folder for one test, and a free TCP port. */
#ifndef HF_TESTS_LIB_FOLDER_H
#define HF_TESTS_LIB_FOLDER_H

#define FOLDER_BYTES 256u

/* Make an empty folder; ends the program when that fails. */
void folder_make(char out[FOLDER_BYTES]);
/* Remove it with all that is in it. */
void folder_remove(const char *path);

/* A loopback port that nobody listens on at this moment. */
int folder_free_port(void);

#endif
