/* config.h: the options of holdfastd: one table, from which file, flags, --help and the
 * checks are made.
 *
 * A value comes from, later ones win: the default, the configuration file (`name =
 * value`, # begins a comment), the flag (`--name value` or `--name=value`; `--name`
 * alone switches a yes/no option on). Every option has its page docs/options/<name>.md;
 * a test compares the pages with the table.
 *
 * Kinds: NUMBER, MS (`300`, `300ms`, `5s`, `2m`), BYTES (`65536`, `64KiB`, `1GiB`),
 * FLAG (yes/no), TEXT (bounds are its length), PATH, ADDRESS (HOST:PORT), CHOICE (one
 * of the words in the help), PEERS (ID@HOST:PORT,...). */
#ifndef HF_BROKER_CONFIG_H
#define HF_BROKER_CONFIG_H

#include "proto/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_NODE_MAX   65535
#define CONFIG_PEERS_MAX  16u
#define CONFIG_PATH_BYTES 1024u
#define CONFIG_TEXT_BYTES 257u
#define CONFIG_LIST_BYTES 4096u

#define CONFIG_KIB 1024ll
#define CONFIG_MIB (1024ll * 1024)
#define CONFIG_GIB (1024ll * 1024 * 1024)
#define CONFIG_TIB (1024ll * 1024 * 1024 * 1024)

/* X(field, name, kind, default, low, high, reloadable, help). An empty default means:
 * none. */
#define CONFIG_OPTIONS(X)                                                              \
    X(node_id, "node-id", NUMBER, "", 1, CONFIG_NODE_MAX, false,                       \
      "number of this node, unique in its cluster and never used again")               \
    X(data, "data", PATH, "", 1, CONFIG_PATH_BYTES - 1, false,                         \
      "directory of log and state; one node's alone")                                  \
    X(listen, "listen", ADDRESS, "127.0.0.1:7400", 0, 0, false,                        \
      "where clients connect to")                                                      \
    X(peer_listen, "peer-listen", ADDRESS, "127.0.0.1:7401", 0, 0, false,              \
      "where the other nodes connect to")                                              \
    X(http_listen, "http-listen", ADDRESS, "127.0.0.1:7402", 0, 0, false,              \
      "health, metrics and console; `off` for none")                                   \
    X(advertise, "advertise", ADDRESS, "", 0, 0, false,                                \
      "client address told to others; none = the value of listen")                     \
    X(peers, "peers", PEERS, "", 0, CONFIG_LIST_BYTES - 1, false,                      \
      "the founding nodes, this one included: ID@HOST:PORT,... with peer addresses")   \
    X(bootstrap, "bootstrap", FLAG, "no", 0, 1, false,                                 \
      "may found the cluster when the disks of all peers are empty")                   \
    X(cluster, "cluster", TEXT, "holdfast", 1, 64, false,                              \
      "name of the cluster; nodes of another name are refused")                        \
    X(secret, "secret", TEXT, "", 0, CONFIG_TEXT_BYTES - 1, false,                     \
      "shared by the nodes of a cluster, proves membership; better: secret-file")      \
    X(secret_file, "secret-file", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,           \
      "file that holds the secret; not readable by others")                            \
    X(auth, "auth", FLAG, "no", 0, 1, false,                                           \
      "clients must log in; what they may do is granted by holdfast user grant")       \
    X(root_token_file, "root-token-file", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,   \
      "file with a token that may do everything on this node, for the first users")    \
    X(tls_cert, "tls-cert", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,                 \
      "certificate of this node for clients, in PEM; switches TLS on at listen")       \
    X(tls_key, "tls-key", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,                   \
      "private key of tls-cert; not readable by others")                               \
    X(tls_ca, "tls-ca", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,                     \
      "authorities of clients' certificates, in PEM")                                  \
    X(tls_client_auth, "tls-client-auth", CHOICE, "none", 0, 0, false,                 \
      "none, request or require: whether clients must show a certificate of tls-ca")   \
    X(peer_tls_cert, "peer-tls-cert", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,       \
      "certificate for other nodes, in PEM; switches TLS on between nodes")            \
    X(peer_tls_key, "peer-tls-key", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,         \
      "private key of peer-tls-cert; not readable by others")                          \
    X(peer_tls_ca, "peer-tls-ca", PATH, "", 0, CONFIG_PATH_BYTES - 1, false,           \
      "authority of all nodes' certificates, in PEM")                                  \
    X(allow_insecure, "allow-insecure", FLAG, "no", 0, 1, false,                       \
      "listen beyond loopback without a secret or logins all the same")                \
    X(profile, "profile", CHOICE, "default", 0, 0, false,                              \
      "default or calm: timing for a local network, or for a slow or busy one")        \
    X(election_ms, "election-ms", MS, "", 100, 60000, false,                           \
      "silence of the leader after which another is elected; none = by profile, 300 "  \
      "or 1000")                                                                       \
    X(heartbeat_ms, "heartbeat-ms", MS, "", 10, 20000, false,                          \
      "between two signs of life of the leader; none = by profile, 30 or 100")         \
    X(checkpoint_bytes, "checkpoint-bytes", BYTES, "128MiB", CONFIG_MIB, CONFIG_TIB,   \
      false, "log written between two checkpoints of the state")                       \
    X(trailing_bytes, "trailing-bytes", BYTES, "64MiB", 0, CONFIG_TIB, false,          \
      "log kept behind a checkpoint for followers that lag")                           \
    X(cache_bytes, "cache-bytes", BYTES, "32MiB", CONFIG_MIB, CONFIG_TIB, false,       \
      "log entries kept in memory")                                                    \
    X(map_bytes, "map-bytes", BYTES, "1TiB", 16 * CONFIG_MIB, 64 * CONFIG_TIB, false,  \
      "address space of the store; a bound, not a reservation")                        \
    X(quota_bytes, "quota-bytes", BYTES, "0", 0, 64 * CONFIG_TIB, false,               \
      "size of the store above which sends are refused; 0 = none")                     \
    X(disk_refuse_bytes, "disk-refuse-bytes", BYTES, "256MiB", 0, CONFIG_TIB, false,   \
      "free space below which sends are refused and leadership is handed over")        \
    X(disk_stop_bytes, "disk-stop-bytes", BYTES, "64MiB", 0, CONFIG_TIB, false,        \
      "free space below which the node stops")                                         \
    X(max_connections, "max-connections", NUMBER, "10000", 1, LIMIT_CONNECTIONS, true, \
      "client connections at the same time")                                           \
    X(connections_per_address, "max-connections-per-address", NUMBER, "0", 0,          \
      LIMIT_CONNECTIONS, true, "client connections from one address; 0 = no limit")    \
    X(connections_per_user, "max-connections-per-user", NUMBER, "0", 0,                \
      LIMIT_CONNECTIONS, true, "client connections of one user; 0 = no limit")         \
    X(requests_per_second, "max-requests-per-second", NUMBER, "0", 0, 10000000, true,  \
      "of one user, or of one address without logins; 0 = no limit")                   \
    X(unsent_bytes, "max-unsent-bytes", BYTES, "1GiB", 16 * CONFIG_MIB, CONFIG_TIB,    \
      true, "answers that clients have not taken yet, of all connections")             \
    X(auto_rejoin, "auto-rejoin", FLAG, "yes", 0, 1, false,                            \
      "as leader, replace a member that comes back with an empty disk")                \
    X(log_level, "log-level", CHOICE, "info", 0, 0, true, "debug, info, warn or error")

/* Storage of a kind. */
#define CONFIG_TYPE_NUMBER(field)  int64_t field
#define CONFIG_TYPE_MS(field)      int64_t field
#define CONFIG_TYPE_BYTES(field)   int64_t field
#define CONFIG_TYPE_FLAG(field)    bool field
#define CONFIG_TYPE_TEXT(field)    char field[CONFIG_TEXT_BYTES]
#define CONFIG_TYPE_CHOICE(field)  char field[CONFIG_TEXT_BYTES]
#define CONFIG_TYPE_PATH(field)    char field[CONFIG_PATH_BYTES]
#define CONFIG_TYPE_ADDRESS(field) char field[LIMIT_ADDRESS + 1]
#define CONFIG_TYPE_PEERS(field)   char field[CONFIG_LIST_BYTES]

enum config_kind {
    CONFIG_NUMBER,
    CONFIG_MS,
    CONFIG_BYTES,
    CONFIG_FLAG,
    CONFIG_TEXT,
    CONFIG_CHOICE,
    CONFIG_PATH,
    CONFIG_ADDRESS,
    CONFIG_PEERS
};

struct config_peer {
    uint64_t node;
    char address[LIMIT_ADDRESS + 1];
};

struct config {
#define X(field, name, kind, initial, low, high, reload, help)                         \
    CONFIG_TYPE_##kind(field);
    CONFIG_OPTIONS(X)
#undef X
    uint64_t given; /* bit n: option n of the table was set by file or flag */
    bool dev;
    bool confirm;                    /* --rescue: do it */
    bool without_log;                /* --rescue: of the state alone */
    bool json;                       /* of what is done without running */
    char restore[CONFIG_PATH_BYTES]; /* --restore: the backup */
    char root_token[CONFIG_TEXT_BYTES]; /* what root-token-file holds; "" = none */
    bool temporary_data;          /* --dev without --data: removed at the end */
    char file[CONFIG_PATH_BYTES]; /* --config; "" = none */
    struct config_peer peer_list[CONFIG_PEERS_MAX]; /* filled by config_finish */
    uint32_t peer_count;
};

struct config_option {
    const char *name;
    enum config_kind kind;
    size_t offset;
    const char *initial;
    int64_t low;
    int64_t high;
    bool reloadable;
    const char *help;
};

/* What is wrong, why, and the way out; each a phrase without a full stop. */
struct config_error {
    char what[512];
    char why[512];
    char remedy[512];
};

enum config_action {
    CONFIG_RUN,
    CONFIG_CHECK,   /* --check-config */
    CONFIG_RESTORE, /* --restore FILE */
    CONFIG_RESCUE,  /* --rescue */
    CONFIG_HELP,   /* --help */
    CONFIG_MAN,    /* --man: what the build makes holdfastd.1 of */
    CONFIG_VERSION /* --version */
};

/* The table; *count entries. */
const struct config_option *config_options(size_t *count);

/* All defaults. */
void config_init(struct config *c);

/* One value by name. `origin` ("FILE:LINE", "the command line") goes into the error.
 * HF_E_INVALID_ARGUMENT: error is filled, nothing changed. */
int config_set(struct config *c, const char *name, const char *value,
               const char *origin, struct config_error *error);

/* The lines of a file. HF_E_IO: it cannot be read. HF_E_INVALID_ARGUMENT. */
int config_load(struct config *c, const char *path, struct config_error *error);

/* The command line: the file named by --config, then the flags over it. */
int config_args(struct config *c, int argc, char **argv, enum config_action *action,
                struct config_error *error);

/* Without running, on a data directory: is that given? HF_E_INVALID_ARGUMENT. */
int config_offline(const struct config *c, struct config_error *error);

/* Fill what follows from other options (dev, profile, advertise, secret-file, peers)
 * and check that they fit together. Call once, last. Creates the temporary directory of
 * --dev. */
int config_finish(struct config *c, struct config_error *error);

/* Take over what may change while running from `fresh`. Returns how many other options
 * differ: they need a restart; their names go to `waiting`, separated by spaces. */
unsigned config_reload(struct config *c, const struct config *fresh, char *waiting,
                       size_t size);

/* The text of --help. */
void config_help(FILE *out);
/* holdfastd.1. */
void config_man(FILE *out);

/* What the page of an option must begin with: title, help, default, bounds, whether it
 * can be reloaded. */
void config_page(const struct config_option *option, char *page, size_t size);

/* HOST:PORT or [HOST]:PORT into its parts. False: not an address. */
bool config_address(const char *address, char *host, size_t size, uint16_t *port);

#endif
