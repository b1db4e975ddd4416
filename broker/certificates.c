/* certificates.c: which files belong together, and who may read them. */
#include "broker/certificates.h"

#include "proto/status.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* The options of one port. */
struct files {
    const char *port;
    const char *prefix; /* of the options' names */
    const char *cert;
    const char *key;
    const char *ca;
    enum tls_demand demand;
};

#define SAY(field, ...) (void)snprintf((field), sizeof(field), __VA_ARGS__)

static int refuse(struct config_error *error, const struct files *f, const char *why,
                  const char *remedy)
{
    SAY(error->what, "TLS %s", f->port);
    SAY(error->why, "%s", why);
    SAY(error->remedy, "%s", remedy);
    return HF_E_INVALID_ARGUMENT;
}

static int check_together(const struct files *f, bool all, struct config_error *error)
{
    char why[128];
    bool cert = f->cert[0] != '\0', key = f->key[0] != '\0', ca = f->ca[0] != '\0';

    if (cert != key || (ca && !cert)) {
        SAY(why, "%stls-cert, %stls-key and %stls-ca are not all given", f->prefix,
            f->prefix, f->prefix);
        return refuse(error, f, why, "a certificate needs its key, and the other way");
    }
    if (cert && !ca && (all || f->demand != TLS_DEMAND_NONE)) {
        SAY(why, "%stls-ca is not given, so that nobody could be trusted", f->prefix);
        return refuse(error, f, why, "name the file with the authorities to trust");
    }
    if (!cert && f->demand != TLS_DEMAND_NONE) {
        return refuse(error, f, "tls-client-auth is of no use without tls-cert",
                      "set tls-cert, tls-key and tls-ca, or leave it out");
    }
    return HF_OK;
}

static int check_key(const struct files *f, struct config_error *error)
{
    struct stat st;

    if (stat(f->key, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) != 0) {
        SAY(error->what, "TLS %s, key %s", f->port, f->key);
        SAY(error->why, "everybody on this machine can read it");
        SAY(error->remedy, "chmod 600 %s", f->key);
        return HF_E_INVALID_ARGUMENT;
    }
    return HF_OK;
}

static int load(const struct files *f, bool all, struct tls_context **out,
                struct config_error *error)
{
    struct tls_options options = {.cert = f->cert,
                                  .key = f->key,
                                  .ca = f->ca[0] != '\0' ? f->ca : NULL,
                                  .demand = f->demand};
    char why[TLS_WHY + 2 * CONFIG_PATH_BYTES];
    int rc = check_together(f, all, error);

    if (rc != HF_OK || f->cert[0] == '\0') {
        return rc;
    }
    rc = check_key(f, error);
    if (rc != HF_OK) {
        return rc;
    }
    rc = tls_context_open(&options, out, why, sizeof why);
    if (rc != HF_OK) {
        SAY(error->what, "TLS %s", f->port);
        SAY(error->why, "%.500s", why);
        SAY(error->remedy, "see docs/options/%stls-cert.md", f->prefix);
    }
    return rc;
}

static enum tls_demand demand_of(const char *word)
{
    return strcmp(word, "require") == 0   ? TLS_DEMAND_ALWAYS
           : strcmp(word, "request") == 0 ? TLS_DEMAND_OFFERED
                                          : TLS_DEMAND_NONE;
}

int certificates_load(const struct config *config, struct certificates *out,
                      struct config_error *error)
{
    const struct files client = {.port = "for clients",
                                 .prefix = "",
                                 .cert = config->tls_cert,
                                 .key = config->tls_key,
                                 .ca = config->tls_ca,
                                 .demand = demand_of(config->tls_client_auth)};
    const struct files peer = {.port = "between nodes",
                               .prefix = "peer-",
                               .cert = config->peer_tls_cert,
                               .key = config->peer_tls_key,
                               .ca = config->peer_tls_ca,
                               .demand = config->peer_tls_cert[0] != '\0'
                                             ? TLS_DEMAND_ALWAYS
                                             : TLS_DEMAND_NONE};
    struct certificates fresh = {0};
    int rc = load(&client, false, &fresh.client, error);

    if (rc == HF_OK) {
        rc = load(&peer, true, &fresh.peer, error);
    }
    if (rc != HF_OK) {
        certificates_done(&fresh);
        return rc;
    }
    *out = fresh;
    return HF_OK;
}

int certificates_reload(const struct config *config, struct certificates *c,
                        struct config_error *error)
{
    struct certificates fresh;
    int rc = certificates_load(config, &fresh, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (certificates_expire(&fresh) != 0 && certificates_expire(&fresh) <= time(NULL)) {
        certificates_done(&fresh);
        SAY(error->what, "TLS");
        SAY(error->why, "a new certificate has expired already");
        SAY(error->remedy, "make one that is valid, then send SIGHUP again");
        return HF_E_INVALID_ARGUMENT;
    }
    certificates_done(c);
    *c = fresh;
    return HF_OK;
}

void certificates_done(struct certificates *c)
{
    tls_context_close(c->client);
    tls_context_close(c->peer);
    *c = (struct certificates){0};
}

int64_t certificates_expire(const struct certificates *c)
{
    int64_t client = c->client != NULL ? tls_context_expires(c->client) : 0;
    int64_t peer = c->peer != NULL ? tls_context_expires(c->peer) : 0;

    if (client == 0 || peer == 0) {
        return client != 0 ? client : peer;
    }
    return client < peer ? client : peer;
}
