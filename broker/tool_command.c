/* tool_command.c: the command table. Help, man page, completion and docs/cli.md come
 * from it. */
#include "broker/tool_command.h"

#include "broker/tool_commands.h"

const struct tool_flag tool_global_flags[] = {
    {"cluster", "HOST:PORT,...", false,
     "any node or nodes of the cluster; else HOLDFAST_CLUSTER, "
     "else " TOOL_DEFAULT_CLUSTER},
    {"timeout", "D", false, "how long to try before giving up (10s)"},
    {"user", "U", false, "log in as U; else HOLDFAST_USER"},
    {"password-file", "F", false,
     "the first line of F is the password; else HOLDFAST_PASSWORD, else it is asked for"},
    {"token-file", "F", false,
     "log in with the token in the first line of F; else HOLDFAST_TOKEN"},
    {"json", NULL, false, "print one JSON object per line"},
    {"tls", NULL, false, "talk TLS; so do the flags below, or HOLDFAST_TLS=1"},
    {"tls-ca", "FILE", false,
     "authorities to trust, in PEM; else HOLDFAST_TLS_CA, else those of the system"},
    {"tls-cert", "FILE", false, "own certificate, in PEM; else HOLDFAST_TLS_CERT"},
    {"tls-key", "FILE", false, "its private key; else HOLDFAST_TLS_KEY"},
    {"tls-server-name", "NAME", false,
     "whom the nodes' certificates must be for; else HOLDFAST_TLS_SERVER_NAME, else the "
     "host of each address"},
    {"tls-insecure", NULL, false,
     "take any certificate: whoever is in between reads and changes everything"},
    {"help", NULL, false, "explain the command"},
    {"version", NULL, false, "print the version"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag queue_create_flags[] = {
    {"set", "k=v", true, "an attribute; those not named have their defaults"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag queue_delete_flags[] = {
    {"force", NULL, false, "also when it holds messages"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag send_flags[] = {
    {"file", "F", false, "the body is the content of F; - is stdin"},
    {"lines", NULL, false, "one message per line of stdin, in batches, pipelined"},
    {"delay", "D", false, "deliver after D; 0 beats the queue's delay"},
    {"at", "T", false, "deliver at T"},
    {"key", "K", true, "a key to find it by, up to 8"},
    {"tag", "T", false, "a tag that receivers may filter by"},
    {"group", "G", false, "messages of one group are received in order"},
    {"priority", "N", false, "1 (first) to 16 (last)"},
    {"ttl", "D", false, "how long it may stay once it is ready"},
    {"dedup-id", "ID", false,
     "sent twice it is stored once, as the dedup attributes of the queue say"},
    {"attr", "k=v", true,
     "an attribute of the message: number, true, false or text; what stands in "
     "\"double quotes\" is text"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag receive_flags[] = {
    {"max", "N", false, "at most N messages, 1 to 256 (1)"},
    {"wait", "D", false, "wait so long for the first (0)"},
    {"lease", "D", false, "hold them so long; else the queue's lease"},
    {"tag", "EXPR", false, "only messages with this tag: one, or a || b"},
    {"ack", NULL, false, "delete them once they are printed"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag backup_flags[] = {
    {"node", "ID", false, "the node to take it from; else one that follows"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag restore_flags[] = {
    {"data", "DIR", false, "the data directory to make: missing or empty"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag release_flags[] = {
    {"delay", "D", false, "ready again after D (0)"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag fail_flags[] = {
    {"delay", "D", false, "try again after D; else as the queue's retry policy says"},
    {"reason", "R", false, "kept with the message, up to 256 bytes"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag reason_flags[] = {
    {"reason", "R", false, "kept with the message, up to 256 bytes"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag kick_flags[] = {
    {"count", "N", false, "the N that were parked first, 1 to 1024"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag peek_flags[] = {
    {"state", "S", false, "ready, scheduled, leased, parked or acked (ready)"},
    {"limit", "N", false, "at most N messages (10)"},
    {NULL, NULL, false, NULL},
};

#define KEY_FLAG                                                                       \
    {                                                                                  \
        "key", "K", false, "all messages that were sent with the key K"                \
    }
#define VERSION_FLAG                                                                   \
    {                                                                                  \
        "if-version", "N", false, "only what has version N, as list and get show it"   \
    }

static const struct tool_flag schedule_list_flags[] = {
    KEY_FLAG,
    {"from", "T", false, "only what is due at T or later"},
    {"to", "T", false, "only what is due before T"},
    {"limit", "N", false, "at most N messages (100)"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag schedule_count_flags[] = {
    KEY_FLAG,
    {"from", "T", false, "only what is due at T or later"},
    {"to", "T", false, "only what is due before T"},
    {"bucket", "D", false, "also how many in each span of D"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag schedule_get_flags[] = {
    KEY_FLAG,
    {NULL, NULL, false, NULL},
};

static const struct tool_flag schedule_cancel_flags[] = {
    KEY_FLAG,
    {"include-ready", NULL, false,
     "also when it is ready and was never handed out, or is parked"},
    {"revoke", NULL, false,
     "also when a consumer holds it: its receipt is worthless then"},
    VERSION_FLAG,
    {NULL, NULL, false, NULL},
};

static const struct tool_flag schedule_reschedule_flags[] = {
    KEY_FLAG,
    {"at", "T", false, "ready at T; in the past: at once"},
    {"delay", "D", false, "ready after D"},
    VERSION_FLAG,
    {NULL, NULL, false, NULL},
};

static const struct tool_flag schedule_fire_flags[] = {
    KEY_FLAG,
    VERSION_FLAG,
    {NULL, NULL, false, NULL},
};

static const struct tool_flag schedule_priority_flags[] = {
    KEY_FLAG,
    {"priority", "N", false, "1 to 16, 1 goes first"},
    VERSION_FLAG,
    {NULL, NULL, false, NULL},
};

static const struct tool_flag recur_set_flags[] = {
    {"every", "D", false, "every D, counted from now; 1s or more"},
    {"cron", "S", false,
     "by the calendar: 'second minute hour day month weekday', each *, a number, a-b, "
     "*/n or a list with commas"},
    {"zone", "Z", false, "the time zone of --cron, as Europe/Berlin (UTC)"},
    {"catch-up", "C", false,
     "firings missed while there was no leader: skip, one or all (skip)"},
    {"overlap", "O", false,
     "while the message of the last firing is still in the queue: allow or skip "
     "(allow)"},
    {"until", "T", false, "no firing after T"},
    {"count", "N", false, "at most N firings"},
    {"file", "F", false, "the body is the content of F; - is stdin"},
    {"key", "K", true, "a further key of its messages"},
    {"tag", "T", false, "a tag that receivers may filter by"},
    {"group", "G", false, "messages of one group are received in order"},
    {"priority", "N", false, "1 (first) to 16 (last)"},
    {"ttl", "D", false, "how long a message may stay once it is ready"},
    {"attr", "k=v", true, "an attribute of the message, as in send"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag worker_flags[] = {
    {"concurrency", "N", false, "commands that run at once, 1 to 256 (1)"},
    {"lease", "D", false, "hold a message so long at a time; else the queue's lease"},
    {"give-up", "D", false,
     "stop keeping the lease of a command that runs longer; it is left alone, the "
     "message "
     "comes back (12h)"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag bench_flags[] = {
    {"scenario", "S", false,
     "latency, send, lifecycle, delayed, ceiling, backlog or samedue (lifecycle)"},
    {"producers", "N", false, "connections that send (2)"},
    {"consumers", "N", false, "connections that receive (2)"},
    {"size", "B", false, "bytes of a body (100)"},
    {"batch", "N", false, "messages per request, 1 to 256"},
    {"inflight", "N", false, "requests on the wire per connection, 1 to 512"},
    {"duration", "D", false, "how long to measure (10s)"},
    {"count", "N", false, "messages of delayed (10000), samedue (100000), backlog"},
    {"http", "ADDR", true,
     "http-listen address of a node: samedue tells how long its loop was busy"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag redrive_flags[] = {
    {"to", "Q", false, "all to this queue (each to the queue it came from)"},
    {"filter", "EXPR", false, "only these tags: `a`, or `a || b` (every message)"},
    {"rate", "N", false, "at most N messages a second (as fast as it goes)"},
    {"limit", "N", false, "move N messages, then end"},
    {"dry-run", NULL, false, "move nothing: count what would be moved"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag queue_purge_flags[] = {
    {"state", "S", true, "only these: ready, scheduled, parked or acked"},
    {"before", "T", false, "only what was first ready, is due, or was acked before"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag queue_pause_flags[] = {
    {"mode", "M", false, "receive, send or both (both)"},
    {"until", "T", false, "resume by itself then"},
    {"reason", "R", false, "shown to whoever looks at the queue"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag replay_flags[] = {
    {"from", "T", false, "all that were acked at this time or later"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag user_create_flags[] = {
    {"new-password-file", "F", false,
     "the first line of F is the password, - is stdin; else it is asked for"},
    {"no-password", NULL, false, "a user that logs in with tokens only"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag user_password_flags[] = {
    {"new-password-file", "F", false,
     "the first line of F is the password, - is stdin; else it is asked for"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag token_create_flags[] = {
    {"expires", "T", false, "worthless from T on; else it does not expire"},
    {"expires-in", "D", false, "the same, counted from now"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag topic_delete_flags[] = {
    {"force", NULL, false, "also when queues subscribe to it"},
    {NULL, NULL, false, NULL},
};

static const struct tool_flag topic_subscribe_flags[] = {
    {"filter", "EXPR", false, "only these tags: `a`, or `a || b` (every message)"},
    {NULL, NULL, false, NULL},
};

const struct tool_command tool_commands[] = {
    {"queue create", "Q", 1, 1, "make a queue",
     "Attributes are k=v with a number, a duration (30s), a size (64KiB), true, false "
     "or a "
     "word. Making it again with equal attributes is no error. dead_letter=D names the "
     "queue, which must exist, that messages go to when they are given up.",
     queue_create_flags, tool_queue_create},
    {"queue set", "Q k=v...", 2, 65, "change attributes of a queue, at once",
     "As for queue create; k= sets the default.", NULL, tool_queue_set},
    {"queue show", "Q", 1, 1, "print a queue's attributes and counters", NULL, NULL,
     tool_queue_show},
    {"queue list", "[PREFIX]", 0, 1, "print the names of queues", NULL, NULL,
     tool_queue_list},
    {"queue delete", "Q", 1, 1, "delete a queue", NULL, queue_delete_flags,
     tool_queue_delete},
    {"queue purge", "Q", 1, 1, "remove messages of a queue",
     "Every message, in one step, or with --state or --before a part of them, in "
     "steps.",
     queue_purge_flags, tool_queue_purge},
    {"queue pause", "Q", 1, 1, "let a queue hand out or take in nothing for a while",
     "While it is paused receives wait as if it were empty, and sends are refused with "
     "Paused. Leases go on.",
     queue_pause_flags, tool_queue_pause},
    {"queue resume", "Q", 1, 1, "end a pause", NULL, NULL, tool_queue_resume},
    {"send", "Q [BODY]", 1, 2, "send a message, or one per line of stdin",
     "Prints the id once a majority has it on disk. With --lines all lines are "
     "confirmed "
     "before the end, and a lost answer or a new leader stores none of them twice. A "
     "body "
     "that begins with - is given after --.",
     send_flags, tool_send},
    {"receive", "Q", 1, 1, "receive messages",
     "Prints nothing when there is none. A message that is not acked comes back when "
     "its "
     "lease ends.",
     receive_flags, tool_receive},
    {"ack", "Q RECEIPT...", 2, TOOL_WORDS_ANY, "delete messages that are done", NULL,
     NULL, tool_ack},
    {"extend", "Q RECEIPT D", 3, 3, "hold a message for D from now", NULL, NULL,
     tool_extend},
    {"release", "Q RECEIPT", 2, 2, "give a message back, not counted as a failure",
     NULL, release_flags, tool_release},
    {"fail", "Q RECEIPT", 2, 2, "count a failure and try again later", NULL, fail_flags,
     tool_fail},
    {"reject", "Q RECEIPT", 2, 2, "dead-letter a message, or park it", NULL,
     reason_flags, tool_reject},
    {"park", "Q RECEIPT", 2, 2, "set a message aside for a human", NULL, reason_flags,
     tool_park},
    {"kick", "Q [ID]", 1, 2, "make parked messages ready again, counters at 0",
     "Give the id of one message, or --count.", kick_flags, tool_kick},
    {"tx", "[FILE]", 0, 1, "do several things as one: all or none",
     "Reads one item per line of FILE, or of stdin, each a JSON object: "
     "{\"do\": \"ack\", \"queue\": \"in\", \"receipt\": \"...\"}. \"do\" is ack, extend (with "
     "\"lease\"), release, fail (both may have \"delay\"), reject or park (they and fail "
     "may have \"reason\"); send, with \"body\" and, as wanted, delay, at, ttl, priority, "
     "tag, keys, group, dedup_id; or cancel, with \"id\" or \"key\", and include_ready or "
     "revoke. The items are done in their order, up to 256 of them. When one is refused "
     "nothing is done, and the error names it.",
     NULL, tool_tx},
    {"peek", "Q", 1, 1, "look at messages without touching them", NULL, peek_flags,
     tool_peek},
    {"schedule list", "Q", 1, 1, "print scheduled messages in the order of their times",
     "Messages that wait for their next try are among them, marked as such. Those of a "
     "key come in the order of their sending.",
     schedule_list_flags, tool_schedule_list},
    {"schedule count", "Q", 1, 1, "count scheduled messages", NULL,
     schedule_count_flags, tool_schedule_count},
    {"schedule get", "Q [ID]", 1, 2, "print a message, wherever it stands",
     "By its id, or with --key all that carry a key.", schedule_get_flags,
     tool_schedule_get},
    {"schedule cancel", "Q [ID]", 1, 2, "remove a message before anybody gets it",
     "By its id, or with --key all that carry a key. A message that a consumer holds "
     "is "
     "left alone unless --revoke is given, and so is one that was handed out before "
     "and "
     "is ready again. Either it is removed and nobody gets it, or the command is "
     "refused and says where the message is; with a key it is refused when none could "
     "be removed.",
     schedule_cancel_flags, tool_schedule_cancel},
    {"schedule reschedule", "Q [ID]", 1, 2, "give a scheduled message another time",
     NULL, schedule_reschedule_flags, tool_schedule_reschedule},
    {"schedule fire", "Q [ID]", 1, 2, "make a scheduled message ready at once", NULL,
     schedule_fire_flags, tool_schedule_fire},
    {"schedule priority", "Q [ID]", 1, 2,
     "give a scheduled or ready message another priority", NULL,
     schedule_priority_flags, tool_schedule_priority},
    {"recur set", "Q KEY [BODY]", 2, 3, "send a message again and again",
     "KEY names the rule within the queue, and is a key of each of its messages. A "
     "rule "
     "of that key that is there is replaced; one that is equal goes on as it was. "
     "Hours "
     "that a change of the clock leaves out, or that come twice, come once.",
     recur_set_flags, tool_recur_set},
    {"recur remove", "Q KEY", 2, 2, "send it no more; what was sent stays", NULL, NULL,
     tool_recur_remove},
    {"recur list", "Q", 1, 1, "print the rules of a queue, and when they fire next",
     NULL, NULL, tool_recur_list},
    {"stats", "[Q]", 0, 1, "print the counters of one queue or of all", NULL, NULL,
     tool_stats},
    {"redrive start", "DLQ", 1, 1, "bring dead letters back",
     "The cluster moves what is ready in DLQ now, whoever leads, and goes on when this "
     "command has ended. Counts begin anew. What its target does not take (it is full, "
     "or deleted) stays in DLQ and is counted as failed.",
     redrive_flags, tool_redrive_start},
    {"redrive status", "ID", 1, 1, "print how far a redrive is", NULL, NULL,
     tool_redrive_status},
    {"redrive list", "[DLQ]", 0, 1, "print the redrives, the ended ones included",
     "256 are remembered.", NULL, tool_redrive_list},
    {"redrive pause", "ID", 1, 1, "let a redrive stand still", NULL, NULL,
     tool_redrive_pause},
    {"redrive resume", "ID", 1, 1, "let a redrive go on", NULL, NULL,
     tool_redrive_resume},
    {"redrive cancel", "ID", 1, 1, "end a redrive; what has moved stays moved", NULL,
     NULL, tool_redrive_cancel},
    {"topic create", "T", 1, 1, "make a topic", "Making it again is no error.", NULL,
     tool_topic_create},
    {"topic delete", "T", 1, 1, "delete a topic",
     "Its subscriptions go with it; the messages that queues have stay.",
     topic_delete_flags, tool_topic_delete},
    {"topic list", "[PREFIX]", 0, 1, "print the names of topics", NULL, NULL,
     tool_topic_list},
    {"topic show", "T", 1, 1, "print a topic and the queues that subscribe to it", NULL,
     NULL, tool_topic_show},
    {"topic subscribe", "T Q", 2, 2, "give a queue a copy of what is published",
     "Doing it again replaces the filter.", topic_subscribe_flags,
     tool_topic_subscribe},
    {"topic unsubscribe", "T Q", 2, 2, "give a queue nothing of a topic any more", NULL,
     NULL, tool_topic_unsubscribe},
    {"publish", "T [BODY]", 1, 2,
     "send a message, or one per line of stdin, to every queue that subscribes",
     "As for send. Every queue whose filter takes a message gets a copy, or, when one "
     "of them cannot take it, none does. Prints the id that the copies have in common.",
     send_flags, tool_send},
    {"replay", "Q [ID]", 1, 2, "make acked messages ready again",
     "The queue must keep them (retain_acked). One by its id, or all that were acked "
     "since --from.",
     replay_flags, tool_replay},
    {"worker", "Q -- COMMAND ARG...", 2, TOOL_WORDS_ANY,
     "run a command for each message",
     "The body comes on stdin; HOLDFAST_ID, HOLDFAST_QUEUE, HOLDFAST_RECEIPT, "
     "HOLDFAST_DELIVERIES, HOLDFAST_FAILURES, HOLDFAST_PRIORITY, HOLDFAST_TAG, "
     "HOLDFAST_GROUP, HOLDFAST_KEYS (one per line), HOLDFAST_SENT_AT and "
     "HOLDFAST_ATTR_name are set. "
     "Exit 0 acks the message, 75 releases it (not counted; ready again after up to "
     "100 ms, twice as long each time it was given back before, at most 10 s), 65 "
     "rejects it; anything else fails it with "
     "the last line of stderr as the reason. The lease is kept while the command runs. "
     "SIGTERM or SIGINT: what runs is finished, nothing new is taken.",
     worker_flags, tool_worker},
    {"user create", "U", 1, 1, "make a user",
     "It may do nothing until rights are granted. Only a verifier of its password leaves "
     "this machine.",
     user_create_flags, tool_user_create},
    {"user password", "U", 1, 1, "give a user a new password",
     "Everybody may change their own.", user_password_flags, tool_user_password},
    {"user disable", "U", 1, 1, "let a user log in no more, and end its connections",
     NULL, NULL, tool_user_disable},
    {"user enable", "U", 1, 1, "let a user log in again", NULL, NULL, tool_user_enable},
    {"user delete", "U", 1, 1, "delete a user with its tokens and rights", NULL, NULL,
     tool_user_delete},
    {"user list", "", 0, 0, "print the users", NULL, NULL, tool_user_list},
    {"user show", "U", 1, 1, "print the rights and tokens of a user", NULL, NULL,
     tool_user_show},
    {"user grant", "U SCOPE RIGHT...", 3, 6, "say what a user may do",
     "RIGHT is send, receive, manage, cluster or all. SCOPE is a queue or topic, or the "
     "beginning of names and a star (orders/*), or * for all; what was granted with the "
     "same scope is replaced. cluster (members and users) is of the scope * only.",
     NULL, tool_user_grant},
    {"user revoke", "U SCOPE", 2, 2, "take back what was granted with a scope", NULL,
     NULL, tool_user_revoke},
    {"user token", "U NAME", 2, 2, "draw a token for a user and print it",
     "It is printed this once and known to nobody else. One of the same name is "
     "replaced.",
     token_create_flags, tool_token_create},
    {"user revoke-token", "U NAME", 2, 2, "make a token worthless", NULL, NULL,
     tool_token_revoke},
    {"cluster status", "", 0, 0, "ask every node what it is and holds",
     "Ends with a line that says whether all nodes agree.", NULL, tool_cluster_status},
    {"cluster digest", "", 0, 0, "have every node hash its state, and compare", NULL,
     NULL, tool_cluster_digest},
    {"cluster add", "ID [ADDR]", 1, 2, "take in a node that has started and knocked",
     "Its address is the one it knocked with: ADDR may be given and is not needed. It "
     "receives the log or the whole state, and votes when it has caught up.",
     NULL, tool_cluster_add},
    {"cluster promote", "ID", 1, 1, "wait until a node that was added votes", NULL,
     NULL, tool_cluster_promote},
    {"cluster remove", "ID", 1, 1, "take a node out", NULL, NULL, tool_cluster_remove},
    {"cluster transfer", "[ID]", 0, 1, "hand leadership over", NULL, NULL,
     tool_cluster_transfer},
    {"cluster backup", "FILE", 1, 1, "write the whole state to a file",
     "Everything that was confirmed before is in it, at one index of the log: queues, "
     "messages, schedules, users. The cluster goes on meanwhile. FILE is there whole or "
     "not at all; until then its name is FILE.partial.",
     backup_flags, tool_cluster_backup},
    {"cluster restore", "FILE", 1, 1, "make a data directory from a backup",
     "For the first node of a new cluster: start it with --bootstrap and its own address "
     "alone in --peers, then add others. A file that is damaged or not whole is refused, "
     "and so is a directory that is not empty. Runs holdfastd --restore; talks to no "
     "cluster.",
     restore_flags, tool_cluster_restore},
    {"bench", "", 0, 0, "measure",
     "Makes its own queues and deletes them. Prints one JSON object: rates, latencies "
     "in "
     "microseconds, counts. ceiling sends commands that have no effect through the "
     "log: the "
     "most that any operation could reach.",
     bench_flags, tool_bench},
    {"completion", "SHELL", 1, 1, "print the completion of bash, zsh or fish",
     "For bash: source <(holdfast completion bash). Installed, all three find it by "
     "themselves.",
     NULL, tool_completion},
    {NULL, NULL, 0, 0, NULL, NULL, NULL, NULL},
};
