/* certificates.h: authorities and certificates for tests, in a folder of theirs.
 *
 * Whoever asks for what cannot be made fails the running cmocka test. */
#ifndef HF_TESTS_LIB_CERTIFICATES_H
#define HF_TESTS_LIB_CERTIFICATES_H

#include <stdint.h>

#define CERTIFICATE_PATH 512

/* Files of one certificate: DIR/NAME.crt and DIR/NAME.key. */
struct certificate_files {
    char cert[CERTIFICATE_PATH];
    char key[CERTIFICATE_PATH];
};

/* What is to be in it. Zeros: CN=NAME, for localhost and 127.0.0.1, from yesterday
 * until tomorrow, for both ends of a connection. */
struct certificate_wish {
    const char *subject; /* the CN */
    const char *names;   /* "DNS:a.example,IP:10.0.0.1" */
    int64_t from_s;      /* relative to now */
    int64_t until_s;
    const char *usage;      /* "serverAuth", "clientAuth" */
    const char *passphrase; /* of the key */
};

struct authority;

/* Writes DIR/NAME.crt, which is what is to be trusted. */
struct authority *authority_make(const char *dir, const char *name);
void authority_free(struct authority *a);
const char *authority_file(const struct authority *a);
/* wish may be NULL. What stands there already is replaced, each file at once. */
struct certificate_files authority_issue(struct authority *a, const char *name,
                                         const struct certificate_wish *wish);

#endif
