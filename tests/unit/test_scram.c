/* test_scram.c: both sides of SCRAM-SHA-256, against each other and the example of
 * RFC 7677. */
#include "proto/scram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct slice message_of(const uint8_t *data, uint32_t len)
{
    return slice_of(data, len);
}

/* Section 3 of RFC 7677. */
static void the_example_of_rfc_7677(void **state)
{
    static const char first[] =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    static const char expected[] =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    struct scram_client c = {.nonce = "rOprNGfwEbeRWgbNEkqO",
                             .bare = "n=user,r=rOprNGfwEbeRWgbNEkqO"};
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    char why[128] = "";
    uint32_t len;

    (void)state;
    len = scram_client_final(&c, slice_text("pencil"), slice_text(first), out, why,
                             sizeof why);
    assert_true(slice_equal(message_of(out, len), slice_text(expected)));
    assert_true(scram_client_verify(
        &c, slice_text("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")));
    assert_false(scram_client_verify(
        &c, slice_text("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=")));
}

/* A whole exchange; true: the server believes the client, and the client the server. */
static bool exchange(const struct scram_verifier *verifier, const char *password,
                     struct scram_client *c)
{
    uint8_t nonce[SCRAM_NONCE_BYTES];
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    uint8_t back[LIMIT_AUTH_PAYLOAD];
    struct scram_server s;
    char why[128];
    uint32_t len;

    len = scram_client_first(c, slice_text("ann"), out);
    assert_true(len > 0);
    assert_true(scram_server_first(&s, message_of(out, len)));
    assert_string_equal(s.user, "ann");
    assert_true(secret_random(nonce, sizeof nonce));
    len = scram_server_challenge(&s, verifier, nonce, back);
    len = scram_client_final(c, slice_text(password), message_of(back, len), out, why,
                             sizeof why);
    assert_true(len > 0);
    len = scram_server_final(&s, message_of(out, len), back);
    return len > 0 && scram_client_verify(c, message_of(back, len));
}

static void the_right_password_and_no_other(void **state)
{
    struct scram_keys keys;
    struct scram_client c = {.nonce = ""};

    (void)state;
    assert_true(scram_new_password(slice_text("secret"), &keys));
    assert_int_equal(keys.verifier.iterations, SCRAM_ITERATIONS);
    assert_true(exchange(&keys.verifier, "secret", &c));
    assert_true(exchange(&keys.verifier, "secret", &c)); /* with the keys of before */
    memset(&c, 0, sizeof c);
    assert_false(exchange(&keys.verifier, "Secret", &c));
    memset(&c, 0, sizeof c);
    assert_false(exchange(&keys.verifier, "", &c));
    /* Another salt: the keys of before are not of use. */
    memset(&c, 0, sizeof c);
    assert_true(exchange(&keys.verifier, "secret", &c));
    assert_true(scram_new_password(slice_text("secret"), &keys));
    assert_true(exchange(&keys.verifier, "secret", &c));
}

/* A server that only pretends to know the password is noticed. */
static void a_server_has_to_prove_itself(void **state)
{
    struct scram_keys keys;
    struct scram_keys other;
    struct scram_client c = {.nonce = ""};

    (void)state;
    assert_true(scram_new_password(slice_text("secret"), &keys));
    assert_true(scram_new_password(slice_text("other"), &other));
    memcpy(keys.verifier.server_key, other.verifier.server_key, SECRET_HASH_BYTES);
    assert_false(exchange(&keys.verifier, "secret", &c));
}

static void malformed_messages_are_refused(void **state)
{
    static const char *const firsts[] = {
        "",           "n",          "n,,",           "n,,n=ann",
        "y,,n=ann,r=12345678", "n,a=x,n=ann,r=12345678", "n,,n=,r=12345678",
        "n,,n=a=2Cb,r=12345678", "n,,n=ann,r=", "n,,n=ann,r=1234567", "n,,r=12345678",
        "p=tls-unique,,n=ann,r=12345678", "n,,m=x,n=ann,r=12345678"};
    static const char *const challenges[] = {
        "",
        "r=other12345678,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999999",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=900000000",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=,i=4096",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=AAAA,i=4096",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=W22Za=0SNY7soEsUEjb6gQ==,i=4096",
        "r=rOprNGfwEbeRWgbNEkqOxx,s=W22ZaJ0SNY7soEsUEjb6gQ=,i=4096",
        "r=rOprNGfwEbeRWgbNEkqOxx,i=4096"};
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    struct scram_server s;

    (void)state;
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        assert_false(scram_server_first(&s, slice_text(firsts[i])));
    }
    assert_true(scram_server_first(&s, slice_text("n,,n=ann,r=12345678")));
    for (size_t i = 0; i < sizeof challenges / sizeof challenges[0]; i++) {
        struct scram_client c = {.nonce = "rOprNGfwEbeRWgbNEkqO",
                                 .bare = "n=user,r=rOprNGfwEbeRWgbNEkqO"};
        char why[128] = "";

        assert_int_equal(scram_client_final(&c, slice_text("pencil"),
                                            slice_text(challenges[i]), out, why,
                                            sizeof why),
                         0);
        assert_true(why[0] != '\0');
    }
}

/* Whatever is changed of a proof, it proves nothing. */
static void altered_proofs_are_refused(void **state)
{
    struct scram_keys keys = {.verifier = {.iterations = 4096, .salt_len = 16}};
    uint8_t nonce[SCRAM_NONCE_BYTES] = {7};
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    uint8_t back[LIMIT_AUTH_PAYLOAD];
    struct scram_client c = {.nonce = ""};
    struct scram_server s;
    char why[128];
    uint32_t len;

    (void)state;
    assert_true(scram_derive(slice_text("secret"), &keys));
    len = scram_client_first(&c, slice_text("ann"), out);
    assert_true(scram_server_first(&s, message_of(out, len)));
    len = scram_server_challenge(&s, &keys.verifier, nonce, back);
    len = scram_client_final(&c, slice_text("secret"), message_of(back, len), out, why,
                             sizeof why);
    assert_true(scram_server_final(&s, message_of(out, len), back) > 0);
    for (uint32_t i = 0; i < len; i++) {
        uint8_t changed[LIMIT_AUTH_PAYLOAD];

        memcpy(changed, out, len);
        for (unsigned bit = 0; bit < 8; bit++) {
            changed[i] = out[i] ^ (uint8_t)(1u << bit);
            assert_int_equal(scram_server_final(&s, message_of(changed, len), back), 0);
        }
        assert_int_equal(scram_server_final(&s, message_of(out, i), back), 0);
    }
}

static void base64_goes_both_ways(void **state)
{
    static const char *const bad[] = {"", "A", "AA", "AAA", "A===", "====", "AA=A",
                                      " AAA", "AAA ", "AA\nA", "AAAA="};
    uint8_t bytes[48];
    uint8_t back[48];
    char text[secret_base64_len(48) + 1];
    uint32_t len;

    (void)state;
    assert_true(secret_random(bytes, sizeof bytes));
    for (uint32_t n = 1; n <= sizeof bytes; n++) {
        secret_base64(slice_of(bytes, n), text);
        assert_true(secret_from_base64(slice_text(text), back, sizeof back, &len));
        assert_int_equal(len, n);
        assert_memory_equal(bytes, back, n);
        assert_false(secret_from_base64(slice_text(text), back, n - 1, &len));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(secret_from_base64(slice_text(bad[i]), back, sizeof back, &len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_rfc_7677),
        cmocka_unit_test(the_right_password_and_no_other),
        cmocka_unit_test(a_server_has_to_prove_itself),
        cmocka_unit_test(malformed_messages_are_refused),
        cmocka_unit_test(altered_proofs_are_refused),
        cmocka_unit_test(base64_goes_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
