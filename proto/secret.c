/* secret.c: see secret.h. */
#include "proto/secret.h"

#include "proto/check.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

bool secret_random(uint8_t *out, size_t len)
{
    return RAND_bytes(out, (int)len) == 1;
}

void secret_hash(struct slice text, uint8_t out[SECRET_HASH_BYTES])
{
    unsigned len = SECRET_HASH_BYTES;

    CHECK(EVP_Digest(text.data, text.len, out, &len, EVP_sha256(), NULL) == 1);
}

void secret_hmac(struct slice key, struct slice text, uint8_t out[SECRET_HASH_BYTES])
{
    unsigned len = SECRET_HASH_BYTES;

    CHECK(HMAC(EVP_sha256(), key.data, (int)key.len, text.data, text.len, out, &len) !=
          NULL);
}

bool secret_stretch(struct slice password, struct slice salt, uint32_t iterations,
                    uint8_t out[SECRET_HASH_BYTES])
{
    return PKCS5_PBKDF2_HMAC((const char *)password.data, (int)password.len, salt.data,
                             (int)salt.len, (int)iterations, EVP_sha256(),
                             SECRET_HASH_BYTES, out) == 1;
}

bool secret_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void secret_wipe(void *at, size_t len)
{
    OPENSSL_cleanse(at, len);
}

void secret_base64(struct slice bytes, char *out)
{
    out[0] = '\0';
    (void)EVP_EncodeBlock((unsigned char *)out, bytes.data, (int)bytes.len);
}

/* EVP_DecodeBlock takes white space at the ends, and counts padding as bytes. */
static bool is_base64(struct slice text)
{
    uint32_t padding = 0;

    if (text.len == 0 || text.len % 4 != 0) {
        return false;
    }
    for (uint32_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (c == '=') {
            padding++;
        } else if (padding > 0 ||
                   !((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     (c >= '0' && c <= '9') || c == '+' || c == '/')) {
            return false;
        }
    }
    return padding <= 2;
}

bool secret_from_base64(struct slice text, uint8_t *out, size_t size, uint32_t *len)
{
    uint8_t room[768];
    char again[secret_base64_len(sizeof room) + 1];
    int n;

    if (!is_base64(text) || text.len / 4 * 3 > sizeof room) {
        return false;
    }
    n = EVP_DecodeBlock(room, text.data, (int)text.len);
    if (n < 0) {
        return false;
    }
    n -= text.data[text.len - 1] == '=';
    n -= text.data[text.len - 2] == '=';
    if ((size_t)n > size) {
        return false;
    }
    /* Bits that stand for nothing must be 0: one text for each value. */
    secret_base64(slice_of(room, (uint32_t)n), again);
    if (memcmp(again, text.data, text.len) != 0) {
        return false;
    }
    memcpy(out, room, (size_t)n);
    *len = (uint32_t)n;
    return true;
}
