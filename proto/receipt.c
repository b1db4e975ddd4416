/* receipt.c: message ids and receipts: their bytes and their printed forms. */
#include "proto/receipt.h"
#include "proto/crc32c.h"

#include <stddef.h>

#define RECEIPT_VERSION 1u
#define RECEIPT_CHECKED 27u /* bytes before the check code */

static void put_be(uint8_t *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i > 0; i--) {
        p[i - 1] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t get_be(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | p[i];
    }
    return value;
}

static void hex_format(const uint8_t *bytes, size_t len, char *text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 0x0f];
    }
    text[2 * len] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Exactly 2 * len digits and the end of the text. */
static bool hex_parse(const char *text, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * len] == '\0';
}

void message_id_pack(struct message_id id, uint8_t bytes[MESSAGE_ID_BYTES])
{
    put_be(bytes, id.high, 8);
    put_be(bytes + 8, id.low, 8);
}

struct message_id message_id_unpack(const uint8_t bytes[MESSAGE_ID_BYTES])
{
    return (struct message_id){.high = get_be(bytes, 8), .low = get_be(bytes + 8, 8)};
}

void message_id_format(struct message_id id, char text[MESSAGE_ID_TEXT])
{
    uint8_t bytes[MESSAGE_ID_BYTES];

    message_id_pack(id, bytes);
    hex_format(bytes, sizeof bytes, text);
}

static int alias_parse(const char *text, struct message_id *id)
{
    uint64_t value = 0;

    if (*text == '\0') {
        return HF_E_INVALID_ARGUMENT;
    }
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (*text < '0' || *text > '9' || value > (UINT64_MAX - digit) / 10) {
            return HF_E_INVALID_ARGUMENT;
        }
        value = value * 10 + digit;
    }
    *id = (struct message_id){.low = value};
    return HF_OK;
}

int message_id_parse(const char *text, struct message_id *id)
{
    uint8_t bytes[MESSAGE_ID_BYTES];

    if (strlen(text) != 2 * sizeof bytes) {
        return alias_parse(text, id);
    }
    if (!hex_parse(text, bytes, sizeof bytes)) {
        return HF_E_INVALID_ARGUMENT;
    }
    *id = message_id_unpack(bytes);
    return HF_OK;
}

static uint32_t receipt_check(const uint8_t *bytes, uint64_t salt)
{
    uint8_t salt_bytes[8];

    put_be(salt_bytes, salt, sizeof salt_bytes);
    return crc32c(crc32c(0, salt_bytes, sizeof salt_bytes), bytes, RECEIPT_CHECKED);
}

void receipt_pack(const struct receipt *receipt, uint64_t salt,
                  uint8_t bytes[RECEIPT_BYTES])
{
    bytes[0] = RECEIPT_VERSION;
    put_be(bytes + 1, receipt->shard, 2);
    put_be(bytes + 3, receipt->queue, 4);
    put_be(bytes + 7, receipt->message, 8);
    put_be(bytes + 15, receipt->epoch, 4);
    put_be(bytes + 19, (uint64_t)receipt->deadline_ms, 8);
    put_be(bytes + RECEIPT_CHECKED, receipt_check(bytes, salt), 4);
}

int receipt_unpack(struct slice bytes, uint64_t salt, struct receipt *receipt)
{
    const uint8_t *p = bytes.data;

    if (p == NULL || bytes.len != RECEIPT_BYTES || p[0] != RECEIPT_VERSION) {
        return HF_E_RECEIPT_MALFORMED;
    }
    if (get_be(p + RECEIPT_CHECKED, 4) != receipt_check(p, salt)) {
        return HF_E_RECEIPT_MALFORMED;
    }
    *receipt = (struct receipt){
        .shard = (uint16_t)get_be(p + 1, 2),
        .queue = (uint32_t)get_be(p + 3, 4),
        .message = get_be(p + 7, 8),
        .epoch = (uint32_t)get_be(p + 15, 4),
        .deadline_ms = (int64_t)get_be(p + 19, 8),
    };
    return HF_OK;
}

void receipt_format(const uint8_t bytes[RECEIPT_BYTES], char text[RECEIPT_TEXT])
{
    hex_format(bytes, RECEIPT_BYTES, text);
}

int receipt_parse(const char *text, uint8_t bytes[RECEIPT_BYTES])
{
    uint8_t parsed[RECEIPT_BYTES];

    if (strlen(text) != 2 * sizeof parsed || !hex_parse(text, parsed, sizeof parsed)) {
        return HF_E_RECEIPT_MALFORMED;
    }
    memcpy(bytes, parsed, sizeof parsed);
    return HF_OK;
}
