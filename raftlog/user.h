/* user.h: who may do what: users, their tokens and grants.
 *
 * `user`, key name:
 *     0  u8 version = 1    1  u8 flags: 1 disabled, 2 has a password    2  u16 reserved (0)
 *     4  u32 iterations    8  u64 number    16  u64 number of the password (0 = none)
 *    24  i64 created      32  u32 tokens    36  u32 grants
 *    40  32 bytes StoredKey    72  32 bytes ServerKey    104  the salt, to the end
 * `token`, key user, 0, name:
 *     0  u8 version = 1    1  7 bytes reserved (0)    8  u64 number    16  i64 created
 *    24  i64 expires (0 = never)    32  32 bytes SHA-256 of the token
 * `thash`, key SHA-256 of a token: its key in `token`
 * `grant`, key user, 0, scope: u32 sum of enum right
 * `meta`, key 'U': u32 users, u64 next number.
 *
 * A number is given once, to a user, a password or a token: whoever proved to be
 * somebody is that one only as long as the number stands (a user that was removed and
 * created again is another).
 *
 * I21: `token` and `thash` mirror each other; each token and grant is of a user that is
 *      there and counts it. */
#ifndef HF_RAFTLOG_USER_H
#define HF_RAFTLOG_USER_H

#include "raftlog/apply.h"

#define USER_RECORD_BYTES  104u /* and the salt */
#define TOKEN_RECORD_BYTES 64u
#define USER_HASH_BYTES    32u
#define USER_KEY_MAX       (LIMIT_USER + 1 + LIMIT_SCOPE)

struct user {
    bool disabled;
    uint32_t iterations;
    uint64_t number;
    uint64_t password; /* its number; 0 = none */
    int64_t created_ms;
    uint32_t tokens;
    uint32_t grants;
    uint8_t stored_key[USER_HASH_BYTES];
    uint8_t server_key[USER_HASH_BYTES];
    uint8_t salt[LIMIT_SALT];
    uint32_t salt_len;
};

struct user_token {
    uint64_t number;
    int64_t created_ms;
    int64_t expires_ms;
    uint8_t hash[USER_HASH_BYTES];
};

int user_decode(struct slice value, struct user *out);
int user_token_decode(struct slice value, struct user_token *out);
bool user_find(struct machine *m, struct slice name, struct user *out);
/* How many there are. */
uint32_t user_count(struct machine *m);
int user_refuse(struct machine *m, struct slice name, struct op_error *error);

/* A key of `token` and `grant`; `rest` may be empty: where those of the user begin. */
struct slice user_key(uint8_t key[USER_KEY_MAX], struct slice user, struct slice rest);
/* Is it one of the user's? Then `rest` is what follows. */
bool user_key_of(struct slice key, struct slice user, struct slice *rest);

void apply_user_set(struct machine *m, const struct apply *a);
void apply_user_remove(struct machine *m, const struct apply *a);
void apply_token_create(struct machine *m, const struct apply *a);
void apply_token_revoke(struct machine *m, const struct apply *a);
void apply_grant_set(struct machine *m, const struct apply *a);

int check_user_set(struct machine *m, const struct op_user_set *op,
                   struct op_error *error);
int check_user_remove(struct machine *m, const struct op_user_remove *op,
                      struct op_error *error);
int check_token_create(struct machine *m, const struct op_token_create *op,
                       struct op_error *error);
int check_token_revoke(struct machine *m, const struct op_token_revoke *op,
                       struct op_error *error);
int check_grant_set(struct machine *m, const struct op_grant_set *op,
                    struct op_error *error);

#endif
