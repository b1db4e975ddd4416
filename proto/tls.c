/* tls.c: TLS over one stream of bytes; see tls.h.
 *
 * OpenSSL reads and writes through a BIO of ours, whose ends are the slice that was fed
 * and the buffer of tls_out: there is no copy, and no buffer that could grow unseen.
 * OpenSSL keeps a record that is not whole, and gives that memory back when it is
 * (SSL_MODE_RELEASE_BUFFERS).
 *
 * A verification that fails is told by the callback that sees the certificate; what
 * else goes wrong is told from OpenSSL's queue of errors. */
#include "proto/tls.h"

#include "proto/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CIPHERS_12       "ECDHE+AESGCM:ECDHE+CHACHA20"
#define CERTS_BYTES      (32u << 10) /* of the other end's chain */
#define CHAIN_DEPTH      8
#define NAME_BYTES       96u
#define RECORD_ALERT     21
#define RECORD_HANDSHAKE 22
/* OpenSSL has no names for these reasons: an alert that came is this plus its number.
 */
#define REASON_ALERT SSL_AD_REASON_OFFSET

struct tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *ends;
    enum tls_demand demand;
    bool insecure;
    int64_t expires;
    atomic_uint refs; /* the owner's and one per connection */
};

struct tls {
    SSL *ssl;
    struct tls_context *context;
    enum tls_end end;
    bool established;
    bool heard; /* the first byte was looked at */
    bool plain;
    int status; /* how it ended */
    unsigned key_updates;
    struct slice in;
    struct op_buffer out;
    size_t before_bytes; /* fed before it was established */
    char name[NAME_BYTES];
    char why[TLS_WHY];
};

/* ---- our BIO ---- */

static int ends_read(BIO *bio, char *room, size_t capacity, size_t *n)
{
    struct tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *n = capacity < t->in.len ? capacity : t->in.len;
    if (*n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(room, t->in.data, *n);
    t->in = slice_of(t->in.data + *n, t->in.len - *n);
    return 1;
}

static int ends_write(BIO *bio, const char *data, size_t len, size_t *n)
{
    struct tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    op_buffer_append(&t->out, data, len);
    *n = t->out.failed ? 0 : len;
    return t->out.failed ? 0 : 1;
}

static long ends_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *ends_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "ends");

    if (m != NULL && (BIO_meth_set_read_ex(m, ends_read) != 1 ||
                      BIO_meth_set_write_ex(m, ends_write) != 1 ||
                      BIO_meth_set_ctrl(m, ends_ctrl) != 1)) {
        BIO_meth_free(m);
        return NULL;
    }
    return m;
}

/* ---- words about certificates ---- */

/* "CN=node1,O=example"; nothing unprintable gets through. */
static void name_text(const X509_NAME *name, char *out, size_t size)
{
    BIO *bio = BIO_new(BIO_s_mem());
    int len = 0;

    if (bio != NULL &&
        X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~XN_FLAG_DN_REV) >= 0) {
        len = BIO_read(bio, out, (int)size - 1);
    }
    out[len > 0 ? len : 0] = '\0';
    BIO_free(bio);
}

static void date_text(const ASN1_TIME *time, char *out, size_t size)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(time, &tm) != 1 ||
        strftime(out, size, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        (void)snprintf(out, size, "an unknown time");
    }
}

/* "a.example, 10.0.0.1": what the certificate is for. */
static void names_text(const X509 *cert, char *out, size_t size)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && len < size; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const ASN1_STRING *s = name->type == GEN_DNS     ? name->d.dNSName
                               : name->type == GEN_IPADD ? name->d.iPAddress
                                                         : NULL;
        char text[INET6_ADDRSTRLEN + 256] = "";

        if (s == NULL) {
            continue;
        }
        if (name->type == GEN_DNS) {
            int bytes = ASN1_STRING_length(s);

            for (int k = 0; k < bytes && k < 255; k++) {
                unsigned char c = ASN1_STRING_get0_data(s)[k];

                text[k] = c > ' ' && c < 127 ? (char)c : '?';
            }
        } else {
            (void)inet_ntop(ASN1_STRING_length(s) == 4 ? AF_INET : AF_INET6,
                            ASN1_STRING_get0_data(s), text, INET6_ADDRSTRLEN);
        }
        len +=
            (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", text);
    }
    GENERAL_NAMES_free(names);
    if (out[0] == '\0') {
        (void)snprintf(out, size, "no host");
    }
}

static void say_refusal(struct tls *t, int error, const X509 *cert, int depth)
{
    char whose[NAME_BYTES + 32], subject[NAME_BYTES] = "", text[NAME_BYTES] = "";

    if (cert == NULL) {
        (void)snprintf(t->why, sizeof t->why, "its certificate is refused: %s",
                       X509_verify_cert_error_string(error));
        return;
    }
    name_text(X509_get_subject_name(cert), subject, sizeof subject);
    (void)snprintf(whose, sizeof whose, "%s (%s)",
                   depth > 0 ? "the authority of its certificate" : "its certificate",
                   subject);
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        date_text(X509_get0_notAfter(cert), text, sizeof text);
        (void)snprintf(t->why, sizeof t->why, "%s expired on %s", whose, text);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        date_text(X509_get0_notBefore(cert), text, sizeof text);
        (void)snprintf(t->why, sizeof t->why, "%s is valid only from %s on", whose,
                       text);
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        name_text(X509_get_issuer_name(cert), text, sizeof text);
        (void)snprintf(t->why, sizeof t->why,
                       "%s is from an authority that is not trusted here (%s)", whose,
                       text);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        names_text(cert, text, sizeof text);
        (void)snprintf(t->why, sizeof t->why, "%s is not for %s but for %s", whose,
                       t->name, text);
        break;
    case X509_V_ERR_INVALID_PURPOSE:
        (void)snprintf(t->why, sizeof t->why,
                       "%s may not be used by a %s (its extendedKeyUsage)", whose,
                       t->end == TLS_ACCEPT ? "client" : "server");
        break;
    default:
        (void)snprintf(t->why, sizeof t->why, "%s is refused: %s", whose,
                       X509_verify_cert_error_string(error));
        break;
    }
}

static int on_verified(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());

    if (ok == 0) {
        say_refusal(SSL_get_app_data(ssl), X509_STORE_CTX_get_error(store),
                    X509_STORE_CTX_get_current_cert(store),
                    X509_STORE_CTX_get_error_depth(store));
    }
    return ok;
}

/* ---- words about what else goes wrong ---- */

static const char *alert_text(int alert)
{
    switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE:
        return "it sees no cipher in common, or requires a certificate from this end";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
        return "it does not accept this end's certificate";
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
        return "it says that this end's certificate may not be used for that";
    case SSL_AD_CERTIFICATE_REVOKED:
        return "it says that this end's certificate is revoked";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "it says that this end's certificate has expired";
    case SSL_AD_UNKNOWN_CA:
        return "it does not trust the authority of this end's certificate";
    case SSL_AD_ACCESS_DENIED:
        return "it denies access to this end's certificate";
    case TLS13_AD_CERTIFICATE_REQUIRED:
        return "it requires a certificate from this end";
    default:
        return NULL;
    }
}

static bool alert_is_about_certificates(int alert)
{
    return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
           alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
           alert == TLS13_AD_CERTIFICATE_REQUIRED;
}

/* The connection is over. The first thing that went wrong is told. */
static int fail(struct tls *t, int status, const char *why)
{
    t->status = status;
    if (t->why[0] == '\0') {
        (void)snprintf(t->why, sizeof t->why, "%s", why);
    }
    return status;
}

static int fail_from_queue(struct tls *t)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    char text[TLS_WHY];

    if (t->out.failed || reason == ERR_R_MALLOC_FAILURE) {
        return fail(t, HF_E_MEMORY_LOW, "out of memory");
    }
    if (ERR_GET_LIB(error) != ERR_LIB_SSL) {
        const char *what = ERR_reason_error_string(error);

        (void)snprintf(text, sizeof text, "TLS broke: %s",
                       what != NULL ? what : "no reason is known");
        return fail(t, HF_E_PROTOCOL, text);
    }
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        return fail(t, HF_E_AUTH_FAILED, "its certificate is refused");
    }
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        return fail(t, HF_E_AUTH_FAILED,
                    "it shows no certificate, and one is required");
    }
    if (reason >= REASON_ALERT) {
        int alert = reason - REASON_ALERT;
        const char *known = alert_text(alert);

        if (known == NULL) {
            (void)snprintf(text, sizeof text, "it ended TLS: %s",
                           SSL_alert_desc_string_long(alert));
        }
        return fail(
            t, alert_is_about_certificates(alert) ? HF_E_AUTH_FAILED : HF_E_PROTOCOL,
            known != NULL ? known : text);
    }
    (void)snprintf(text, sizeof text, "its TLS is not what this end speaks: %s",
                   ERR_reason_error_string(error));
    return fail(t, HF_E_PROTOCOL, text);
}

/* After a call that returned rc: HF_OK when it only wants to be fed. */
static int outcome(struct tls *t, int rc)
{
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return HF_OK;
    case SSL_ERROR_ZERO_RETURN:
        return fail(t, HF_E_CLOSED, "it ended the connection");
    default:
        return fail_from_queue(t);
    }
}

/* Sees every message of TLS that comes or goes. */
static void on_message(int sent, int version, int type, const void *data, size_t len,
                       SSL *ssl, void *ctx)
{
    struct tls *t = SSL_get_app_data(ssl);

    (void)version;
    (void)ctx;
    if (!sent && type == SSL3_RT_HANDSHAKE && len > 0 &&
        *(const uint8_t *)data == SSL3_MT_KEY_UPDATE) {
        t->key_updates++;
    }
}

/* ---- contexts ---- */

static int no_passphrase(char *buf, int size, int writing, void *ctx)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)ctx;
    return -1; /* and never ask at the terminal */
}

static int refuse_file(char *why, size_t size, const char *what, const char *path,
                       const char *reason)
{
    unsigned long error = ERR_peek_last_error();
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        (void)snprintf(why, size, "%s %s: %s: name a file that this user can read",
                       what, path, strerror(errno));
        return HF_E_INVALID_ARGUMENT;
    }
    fclose(file);
    if (ERR_GET_LIB(error) == ERR_LIB_SSL &&
        (ERR_GET_RFLAGS(error) & ERR_RFLAG_COMMON) == 0) {
        reason = ERR_reason_error_string(error); /* such as a key that is too weak */
    }
    (void)snprintf(why, size, "%s %s: %s", what, path, reason);
    return HF_E_INVALID_ARGUMENT;
}

static int load_own(struct tls_context *c, const struct tls_options *o, char *why,
                    size_t size)
{
    const char *cert = o->cert;
    struct tm tm;

    if (o->cert == NULL && o->key == NULL) {
        return HF_OK;
    }
    if (o->cert == NULL || o->key == NULL) {
        (void)snprintf(why, size,
                       "a certificate and its private key belong together: name both");
        return HF_E_INVALID_ARGUMENT;
    }
    if (SSL_CTX_use_certificate_chain_file(c->ssl, cert) != 1) {
        return refuse_file(why, size, "certificate", cert,
                           "it is not in PEM: it begins with BEGIN CERTIFICATE");
    }
    if (SSL_CTX_use_PrivateKey_file(c->ssl, o->key, SSL_FILETYPE_PEM) != 1) {
        unsigned long error = ERR_peek_last_error();

        if (ERR_GET_LIB(error) == ERR_LIB_X509) {
            (void)snprintf(why, size,
                           "key %s: it does not belong to the certificate %s: name the "
                           "key that the certificate was made for",
                           o->key, cert);
            return HF_E_INVALID_ARGUMENT;
        }
        return refuse_file(why, size, "key", o->key,
                           "it is not a private key in PEM without a passphrase: "
                           "'openssl pkey' writes one");
    }
    if (SSL_CTX_check_private_key(c->ssl) != 1 ||
        ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(c->ssl)), &tm) !=
            1) {
        (void)snprintf(why, size, "key %s: it does not belong to the certificate %s",
                       o->key, cert);
        return HF_E_INVALID_ARGUMENT;
    }
    c->expires = timegm(&tm);
    return HF_OK;
}

static int load_authorities(struct tls_context *c, const struct tls_options *o,
                            char *why, size_t size)
{
    if (o->ca != NULL && SSL_CTX_load_verify_file(c->ssl, o->ca) != 1) {
        return refuse_file(why, size, "authorities", o->ca,
                           "it holds no certificate in PEM");
    }
    if (o->ca == NULL && o->system_ca &&
        SSL_CTX_set_default_verify_paths(c->ssl) != 1) {
        (void)snprintf(why, size,
                       "the system's authorities cannot be read: name a file");
        return HF_E_INVALID_ARGUMENT;
    }
    return HF_OK;
}

static bool set_rules(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(ssl, CERTS_BYTES);
    SSL_CTX_set_verify_depth(ssl, CHAIN_DEPTH);
    SSL_CTX_set_msg_callback(ssl, on_message);
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    return SSL_CTX_set_num_tickets(ssl, 0) == 1 &&
           SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ssl, CIPHERS_12) == 1;
}

int tls_context_open(const struct tls_options *options, struct tls_context **out,
                     char *why, size_t size)
{
    struct tls_context *c = calloc(1, sizeof *c);
    int rc = HF_E_MEMORY_LOW;

    (void)snprintf(why, size, "out of memory");
    if (c == NULL) {
        return rc;
    }
    ERR_clear_error();
    atomic_init(&c->refs, 1);
    c->demand = options->demand;
    c->insecure = options->insecure;
    c->ends = ends_method();
    c->ssl = SSL_CTX_new(TLS_method());
    if (c->ends == NULL || c->ssl == NULL || !set_rules(c->ssl)) {
        goto fail;
    }
    rc = load_own(c, options, why, size);
    if (rc == HF_OK) {
        rc = load_authorities(c, options, why, size);
    }
    if (rc != HF_OK) {
        goto fail;
    }
    ERR_clear_error();
    *out = c;
    return HF_OK;

fail:
    ERR_clear_error();
    tls_context_close(c);
    return rc;
}

void tls_context_close(struct tls_context *c)
{
    if (c == NULL || atomic_fetch_sub(&c->refs, 1) > 1) {
        return;
    }
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->ends);
    free(c);
}

int64_t tls_context_expires(const struct tls_context *c)
{
    return c->expires;
}

/* ---- connections ---- */

static bool is_address(const char *name)
{
    struct in6_addr address;

    return inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

/* Whom we connect to must have a certificate for this name. */
static bool expect_name(struct tls *t, const char *name)
{
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    if (is_address(name)) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), name) == 1;
    }
    SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(t->ssl, name) == 1 &&
           SSL_set_tlsext_host_name(t->ssl, name) == 1;
}

static int verify_mode(const struct tls *t)
{
    if (t->end == TLS_CONNECT) {
        return t->context->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
    }
    switch (t->context->demand) {
    case TLS_DEMAND_OFFERED:
        return SSL_VERIFY_PEER;
    case TLS_DEMAND_ALWAYS:
        return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    default:
        return SSL_VERIFY_NONE;
    }
}

static void handshake(struct tls *t)
{
    int rc;

    ERR_clear_error();
    rc = SSL_do_handshake(t->ssl);
    if (rc == 1) {
        t->established = true;
    } else {
        (void)outcome(t, rc); /* stands in t->status */
    }
}

struct tls *tls_open(struct tls_context *c, enum tls_end end, const char *name)
{
    struct tls *t = calloc(1, sizeof *t);
    BIO *bio;

    if (t == NULL) {
        return NULL;
    }
    t->context = c;
    atomic_fetch_add(&c->refs, 1);
    t->end = end;
    t->ssl = SSL_new(c->ssl);
    bio = t->ssl != NULL ? BIO_new(c->ends) : NULL;
    if (bio == NULL) {
        goto fail;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_app_data(t->ssl, t);
    SSL_set_verify(t->ssl, verify_mode(t),
                   verify_mode(t) == SSL_VERIFY_NONE ? NULL : on_verified);
    if (end == TLS_ACCEPT) {
        SSL_set_accept_state(t->ssl);
        return t;
    }
    SSL_set_connect_state(t->ssl);
    if (name != NULL && !c->insecure && !expect_name(t, name)) {
        goto fail;
    }
    handshake(t);
    if (t->status == HF_OK) {
        return t;
    }

fail:
    ERR_clear_error();
    tls_close(t);
    return NULL;
}

void tls_close(struct tls *t)
{
    if (t == NULL) {
        return;
    }
    SSL_free(t->ssl);
    op_buffer_done(&t->out);
    tls_context_close(t->context);
    free(t);
}

void tls_feed(struct tls *t, const uint8_t *data, size_t len)
{
    CHECK(t->in.len == 0 || t->status != HF_OK);

    if (!t->heard && len > 0) {
        t->heard = true;
        t->plain = data[0] != RECORD_HANDSHAKE &&
                   (t->end == TLS_ACCEPT || data[0] != RECORD_ALERT);
    }
    if (!t->established && t->status == HF_OK) {
        if (t->plain) {
            (void)fail(t, HF_E_PROTOCOL,
                       t->end == TLS_ACCEPT ? "it does not speak TLS, as this port does"
                                            : "it does not speak TLS on this port");
        } else if (t->before_bytes > TLS_HANDSHAKE_BYTES) {
            (void)fail(t, HF_E_PROTOCOL, "its TLS handshake does not come to an end");
        }
        t->before_bytes += len;
    }
    t->in = slice_of(data, len);
}

int tls_read(struct tls *t, uint8_t *room, size_t capacity, size_t *n)
{
    int rc;

    CHECK(capacity > 0);

    *n = 0;
    if (t->status == HF_OK && !t->established) {
        handshake(t);
    }
    if (t->status != HF_OK || !t->established) {
        return t->status;
    }
    ERR_clear_error();
    rc = SSL_read_ex(t->ssl, room, capacity, n);
    if (t->key_updates > TLS_KEY_UPDATES) {
        *n = 0;
        return fail(t, HF_E_PROTOCOL, "it changes its keys too often");
    }
    if (rc == 1) {
        return HF_OK;
    }
    *n = 0;
    return outcome(t, rc);
}

int tls_write(struct tls *t, const void *data, size_t len)
{
    size_t n;
    int rc;

    CHECK(t->established);

    if (t->status != HF_OK && t->status != HF_E_CLOSED) {
        return t->status;
    }
    if (len == 0) {
        return HF_OK;
    }
    ERR_clear_error();
    rc = SSL_write_ex(t->ssl, data, len, &n);
    if (rc == 1) {
        CHECK(n == len);
        return HF_OK;
    }
    /* Our BIO takes everything, so this is for want of memory, or after tls_end. */
    return fail(t, t->out.failed ? HF_E_MEMORY_LOW : HF_E_CLOSED, "TLS has ended");
}

void tls_end(struct tls *t)
{
    if (t->established && (t->status == HF_OK || t->status == HF_E_CLOSED)) {
        ERR_clear_error();
        (void)SSL_shutdown(t->ssl); /* a courtesy: the stream ends in any case */
        ERR_clear_error();
    }
}

struct op_buffer *tls_out(struct tls *t)
{
    return &t->out;
}

bool tls_established(const struct tls *t)
{
    return t->established;
}

bool tls_knows_peer(const struct tls *t)
{
    return t->established && SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE &&
           SSL_get0_peer_certificate(t->ssl) != NULL &&
           SSL_get_verify_result(t->ssl) == X509_V_OK;
}

bool tls_is_plain(const struct tls *t)
{
    return t->plain;
}

const char *tls_why(const struct tls *t)
{
    return t->why;
}

size_t tls_bytes(const struct tls *t)
{
    return TLS_OBJECT_BYTES + t->out.capacity;
}
