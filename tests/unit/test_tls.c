/* test_tls.c: two ends in memory: what they say to each other, whom they refuse and in
 * which words, and bytes that nobody should send. */
#include "proto/tls.h"
#include "tests/lib/certificates.h"
#include "tests/lib/folder.h"
#include "tests/lib/probe.h"

#include <malloc.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define CHUNK_MAX (64u << 10)

struct fixture {
    char dir[FOLDER_BYTES];
    struct authority *ours;
    struct authority *others;
    struct certificate_files node;
    struct certificate_files client;
    struct certificate_files stranger; /* of the other authority */
    struct certificate_files expired;
};

/* One end and what came out of it. */
struct end {
    struct tls *tls;
    struct op_buffer got;
    int status; /* of the last read */
};

struct pair {
    struct end client;
    struct end server;
    size_t chunk; /* bytes carried at once */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct certificate_wish old = {.from_s = -20 * 86400, .until_s = -10 * 86400};

    folder_make(f->dir);
    f->ours = authority_make(f->dir, "ours");
    f->others = authority_make(f->dir, "others");
    f->node = authority_issue(f->ours, "node", NULL);
    f->client = authority_issue(f->ours, "client", NULL);
    f->stranger = authority_issue(f->others, "stranger", NULL);
    f->expired = authority_issue(f->ours, "expired", &old);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    authority_free(f->ours);
    authority_free(f->others);
    folder_remove(f->dir);
    free(f);
    return 0;
}

static struct tls_context *context(const struct tls_options *options)
{
    struct tls_context *c = NULL;
    char why[TLS_WHY] = "";
    int rc = tls_context_open(options, &c, why, sizeof why);

    if (rc != HF_OK) {
        fail_msg("%s", why);
    }
    return c;
}

/* Own certificate, and whom it trusts. */
static struct tls_context *context_of(const struct certificate_files *own,
                                      const struct authority *trusted,
                                      enum tls_demand demand)
{
    struct tls_options o = {.ca = authority_file(trusted), .demand = demand};

    if (own != NULL) {
        o.cert = own->cert;
        o.key = own->key;
    }
    return context(&o);
}

/* Takes both contexts. */
static struct pair *pair_of(struct tls_context *client, struct tls_context *server,
                            const char *name)
{
    struct pair *p = calloc(1, sizeof *p);

    p->client.tls = tls_open(client, TLS_CONNECT, name);
    p->server.tls = tls_open(server, TLS_ACCEPT, NULL);
    assert_non_null(p->client.tls);
    assert_non_null(p->server.tls);
    tls_context_close(client);
    tls_context_close(server);
    p->chunk = CHUNK_MAX;
    return p;
}

static void pair_free(struct pair *p)
{
    tls_close(p->client.tls);
    tls_close(p->server.tls);
    op_buffer_done(&p->client.got);
    op_buffer_done(&p->server.got);
    free(p);
}

/* Read as long as something comes. */
static void drain(struct end *e)
{
    uint8_t room[5000];
    size_t n;

    do {
        e->status = tls_read(e->tls, room, sizeof room, &n);
        op_buffer_append(&e->got, room, n);
        assert_true(e->status == HF_OK || n == 0);
    } while (n > 0);
}

/* Bytes that come from nobody in particular: a copy, so that a read beyond them is
 * found. */
static void give(struct end *e, const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);

    if (len > 0) {
        memcpy(copy, data, len);
    }
    tls_feed(e->tls, copy, len);
    drain(e);
    free(copy);
}

static bool carry(struct end *from, struct end *to, size_t chunk)
{
    struct op_buffer moved = *tls_out(from->tls);
    bool any = moved.len > 0;

    memset(tls_out(from->tls), 0, sizeof moved);
    for (size_t at = 0; at < moved.len; at += chunk) {
        give(to, moved.data + at, moved.len - at < chunk ? moved.len - at : chunk);
    }
    op_buffer_done(&moved);
    return any;
}

/* Until both are silent. */
static void pump(struct pair *p)
{
    bool any;

    do {
        any = carry(&p->client, &p->server, p->chunk);
        any = carry(&p->server, &p->client, p->chunk) || any;
    } while (any);
}

static void assert_talk(struct pair *p)
{
    pump(p);
    assert_true(tls_established(p->client.tls));
    assert_true(tls_established(p->server.tls));
    assert_int_equal(tls_write(p->client.tls, "question", 8), HF_OK);
    assert_int_equal(tls_write(p->server.tls, "answer", 6), HF_OK);
    pump(p);
    assert_int_equal(p->server.got.len, 8);
    assert_memory_equal(p->server.got.data, "question", 8);
    assert_int_equal(p->client.got.len, 6);
    assert_memory_equal(p->client.got.data, "answer", 6);
    assert_string_equal(tls_why(p->client.tls), "");
}

static void assert_says(const struct end *e, int status, const char *text)
{
    assert_int_equal(e->status, status);
    if (strstr(tls_why(e->tls), text) == NULL) {
        fail_msg("'%s' does not say '%s'", tls_why(e->tls), text);
    }
}

/* ---- talking ---- */

/* Whatever the pieces in which the bytes arrive, and however long the messages. */
static void what_goes_in_comes_out(void **state)
{
    static const size_t chunks[] = {1, 7, 1000, CHUNK_MAX};
    static const size_t lengths[] = {1, 16384, 16385, 300000};
    struct fixture *f = *state;
    uint8_t *sent = malloc(300000);

    for (size_t i = 0; i < 300000; i++) {
        sent[i] = (uint8_t)(i * 31 >> 3);
    }
    for (size_t i = 0; i < 4; i++) {
        struct pair *p =
            pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                    context_of(&f->node, f->ours, TLS_DEMAND_NONE), "localhost");
        size_t total = 0;

        p->chunk = chunks[i];
        pump(p);
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(tls_write(p->client.tls, sent, lengths[k]), HF_OK);
            assert_int_equal(tls_write(p->server.tls, sent, lengths[k]), HF_OK);
            pump(p);
            assert_int_equal(p->client.got.len, total + lengths[k]);
            assert_int_equal(p->server.got.len, total + lengths[k]);
            assert_memory_equal(p->client.got.data + total, sent, lengths[k]);
            assert_memory_equal(p->server.got.data + total, sent, lengths[k]);
            total += lengths[k];
        }
        pair_free(p);
    }
    free(sent);
}

/* The end of a stream is told apart from a connection that breaks. */
static void an_end_is_told(void **state)
{
    struct fixture *f = *state;
    struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                             context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);

    assert_talk(p);
    tls_end(p->client.tls);
    pump(p);
    assert_int_equal(p->server.status, HF_E_CLOSED);
    assert_int_equal(tls_write(p->server.tls, "last words", 10), HF_OK);
    pump(p);
    assert_int_equal(p->client.got.len, 16);
    pair_free(p);
}

/* ---- whom the client refuses ---- */

static struct pair *meet(struct fixture *f, const struct certificate_files *server,
                         const char *name)
{
    struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                             context_of(server, f->ours, TLS_DEMAND_NONE), name);

    pump(p);
    return p;
}

static void another_authority_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pair *p = meet(f, &f->stranger, "localhost");

    assert_says(
        &p->client, HF_E_AUTH_FAILED,
        "its certificate (CN=stranger) is from an authority that is not trusted "
        "here (CN=others)");
    assert_says(&p->server, HF_E_AUTH_FAILED,
                "does not trust the authority of this end's certificate");
    assert_false(tls_established(p->client.tls));
    assert_int_equal(p->client.got.len, 0);
    pair_free(p);
}

static void an_expired_certificate_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pair *p = meet(f, &f->expired, "localhost");

    assert_says(&p->client, HF_E_AUTH_FAILED,
                "its certificate (CN=expired) expired on 2");
    assert_says(&p->server, HF_E_AUTH_FAILED, "this end's certificate has expired");
    pair_free(p);
}

static void a_certificate_of_the_future_is_refused(void **state)
{
    struct fixture *f = *state;
    struct certificate_wish wish = {.from_s = 3600, .until_s = 7200};
    struct certificate_files early = authority_issue(f->ours, "early", &wish);
    struct pair *p = meet(f, &early, "localhost");

    assert_says(&p->client, HF_E_AUTH_FAILED, "(CN=early) is valid only from 2");
    pair_free(p);
}

static void a_certificate_is_for_its_names_only(void **state)
{
    static const struct {
        const char *name;
        bool fits;
    } cases[] = {{"a.example", true},      {"b.example", false},  {"10.0.0.1", true},
                 {"10.0.0.2", false},      {"x.w.example", true}, {"w.example", false},
                 {"y.x.w.example", false}, {"fd00::1", true},     {"A.Example", true}};
    struct fixture *f = *state;
    struct certificate_wish wish = {
        .names = "DNS:a.example,DNS:*.w.example,IP:10.0.0.1,IP:fd00::1"};
    struct certificate_files named = authority_issue(f->ours, "named", &wish);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair *p = meet(f, &named, cases[i].name);

        if (cases[i].fits) {
            assert_talk(p);
        } else {
            char text[200];

            (void)snprintf(
                text, sizeof text,
                "its certificate (CN=named) is not for %s but for a.example, "
                "*.w.example, 10.0.0.1, fd00::1",
                cases[i].name);
            assert_says(&p->client, HF_E_AUTH_FAILED, text);
        }
        pair_free(p);
    }
}

static void a_certificate_of_a_client_is_none_of_a_server(void **state)
{
    struct fixture *f = *state;
    struct certificate_wish wish = {.usage = "clientAuth"};
    struct certificate_files only = authority_issue(f->ours, "only", &wish);
    struct pair *p = meet(f, &only, "localhost");

    assert_says(&p->client, HF_E_AUTH_FAILED, "(CN=only) may not be used by a server");
    pair_free(p);
}

static void insecure_takes_anybody(void **state)
{
    struct fixture *f = *state;
    struct tls_options o = {.ca = authority_file(f->ours), .insecure = true};
    struct pair *p =
        pair_of(context(&o), context_of(&f->stranger, f->ours, TLS_DEMAND_NONE), "x");

    assert_talk(p);
    pair_free(p);
}

/* ---- whom the server refuses ---- */

static struct pair *visit(struct fixture *f, const struct certificate_files *client,
                          enum tls_demand demand)
{
    struct pair *p = pair_of(context_of(client, f->ours, TLS_DEMAND_NONE),
                             context_of(&f->node, f->ours, demand), "localhost");

    pump(p);
    return p;
}

static void a_client_certificate_is_verified(void **state)
{
    struct fixture *f = *state;
    struct certificate_wish wish = {.usage = "serverAuth"};
    struct certificate_files only = authority_issue(f->ours, "only", &wish);
    const struct {
        const struct certificate_files *client;
        const char *server_says;
        const char *client_says;
    } cases[] = {
        {NULL, "it shows no certificate, and one is required",
         "it requires a certificate from this end"},
        {&f->stranger, "(CN=stranger) is from an authority that is not trusted here",
         "it does not trust the authority of this end's certificate"},
        {&f->expired, "(CN=expired) expired on", "certificate has expired"},
        {&only, "(CN=only) may not be used by a client", "may not be used for that"},
    };
    struct pair *p = visit(f, &f->client, TLS_DEMAND_ALWAYS);

    assert_talk(p);
    pair_free(p);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        p = visit(f, cases[i].client, TLS_DEMAND_ALWAYS);
        assert_says(&p->server, HF_E_AUTH_FAILED, cases[i].server_says);
        assert_says(&p->client, HF_E_AUTH_FAILED, cases[i].client_says);
        assert_false(tls_established(p->server.tls));
        pair_free(p);
    }
}

static void what_is_offered_is_verified_and_not_required(void **state)
{
    struct fixture *f = *state;
    struct pair *p = visit(f, NULL, TLS_DEMAND_OFFERED);

    assert_talk(p);
    pair_free(p);
    p = visit(f, &f->client, TLS_DEMAND_OFFERED);
    assert_talk(p);
    pair_free(p);
    p = visit(f, &f->stranger, TLS_DEMAND_OFFERED);
    assert_says(&p->server, HF_E_AUTH_FAILED, "CN=stranger");
    pair_free(p);
    p = visit(f, &f->stranger, TLS_DEMAND_NONE);
    assert_talk(p);
    pair_free(p);
}

/* ---- bytes that are none ---- */

static void plain_text_is_told_apart(void **state)
{
    struct fixture *f = *state;
    struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                             context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);

    give(&p->server, "\0\0\0\x09whatever", 12);
    assert_says(&p->server, HF_E_PROTOCOL, "it does not speak TLS, as this port does");
    assert_true(tls_is_plain(p->server.tls));
    give(&p->client, "HFN1", 4);
    assert_says(&p->client, HF_E_PROTOCOL, "it does not speak TLS on this port");
    assert_true(tls_is_plain(p->client.tls));
    pair_free(p);
}

/* A handshake that breaks off anywhere is no failure yet, and nothing is believed. */
static void a_truncated_handshake_waits(void **state)
{
    struct fixture *f = *state;

    for (size_t keep = 0; keep < 3000; keep += 37) {
        struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                                 context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);
        struct op_buffer *out = tls_out(p->server.tls);

        (void)carry(&p->client, &p->server, 100);
        assert_int_equal(p->server.status, HF_OK);
        if (keep >= out->len) {
            pair_free(p);
            break;
        }
        give(&p->client, out->data, keep);
        assert_int_equal(p->client.status, HF_OK);
        assert_false(tls_established(p->client.tls));
        pair_free(p);
    }
}

/* One bit that flips on the way: no end takes the connection for a good one. */
static void a_changed_handshake_is_noticed(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = probe_seed();

    for (int round = 0; round < 200; round++) {
        struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                                 context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);
        struct end *from = round % 2 == 0 ? &p->client : &p->server;
        struct op_buffer *out = tls_out(from->tls);

        if (round % 2 == 1) {
            (void)carry(&p->client, &p->server, CHUNK_MAX);
        }
        out->data[probe_random(&seed) % out->len] ^=
            (uint8_t)(1u << probe_random(&seed) % 8);
        pump(p);
        /* The record's own version number is not protected in TLS 1.3. */
        if (tls_established(p->client.tls) && tls_established(p->server.tls)) {
            assert_talk(p);
        }
        pair_free(p);
    }
}

static void a_changed_record_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                             context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);
    struct op_buffer *out = tls_out(p->client.tls);

    assert_talk(p);
    assert_int_equal(tls_write(p->client.tls, "money", 5), HF_OK);
    out->data[out->len - 3] ^= 1;
    pump(p);
    assert_int_equal(p->server.status, HF_E_PROTOCOL);
    assert_int_equal(p->server.got.len, 8); /* the question, and nothing more */
    assert_int_equal(tls_write(p->server.tls, "x", 1), HF_E_PROTOCOL);
    pair_free(p);
}

static void noise_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = probe_seed();
    uint8_t noise[4096];

    for (int round = 0; round < 500; round++) {
        struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                                 context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);
        struct end *e = round % 2 == 0 ? &p->client : &p->server;

        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (uint8_t)probe_random(&seed);
        }
        if (round % 4 < 2) {
            memcpy(noise, "\x16\x03\x03\x02\x00", 5); /* a record of 512 bytes */
        }
        give(e, noise, sizeof noise);
        assert_false(tls_established(e->tls));
        assert_true(round % 4 >= 2 || e->status == HF_E_PROTOCOL);
        pair_free(p);
    }
}

/* Somebody who talks for ever before the handshake is done: bounded. */
static void an_endless_handshake_ends(void **state)
{
    static const uint8_t fragment[] = {0x16, 3, 1, 0, 1, 0}; /* one byte of a message */
    static const uint8_t begin[] = {0x16, 3, 1, 0, 4, 1, 1, 0, 0}; /* of 64 KiB */
    struct fixture *f = *state;
    struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                             context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);
    size_t fed = sizeof begin;

    give(&p->server, begin, sizeof begin);
    assert_int_equal(p->server.status, HF_OK);
    while (p->server.status == HF_OK && fed < 10 * TLS_HANDSHAKE_BYTES) {
        give(&p->server, fragment, sizeof fragment);
        fed += sizeof fragment;
    }
    assert_int_equal(p->server.status, HF_E_PROTOCOL);
    assert_true(fed <= TLS_HANDSHAKE_BYTES + 64);
    pair_free(p);
}

/* ---- peers that know OpenSSL better than tls.c ---- */

/* A client of OpenSSL's own, between memory BIOs. */
struct raw {
    SSL_CTX *ctx;
    SSL *ssl;
    struct end server;
};

static struct raw raw_open(struct fixture *f, int version)
{
    struct raw r = {.ctx = SSL_CTX_new(TLS_method())};
    struct tls_context *c = context_of(&f->node, f->ours, TLS_DEMAND_NONE);

    SSL_CTX_set_security_level(r.ctx, 0);
    assert_int_equal(SSL_CTX_set_min_proto_version(r.ctx, version), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(r.ctx, version), 1);
    r.ssl = SSL_new(r.ctx);
    SSL_set_bio(r.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(r.ssl);
    r.server.tls = tls_open(c, TLS_ACCEPT, NULL);
    tls_context_close(c);
    return r;
}

static void raw_close(struct raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->ctx);
    tls_close(r->server.tls);
    op_buffer_done(&r->server.got);
}

/* What the client has to say to the server, and back. */
static void raw_pump(struct raw *r)
{
    uint8_t bytes[4096];
    char room[4096];
    int n, turn;

    for (turn = 0; turn < 8; turn++) {
        (void)SSL_read(r->ssl, room, sizeof room); /* also does the handshake */
        while ((n = BIO_read(SSL_get_wbio(r->ssl), bytes, sizeof bytes)) > 0) {
            give(&r->server, bytes, (size_t)n);
        }
        if (tls_out(r->server.tls)->len > 0) {
            BIO_write(SSL_get_rbio(r->ssl), tls_out(r->server.tls)->data,
                      (int)tls_out(r->server.tls)->len);
            tls_out(r->server.tls)->len = 0;
        }
    }
}

static void old_versions_are_refused(void **state)
{
    struct fixture *f = *state;
    struct raw r = raw_open(f, TLS1_1_VERSION);

    raw_pump(&r);
    assert_int_equal(r.server.status, HF_E_PROTOCOL);
    raw_close(&r);
    r = raw_open(f, TLS1_2_VERSION);
    raw_pump(&r);
    assert_true(tls_established(r.server.tls));
    assert_int_equal(SSL_write(r.ssl, "old", 3), 3);
    raw_pump(&r);
    assert_int_equal(r.server.got.len, 3);
    raw_close(&r);
}

/* All that a client gets for the wish to negotiate anew is an alert. */
static void nothing_is_renegotiated(void **state)
{
    struct fixture *f = *state;
    struct raw r = raw_open(f, TLS1_2_VERSION);
    uint8_t bytes[4096];
    int n;

    raw_pump(&r);
    assert_true(tls_established(r.server.tls));
    (void)SSL_renegotiate(r.ssl);
    (void)SSL_do_handshake(r.ssl);
    n = BIO_read(SSL_get_wbio(r.ssl), bytes, sizeof bytes);
    assert_true(n > 100);
    give(&r.server, bytes, (size_t)n);
    assert_in_range(tls_out(r.server.tls)->len, 1, 64);
    raw_close(&r);
}

/* Each change of keys that a client asks for costs an answer, no longer than what came,
 * and much work: there are not many. */
static void changes_of_keys_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct raw r = raw_open(f, TLS1_3_VERSION);
    size_t fed = 0, said;
    unsigned updates = 0;

    raw_pump(&r);
    assert_true(tls_established(r.server.tls));
    said = tls_out(r.server.tls)->len;
    for (unsigned i = 0; i < 2 * TLS_KEY_UPDATES && r.server.status == HF_OK; i++) {
        uint8_t bytes[4096];
        int n;

        if (SSL_key_update(r.ssl, SSL_KEY_UPDATE_REQUESTED) != 1 ||
            SSL_do_handshake(r.ssl) != 1) {
            break;
        }
        while ((n = BIO_read(SSL_get_wbio(r.ssl), bytes, sizeof bytes)) > 0) {
            give(&r.server, bytes, (size_t)n);
            fed += (size_t)n;
        }
        updates++;
    }
    assert_int_equal(updates, TLS_KEY_UPDATES + 1);
    assert_says(&r.server, HF_E_PROTOCOL, "it changes its keys too often");
    assert_true(fed > 1000);
    assert_true(tls_out(r.server.tls)->len > said); /* it does answer */
    assert_true(tls_out(r.server.tls)->len - said <= fed);
    raw_close(&r);
}

/* A record longer than any may be. */
static void an_oversized_record_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pair *p = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE),
                             context_of(&f->node, f->ours, TLS_DEMAND_NONE), NULL);
    static const uint8_t head[] = {0x17, 3, 3, 0xff, 0xff};

    assert_talk(p);
    give(&p->server, head, sizeof head);
    assert_int_equal(p->server.status, HF_E_PROTOCOL);
    assert_true(strlen(tls_why(p->server.tls)) > 0);
    pair_free(p);
}

/* ---- files ---- */

static void assert_unusable(const struct tls_options *o, const char *text)
{
    struct tls_context *c = NULL;
    char why[TLS_WHY] = "";

    assert_int_equal(tls_context_open(o, &c, why, sizeof why), HF_E_INVALID_ARGUMENT);
    assert_null(c);
    if (strstr(why, text) == NULL) {
        fail_msg("'%s' does not say '%s'", why, text);
    }
}

static void bad_files_are_told(void **state)
{
    struct fixture *f = *state;
    struct certificate_wish wish = {.passphrase = "open sesame"};
    struct certificate_files locked = authority_issue(f->ours, "locked", &wish);
    const char *node = f->node.cert;
    const char *key = f->node.key;
    char empty[CERTIFICATE_PATH];
    FILE *file;

    (void)snprintf(empty, sizeof empty, "%s/empty", f->dir);
    file = fopen(empty, "w");
    fclose(file);
    assert_unusable(&(struct tls_options){.cert = "/none/x.crt", .key = key},
                    "certificate /none/x.crt: No such file or directory");
    assert_unusable(&(struct tls_options){.cert = node, .key = "/none/x.key"},
                    "key /none/x.key: No such file");
    assert_unusable(&(struct tls_options){.cert = node, .key = key, .ca = "/none/ca"},
                    "authorities /none/ca: No such file");
    assert_unusable(&(struct tls_options){.cert = node}, "name both");
    assert_unusable(&(struct tls_options){.key = key}, "name both");
    assert_unusable(&(struct tls_options){.cert = empty, .key = key}, "not in PEM");
    assert_unusable(&(struct tls_options){.cert = key, .key = key}, "not in PEM");
    assert_unusable(&(struct tls_options){.cert = node, .key = node},
                    "private key in PEM");
    assert_unusable(&(struct tls_options){.cert = node, .key = key, .ca = empty},
                    "holds no certificate");
    assert_unusable(&(struct tls_options){.cert = node, .key = f->client.key},
                    "does not belong to the certificate");
    assert_unusable(&(struct tls_options){.cert = locked.cert, .key = locked.key},
                    "without a passphrase");
}

/* New files count for new connections; the old ones go on. */
static void a_context_is_replaced_while_connections_live(void **state)
{
    struct fixture *f = *state;
    struct certificate_files files = authority_issue(f->ours, "renewed", NULL);
    struct tls_context *first = context_of(&files, f->ours, TLS_DEMAND_NONE);
    int64_t expires = tls_context_expires(first);
    struct pair *old = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE), first, NULL);
    struct certificate_wish longer = {.until_s = 10 * 86400};
    struct tls_context *second;
    struct pair *fresh;

    pump(old);
    files = authority_issue(f->ours, "renewed", &longer);
    second = context_of(&files, f->ours, TLS_DEMAND_NONE);
    assert_in_range(tls_context_expires(second) - expires, 9 * 86400 - 60,
                    9 * 86400 + 60);
    fresh = pair_of(context_of(NULL, f->ours, TLS_DEMAND_NONE), second, NULL);
    assert_talk(fresh);
    assert_talk(old);
    pair_free(old);
    pair_free(fresh);
}

/* What a quiet connection holds is what tls_bytes says. */
static void memory_is_what_is_said(void **state)
{
    enum { COUNT = 100 };
    struct fixture *f = *state;
    struct tls_context *server = context_of(&f->node, f->ours, TLS_DEMAND_NONE);
    struct tls_context *client = context_of(NULL, f->ours, TLS_DEMAND_NONE);
    struct tls *kept[COUNT];
    size_t before = 0, each;

    for (int i = 0; i < COUNT; i++) {
        struct pair p = {.chunk = CHUNK_MAX};

        if (i == COUNT / 2) {
            before = mallinfo2().uordblks; /* whatever is made once has been made */
        }
        p.client.tls = tls_open(client, TLS_CONNECT, NULL);
        p.server.tls = tls_open(server, TLS_ACCEPT, NULL);
        assert_talk(&p);
        op_buffer_done(&p.client.got);
        op_buffer_done(&p.server.got);
        op_buffer_done(tls_out(p.server.tls));
        tls_close(p.client.tls);
        kept[i] = p.server.tls;
    }
    each = (mallinfo2().uordblks - before) / (COUNT / 2);
    print_message("a quiet connection holds %zu bytes\n", each);
    assert_int_equal(tls_bytes(kept[0]), TLS_OBJECT_BYTES);
    assert_true(each == 0 ||
                (each < TLS_OBJECT_BYTES * 3 / 2 && each > TLS_OBJECT_BYTES / 4));
    for (int i = 0; i < COUNT; i++) {
        tls_close(kept[i]);
    }
    tls_context_close(server);
    tls_context_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(an_end_is_told),
        cmocka_unit_test(another_authority_is_refused),
        cmocka_unit_test(an_expired_certificate_is_refused),
        cmocka_unit_test(a_certificate_of_the_future_is_refused),
        cmocka_unit_test(a_certificate_is_for_its_names_only),
        cmocka_unit_test(a_certificate_of_a_client_is_none_of_a_server),
        cmocka_unit_test(insecure_takes_anybody),
        cmocka_unit_test(a_client_certificate_is_verified),
        cmocka_unit_test(what_is_offered_is_verified_and_not_required),
        cmocka_unit_test(plain_text_is_told_apart),
        cmocka_unit_test(a_truncated_handshake_waits),
        cmocka_unit_test(a_changed_handshake_is_noticed),
        cmocka_unit_test(a_changed_record_ends_the_connection),
        cmocka_unit_test(noise_is_refused),
        cmocka_unit_test(an_endless_handshake_ends),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(nothing_is_renegotiated),
        cmocka_unit_test(changes_of_keys_are_bounded),
        cmocka_unit_test(an_oversized_record_is_refused),
        cmocka_unit_test(bad_files_are_told),
        cmocka_unit_test(a_context_is_replaced_while_connections_live),
        cmocka_unit_test(memory_is_what_is_said),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
