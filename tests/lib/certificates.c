/* certificates.c: see certificates.h. */
#include "tests/lib/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define DAY_S 86400

struct authority {
    char dir[CERTIFICATE_PATH / 2];
    char file[CERTIFICATE_PATH];
    EVP_PKEY *key;
    X509 *cert;
    long serial;
};

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *make(const char *subject, EVP_PKEY *key, long serial, int64_t from_s,
                  int64_t until_s, const X509 *issuer)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    assert_non_null(cert);
    assert_int_equal(X509_set_version(cert, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), (long)from_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), (long)until_s);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                               (const unsigned char *)subject, -1, -1, 0);
    assert_int_equal(X509_set_issuer_name(
                         cert, issuer != NULL ? X509_get_subject_name(issuer) : name),
                     1);
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    return cert;
}

/* Write beside it, then rename: whoever reads sees the old one or the new one. */
static void write_cert(const char *path, X509 *cert)
{
    char fresh[CERTIFICATE_PATH + 8];
    FILE *file;

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    file = fopen(fresh, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, cert), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static void write_key(const char *path, EVP_PKEY *key, const char *passphrase)
{
    char fresh[CERTIFICATE_PATH + 8];
    FILE *file;

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    file = fopen(fresh, "w");
    assert_non_null(file);
    assert_int_equal(chmod(fresh, 0600), 0);
    assert_int_equal(PEM_write_PrivateKey(file, key,
                                          passphrase != NULL ? EVP_aes_128_cbc() : NULL,
                                          NULL, 0, NULL, (void *)passphrase),
                     1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

struct authority *authority_make(const char *dir, const char *name)
{
    struct authority *a = calloc(1, sizeof *a);

    assert_non_null(a);
    (void)snprintf(a->dir, sizeof a->dir, "%s", dir);
    (void)snprintf(a->file, sizeof a->file, "%s/%s.crt", dir, name);
    a->key = EVP_EC_gen("P-256");
    assert_non_null(a->key);
    a->cert = make(name, a->key, 1, -DAY_S, DAY_S, NULL);
    a->serial = 1;
    add_extension(a->cert, a->cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(a->cert, a->cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(a->cert, a->cert, NID_subject_key_identifier, "hash");
    assert_true(X509_sign(a->cert, a->key, EVP_sha256()) > 0);
    write_cert(a->file, a->cert);
    return a;
}

void authority_free(struct authority *a)
{
    if (a != NULL) {
        EVP_PKEY_free(a->key);
        X509_free(a->cert);
        free(a);
    }
}

const char *authority_file(const struct authority *a)
{
    return a->file;
}

struct certificate_files authority_issue(struct authority *a, const char *name,
                                         const struct certificate_wish *wish)
{
    static const struct certificate_wish none;
    struct certificate_files files;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert;

    assert_non_null(key);
    wish = wish != NULL ? wish : &none;
    cert = make(wish->subject != NULL ? wish->subject : name, key, ++a->serial,
                wish->from_s != 0 ? wish->from_s : -DAY_S,
                wish->until_s != 0 ? wish->until_s : DAY_S, a->cert);
    add_extension(cert, a->cert, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(cert, a->cert, NID_authority_key_identifier, "keyid");
    add_extension(cert, a->cert, NID_subject_alt_name,
                  wish->names != NULL ? wish->names : "DNS:localhost,IP:127.0.0.1");
    add_extension(cert, a->cert, NID_ext_key_usage,
                  wish->usage != NULL ? wish->usage : "serverAuth,clientAuth");
    assert_true(X509_sign(cert, a->key, EVP_sha256()) > 0);
    (void)snprintf(files.cert, sizeof files.cert, "%s/%s.crt", a->dir, name);
    (void)snprintf(files.key, sizeof files.key, "%s/%s.key", a->dir, name);
    write_key(files.key, key, wish->passphrase);
    write_cert(files.cert, cert);
    X509_free(cert);
    EVP_PKEY_free(key);
    return files;
}
