/* auth.h: who a session speaks for, and whether it still may.
 *
 *   nobody --AUTH_START--> challenged --AUTH_CONTINUE--> known
 *     `------------------AUTH_TOKEN-----------------------^
 *
 * Every node answers from the users that it has applied. Wrong, out of turn, unknown
 * or disabled: AuthFailed, without telling which; a user that is not there is given a
 * challenge like any other.
 *
 * The root token is a node's own, from a file: whoever has it may do everything. It is
 * there for the first users, and for a day on which all passwords are lost.
 *
 * Knows no sockets and sends nothing. */
#ifndef HF_BROKER_AUTH_H
#define HF_BROKER_AUTH_H

#include "proto/scram.h"
#include "raftlog/machine.h"

#define AUTH_MECHANISMS  SCRAM_MECHANISM " TOKEN"
#define AUTH_ROOT        "@root" /* no user can be called so */
#define AUTH_TRIES       3u      /* after so many failures the connection ends */
#define AUTH_CACHE       8u

struct auth_config {
    bool required; /* requests are taken only from users */
    bool has_root;
    uint8_t root_hash[SECRET_HASH_BYTES]; /* of the root token */
};

/* What is the same for all sessions of a node. */
struct auth_rules {
    struct auth_config config;
    uint8_t decoy[SECRET_HASH_BYTES]; /* makes the salts of users that are not there */
};

/* HF_E_IO: the system gives no random bytes. */
int auth_rules_init(struct auth_rules *rules, const struct auth_config *config);

/* One session's. Zero-initialise; auth_done frees. */
struct auth {
    struct scram_server *exchange; /* challenged */
    bool known;
    bool root;
    bool by_token;
    unsigned failures;
    char user[LIMIT_USER + 1];
    uint64_t user_number;
    uint64_t proof;     /* number of the password or token */
    int64_t expires_ms; /* of the token; 0 = never */
    uint8_t token_hash[SECRET_HASH_BYTES];
    uint64_t checked; /* machine_users_changed when it was last looked at */
    struct auth_rights *rights; /* of AUTH_CACHE names; NULL = none yet */
};

void auth_done(struct auth *a);

/* Each fills `reply` (its payload is in the arena) and returns HF_OK or
 * HF_E_AUTH_FAILED, HF_E_UNSUPPORTED, HF_E_MEMORY_LOW with reply->error filled. */
int auth_start(const struct auth_rules *rules, struct auth *a, struct machine *m,
               const struct op_auth_start *op, struct arena *arena,
               struct op_reply *reply);
int auth_continue(struct auth *a, struct machine *m, const struct op_auth_continue *op,
                  struct arena *arena, struct op_reply *reply);
/* `safe`: nobody can have listened to the token. */
int auth_token(const struct auth_rules *rules, struct auth *a, struct machine *m,
               const struct op_auth_token *op, bool safe, int64_t now_ms,
               struct op_reply *reply);

/* Is it still the user that it was, with the password or token that it showed? False:
 * the session must end. Cheap while nothing has changed. */
bool auth_holds(struct auth *a, struct machine *m, int64_t now_ms);

/* Sum of enum right for a queue or topic, or (beginning) for all names that begin so.
 * Only after auth_holds. */
uint32_t auth_rights(struct auth *a, struct machine *m, struct slice name,
                     bool beginning);

#endif
