/* fuzz_login.c: whatever a stranger says in a login, and whatever a node answers, is
 * refused or understood; nobody gets in without the password.
 *
 * Input: the first byte says who is spoken to, the rest is the message. */
#include "proto/check.h"
#include "proto/scram.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void first_to_server(struct slice message)
{
    struct scram_server s;
    struct scram_verifier verifier = {.iterations = 4096, .salt_len = 16};
    uint8_t nonce[SCRAM_NONCE_BYTES] = {1};
    uint8_t out[LIMIT_AUTH_PAYLOAD];

    if (scram_server_first(&s, message)) {
        CHECK(strlen(s.user) >= 1 && strlen(s.user) <= LIMIT_USER);
        CHECK(scram_server_challenge(&s, &verifier, nonce, out) <= LIMIT_AUTH_PAYLOAD);
        /* The verifier fits no password. */
        CHECK(scram_server_final(&s, message, out) == 0);
    }
}

static void final_to_server(struct slice message)
{
    struct scram_server s;
    struct scram_verifier verifier = {.iterations = 4096, .salt_len = 16};
    uint8_t nonce[SCRAM_NONCE_BYTES] = {1};
    uint8_t out[LIMIT_AUTH_PAYLOAD];

    CHECK(scram_server_first(&s, slice_text("n,,n=ann,r=12345678")));
    (void)scram_server_challenge(&s, &verifier, nonce, out);
    CHECK(scram_server_final(&s, message, out) == 0);
}

static void answer_to_client(struct slice message)
{
    /* The key of the salt in the corpus, so that none has to be derived. */
    struct scram_client c = {.nonce = "12345678", .bare = "n=ann,r=12345678"};
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    char why[128] = "";
    uint32_t salt_at = 0;

    /* Deriving takes a millisecond and more: only a few iterations are let through. */
    for (; salt_at + 3 < message.len; salt_at++) {
        if (memcmp(message.data + salt_at, ",i=", 3) == 0 &&
            (message.len - salt_at != 7 || message.data[salt_at + 3] != '4')) {
            return;
        }
    }
    if (scram_client_final(&c, slice_text("secret"), message, out, why, sizeof why) == 0) {
        CHECK(why[0] != '\0');
    }
    (void)scram_client_verify(&c, message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice message;

    if (size == 0) {
        return 0;
    }
    message = slice_of(data + 1, (uint32_t)(size - 1));
    switch (data[0] % 3) {
    case 0:
        first_to_server(message);
        break;
    case 1:
        final_to_server(message);
        break;
    default:
        answer_to_client(message);
        break;
    }
    return 0;
}
