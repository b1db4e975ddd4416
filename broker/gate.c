/* gate.c: who may pass: logins, rights, and the line in the log about what an
 * administrator did. */
#include "broker/access.h"
#include "broker/dispatch_inside.h"
#include "broker/log.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- audit ---- */

static const char *who(const struct dispatch_session *s)
{
    return s->auth.known ? s->auth.user : "-";
}

/* What the outcome is added to; NULL: nobody has to know, or there is no memory. */
static char *audit_text(const struct dispatch_session *s,
                        const struct op_request *request)
{
    struct slice target = access_target(request);
    char *text = NULL;

    if (!access_is_admin(request->op) ||
        asprintf(&text, "user=%s from=%s op=%s target=%.*s", who(s),
                 s->peer[0] != '\0' ? s->peer : "-", op_name(request->op),
                 (int)target.len,
                 target.data != NULL ? (const char *)target.data : "") < 0) {
        return NULL;
    }
    return text;
}

void audit_end(char *text, int status)
{
    if (text == NULL) {
        return;
    }
    log_line(LOG_INFO, "audit", "%s result=%s", text, status_name(status));
    free(text);
}

/* ---- logins ---- */

/* One more connection of the user it is now. */
static int count_user(struct dispatch *d, struct dispatch_session *s,
                      struct op_reply *reply)
{
    quota_leave(&d->users, s->of_user);
    s->of_user = s->auth.root ? NULL : quota_enter(&d->users, s->auth.user);
    if (s->auth.root || s->of_user != NULL) {
        return HF_OK;
    }
    s->auth.known = false;
    reply->auth = (struct op_auth_reply){.done = false};
    reply->error.status = HF_E_RATE_LIMITED;
    reply->error.element = slice_text("user");
    reply->error.message =
        slice_text("the user has max-connections-per-user connections: close some");
    return HF_E_RATE_LIMITED;
}

static int login(struct dispatch *d, struct dispatch_session *s,
                 const struct op_request *request, uint64_t start_ns)
{
    struct machine *m = raftlog_machine(d->log);
    struct op_reply reply = reply_begin(d, request->id, request->op);
    bool before = s->auth.known;
    int rc;

    if (m == NULL) {
        session_refuse(d, s, request, HF_E_UNAVAILABLE, NULL, start_ns);
        return HF_OK;
    }
    s->auth.known = false; /* until it has proved it anew */
    switch (request->op) {
    case OP_AUTH_START:
        rc = auth_start(&d->rules, &s->auth, m, &request->auth_start, &d->arena, &reply);
        break;
    case OP_AUTH_CONTINUE:
        rc = auth_continue(&s->auth, m, &request->auth_continue, &d->arena, &reply);
        break;
    default:
        rc = auth_token(&d->rules, &s->auth, m, &request->auth_token, s->private,
                        raftlog_now_ms(d->log), &reply);
        break;
    }
    if (rc == HF_E_AUTH_FAILED) {
        d->metrics->logins_failed++;
        log_line(LOG_WARN, "auth", "refused from=%s actor=%.*s: %.*s",
                 s->peer[0] != '\0' ? s->peer : "-", (int)s->actor_len, s->actor,
                 (int)reply.error.message.len, (const char *)reply.error.message.data);
    } else if (s->auth.known) {
        d->metrics->logins += !before;
        rc = count_user(d, s, &reply);
    }
    if (rc != HF_OK) {
        reply_refuse(d, &reply, rc);
    }
    (void)session_send(d, s, &reply, start_ns);
    return s->auth.failures >= AUTH_TRIES ? HF_E_AUTH_FAILED : HF_OK;
}

/* ---- how much ---- */

void dispatch_set_limits(struct dispatch *d, const struct dispatch_limits *limits)
{
    d->addresses.connections_max = limits->connections_per_address;
    d->users.connections_max = limits->connections_per_user;
    d->addresses.rate = limits->requests_per_second;
    d->users.rate = limits->requests_per_second;
}

bool dispatch_session_from(struct dispatch *d, struct dispatch_session *s,
                           const char *address)
{
    s->of_address = quota_enter(&d->addresses, address);
    return s->of_address != NULL;
}

/* Requests a second: of its user, else of its address. */
static bool within_rate(struct dispatch *d, struct dispatch_session *s,
                        const struct op_request *request, uint64_t start_ns)
{
    struct op_error error = {
        .element = slice_text("requests"),
        .message = slice_text("more than max-requests-per-second: ask less often, or put "
                              "more into one request")};

    if (s->auth.known && s->auth.root) {
        return true;
    }
    if (s->of_user != NULL) {
        error.retry_after_ms = quota_take(&d->users, s->of_user, start_ns);
    } else if (s->of_address != NULL) {
        error.retry_after_ms = quota_take(&d->addresses, s->of_address, start_ns);
    }
    if (error.retry_after_ms == 0) {
        return true;
    }
    d->metrics->rate_limited++;
    session_refuse(d, s, request, HF_E_RATE_LIMITED, &error, start_ns);
    return false;
}

/* ---- rights ---- */

static bool is_login(enum op_code op)
{
    return op == OP_AUTH_START || op == OP_AUTH_CONTINUE || op == OP_AUTH_TOKEN;
}

static void refuse_with(struct dispatch *d, struct dispatch_session *s,
                        const struct op_request *request, int status, const char *why,
                        uint64_t start_ns)
{
    struct op_error error = {.message = slice_text(why)};

    session_refuse(d, s, request, status, &error, start_ns);
}

int gate_pass(struct dispatch *d, struct dispatch_session *s,
              const struct op_request *request, uint64_t start_ns, bool *answered)
{
    struct machine *m = raftlog_machine(d->log);
    struct op_error error = {0};
    int rc;

    *answered = true;
    if (is_login(request->op)) {
        return login(d, s, request, start_ns);
    }
    if (request->op == OP_PING) {
        *answered = false;
        return HF_OK;
    }
    if (!within_rate(d, s, request, start_ns)) {
        return HF_OK;
    }
    d->audit = audit_text(s, request); /* before anything can be answered */
    if (!d->rules.config.required) {
        *answered = false;
    } else if (!s->auth.known) {
        refuse_with(d, s, request, HF_E_AUTH_FAILED,
                    "this node wants to know who asks: log in with AUTH_START or "
                    "AUTH_TOKEN first (holdfast --user, --token-file)",
                    start_ns);
    } else if (m == NULL) {
        session_refuse(d, s, request, HF_E_UNAVAILABLE, NULL, start_ns);
    } else if (!auth_holds(&s->auth, m, raftlog_now_ms(d->log))) {
        refuse_with(d, s, request, HF_E_AUTH_FAILED,
                    "the user was removed or disabled, or its password or token is no "
                    "longer the one it logged in with: log in again",
                    start_ns);
        return HF_E_AUTH_FAILED;
    } else {
        rc = access_check(&s->auth, m, request, &d->arena, &error);
        *answered = rc != HF_OK;
    }
    if (*answered && error.status == HF_E_ACCESS_DENIED) {
        d->metrics->access_denied++;
        session_refuse(d, s, request, HF_E_ACCESS_DENIED, &error, start_ns);
    }
    return HF_OK;
}

/* May it still wait for these messages? */
static bool may_wait(struct dispatch *d, struct dispatch_session *s,
                     const struct request *r)
{
    const struct receive *receive = (const struct receive *)(const void *)r;
    struct op_request request;
    struct op_error error = {0};

    arena_reset(&d->arena);
    memset(&request, 0, sizeof request);
    if (r->op == OP_SUBSCRIBE) {
        request.subscribe.queue = subscription_queue(r);
    } else if (r->op != OP_RECEIVE ||
               op_decode_fields(slice_of(receive->fields, receive->fields_len),
                                OP_RECEIVE, &d->arena, &request, &error) != HF_OK) {
        return true;
    }
    request.op = r->op;
    return access_check(&s->auth, raftlog_machine(d->log), &request, &d->arena,
                        &error) == HF_OK;
}

bool dispatch_session_is_in(const struct dispatch *d, const struct dispatch_session *s)
{
    return s->greeted && (!d->rules.config.required || s->auth.known);
}

bool dispatch_session_may_stay(struct dispatch *d, struct dispatch_session *s)
{
    struct machine *m = raftlog_machine(d->log);

    if (!d->rules.config.required || !s->auth.known || m == NULL) {
        return true;
    }
    if (!auth_holds(&s->auth, m, raftlog_now_ms(d->log))) {
        return false;
    }
    if (s->rights_seen == s->auth.checked) {
        return true;
    }
    s->rights_seen = s->auth.checked;
    for (const struct request *r = s->requests; r != NULL; r = r->next) {
        if (!may_wait(d, s, r)) {
            return false;
        }
    }
    return true;
}
