/* tool_user.c: user create, password, disable, enable, delete, list, show, grant, revoke,
 * token, revoke-token. */
#include "broker/tool_commands.h"
#include "broker/tool_login.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 1000

static const struct {
    const char *name;
    unsigned right;
} rights[] = {{"send", HF_RIGHT_SEND},
              {"receive", HF_RIGHT_RECEIVE},
              {"manage", HF_RIGHT_MANAGE},
              {"cluster", HF_RIGHT_CLUSTER}};

#define RIGHTS (sizeof rights / sizeof rights[0])

static int done(const struct tool *t, const char *what)
{
    if (t->json) {
        tool_print(json_pack("{s:s, s:s}", "user", t->words[0], "done", what));
    } else {
        printf("%s %s\n", t->words[0], what);
    }
    return TOOL_DONE;
}

/* A page's last name, for the next one. */
static void keep_last(char after[256], const struct hf_bytes *last)
{
    snprintf(after, 256, "%.*s", (int)last->len, (const char *)last->data);
}

/* The user of this name: *found says whether it is there. */
static int look_up(struct tool *t, struct hf_client *client, const char *name,
                   bool *found, bool *password, bool *disabled)
{
    char after[256] = "";
    struct hf_users *users;
    struct hf_error error;
    bool more = true;

    *found = false;
    while (more && !*found) {
        if (hf_user_list(client, after, PAGE, &users, &error) != HF_OK) {
            return tool_refused(t, name, &error);
        }
        for (size_t i = 0; i < users->count && !*found; i++) {
            const struct hf_user *u = &users->items[i];

            *found = u->name.len == strlen(name) &&
                     memcmp(u->name.data, name, u->name.len) == 0;
            *password = u->password != 0;
            *disabled = u->disabled != 0;
        }
        more = users->more && users->count > 0;
        if (more) {
            keep_last(after, &users->items[users->count - 1].name);
        }
        hf_users_free(users);
    }
    return TOOL_DONE;
}

static int no_such_user(const struct tool *t)
{
    struct hf_error error = {.status = HF_E_NOT_FOUND};

    snprintf(error.sentence, sizeof error.sentence, "there is no such user");
    return tool_refused(t, t->words[0], &error);
}

static int new_password(struct tool *t, char text[TOOL_SECRET])
{
    const char *path = tool_flag(t, "new-password-file");

    return path != NULL ? tool_read_secret(t, "new-password-file", path, text)
                        : tool_ask_secret(t, "new password", text);
}

int tool_user_create(struct tool *t)
{
    bool without = tool_flag(t, "no-password") != NULL;
    char password[TOOL_SECRET] = "";
    struct hf_client *client;
    struct hf_error error;
    bool found;
    bool has;
    bool disabled;
    int rc = without ? TOOL_DONE : new_password(t, password);

    if (rc != TOOL_DONE) {
        return rc;
    }
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    rc = look_up(t, client, t->words[0], &found, &has, &disabled);
    if (rc != TOOL_DONE) {
        return rc;
    }
    if (found) {
        return tool_usage(t, "user %s exists: see 'user password', 'user grant'",
                          t->words[0]);
    }
    if (hf_user_set(client, t->words[0], without ? NULL : password, 0, NULL, &error) !=
        HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, without ? "created, without a password: give it a token"
                           : "created; it may do nothing yet: grant it rights");
}

/* Everybody may change the own password without being allowed to see who else there
 * is. */
int tool_user_password(struct tool *t)
{
    bool self = t->user != NULL && strcmp(t->user, t->words[0]) == 0;
    char password[TOOL_SECRET] = "";
    struct hf_client *client;
    struct hf_error error;
    bool found = true;
    bool has;
    bool disabled = false;
    int rc = new_password(t, password);

    if (rc != TOOL_DONE) {
        return rc;
    }
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (!self) {
        rc = look_up(t, client, t->words[0], &found, &has, &disabled);
    }
    if (rc != TOOL_DONE) {
        return rc;
    }
    if (!found) {
        return no_such_user(t);
    }
    if (hf_user_set(client, t->words[0], password, disabled, NULL, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, "has a new password; who logged in with the old one is out");
}

static int set_disabled(struct tool *t, bool disable)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    bool found;
    bool has;
    bool disabled;
    int rc;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    rc = look_up(t, client, t->words[0], &found, &has, &disabled);
    if (rc != TOOL_DONE) {
        return rc;
    }
    if (!found) {
        return no_such_user(t);
    }
    if (hf_user_set(client, t->words[0], NULL, disable, NULL, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, disable ? "disabled, its connections end" : "enabled");
}

int tool_user_disable(struct tool *t)
{
    return set_disabled(t, true);
}

int tool_user_enable(struct tool *t)
{
    return set_disabled(t, false);
}

int tool_user_delete(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_user_remove(client, t->words[0], &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, "deleted, with its tokens and rights");
}

int tool_user_list(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    char after[256] = "";
    struct hf_users *users;
    struct hf_error error;
    bool more;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    do {
        if (hf_user_list(client, after, PAGE, &users, &error) != HF_OK) {
            return tool_refused(t, NULL, &error);
        }
        for (size_t i = 0; i < users->count; i++) {
            const struct hf_user *u = &users->items[i];

            if (t->json) {
                tool_print(json_pack("{s:s%, s:b, s:b, s:I}", "user", u->name.data,
                                     u->name.len, "password", u->password, "disabled",
                                     u->disabled, "created_at",
                                     (json_int_t)u->created_ms));
            } else {
                printf("%.*s%s%s\n", (int)u->name.len, (const char *)u->name.data,
                       u->password ? "" : "  (no password)",
                       u->disabled ? "  (disabled)" : "");
            }
        }
        more = users->more && users->count > 0;
        if (more) {
            keep_last(after, &users->items[users->count - 1].name);
        }
        hf_users_free(users);
    } while (more);
    return TOOL_DONE;
}

/* "send receive" */
static void rights_text(unsigned sum, char out[64])
{
    out[0] = '\0';
    for (size_t i = 0; i < RIGHTS; i++) {
        if ((sum & rights[i].right) != 0) {
            snprintf(out + strlen(out), 64 - strlen(out), "%s%s",
                     out[0] != '\0' ? " " : "", rights[i].name);
        }
    }
}

static int show_grants(struct tool *t, struct hf_client *client, json_t *list)
{
    char after[256] = "";
    struct hf_grants *grants;
    struct hf_error error;
    char text[64];
    bool more;

    do {
        if (hf_grant_list(client, t->words[0], after, PAGE, &grants, &error) != HF_OK) {
            return tool_refused(t, t->words[0], &error);
        }
        for (size_t i = 0; i < grants->count; i++) {
            const struct hf_grant *g = &grants->items[i];

            rights_text(g->rights, text);
            if (t->json) {
                json_array_append_new(list,
                                      json_pack("{s:s%, s:s}", "scope", g->scope.data,
                                                g->scope.len, "rights", text));
            } else {
                printf("  may %s on %.*s\n", text, (int)g->scope.len,
                       (const char *)g->scope.data);
            }
        }
        more = grants->more && grants->count > 0;
        if (more) {
            keep_last(after, &grants->items[grants->count - 1].scope);
        }
        hf_grants_free(grants);
    } while (more);
    return TOOL_DONE;
}

static int show_tokens(struct tool *t, struct hf_client *client, json_t *list)
{
    struct hf_tokens *tokens;
    struct hf_error error;
    char created[FORMAT_TIME];
    char expires[FORMAT_TIME];

    if (hf_token_list(client, t->words[0], NULL, PAGE, &tokens, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    for (size_t i = 0; i < tokens->count; i++) {
        const struct hf_token *k = &tokens->items[i];

        if (t->json) {
            json_array_append_new(
                list, json_pack("{s:s%, s:I, s:I}", "name", k->name.data, k->name.len,
                                "created_at", (json_int_t)k->created_ms, "expires_at",
                                (json_int_t)k->expires_ms));
        } else {
            format_time(k->created_ms, created);
            format_time(k->expires_ms, expires);
            printf("  token %.*s, made %s, %s%s\n", (int)k->name.len,
                   (const char *)k->name.data, created,
                   k->expires_ms != 0 ? "good until " : "does not expire",
                   k->expires_ms != 0 ? expires : "");
        }
    }
    hf_tokens_free(tokens);
    return TOOL_DONE;
}

int tool_user_show(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    json_t *grants = json_array();
    json_t *tokens = json_array();
    int rc;

    if (client == NULL) {
        rc = TOOL_USAGE;
    } else {
        rc = show_grants(t, client, grants);
    }
    if (rc == TOOL_DONE) {
        rc = show_tokens(t, client, tokens);
    }
    if (rc == TOOL_DONE && t->json) {
        tool_print(json_pack("{s:s, s:O, s:O}", "user", t->words[0], "grants", grants,
                             "tokens", tokens));
    }
    json_decref(grants);
    json_decref(tokens);
    return rc;
}

static unsigned right_of(const char *word)
{
    for (size_t i = 0; i < RIGHTS; i++) {
        if (strcmp(rights[i].name, word) == 0) {
            return rights[i].right;
        }
    }
    return 0;
}

static int set_grant(struct tool *t, unsigned sum, const char *what)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_grant_set(client, t->words[0], t->words[1], sum, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, what);
}

int tool_user_grant(struct tool *t)
{
    char text[128];
    char names[64];
    unsigned sum = 0;

    for (unsigned i = 2; i < t->word_count; i++) {
        unsigned right = right_of(t->words[i]);

        if (strcmp(t->words[i], "all") == 0) {
            right = HF_RIGHT_SEND | HF_RIGHT_RECEIVE | HF_RIGHT_MANAGE |
                    (strcmp(t->words[1], "*") == 0 ? HF_RIGHT_CLUSTER : 0);
        }
        if (right == 0) {
            return tool_usage(t, "'%s' is none of send, receive, manage, cluster, all",
                              t->words[i]);
        }
        sum |= right;
    }
    rights_text(sum, names);
    snprintf(text, sizeof text, "may %s on %.50s", names, t->words[1]);
    return set_grant(t, sum, text);
}

int tool_user_revoke(struct tool *t)
{
    return set_grant(t, 0, "has no grant of this scope any more");
}

int tool_token_create(struct tool *t)
{
    struct hf_client *client;
    struct hf_error error;
    char token[HF_TOKEN_TEXT];
    bool has_time;
    bool has_duration;
    int64_t expires_ms = 0;
    int64_t duration_ms = 0;

    if (!tool_flag_time(t, "expires", &has_time, &expires_ms) ||
        !tool_flag_duration(t, "expires-in", &has_duration, &duration_ms)) {
        return TOOL_USAGE;
    }
    if (has_time && has_duration) {
        return tool_usage(t, "--expires and --expires-in both say when: give one");
    }
    if (has_duration) {
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        expires_ms =
            (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + duration_ms;
    }
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_token_create(client, t->words[0], t->words[1], expires_ms, token, &error) !=
        HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:s, s:s, s:I}", "user", t->words[0], "name",
                             t->words[1], "token", token, "expires_at",
                             (json_int_t)expires_ms));
    } else {
        printf("%s\n", token); /* alone, so that it can go into a file */
    }
    return TOOL_DONE;
}

int tool_token_revoke(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_token_revoke(client, t->words[0], t->words[1], &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, "lost the token, connections that it opened end");
}
