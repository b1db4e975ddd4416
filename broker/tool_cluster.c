/* tool_cluster.c: cluster status, digest, add, promote, remove, transfer. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"
#include "proto/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MS 50
/* How long status looks for an index at which all can be compared. */
#define LOOKS_MS 500

static int64_t mono_ms(void)
{
    return clock_system()->mono_ms(clock_system()->ctx);
}

/* Does a know more than b? Who has no leader may belong to a cluster that is gone. */
static bool knows_more(const struct hf_node *a, const struct hf_node *b)
{
    bool led = a->leader_id != 0;

    return led != (b->leader_id != 0) ? led : a->applied > b->applied;
}

/* The node that knows the members best: the one with the newest applied state. */
static const struct hf_node *best_informed(const struct hf_node *nodes, size_t count)
{
    const struct hf_node *best = NULL;

    for (size_t i = 0; i < count; i++) {
        if (nodes[i].error.status == HF_OK &&
            (best == NULL || knows_more(&nodes[i], best))) {
            best = &nodes[i];
        }
    }
    return best;
}

/* A member of another cluster of the same name, left behind by a rescue or a restore. */
static bool is_foreign(const struct hf_node *n, const struct hf_node *best)
{
    return n->cluster_id != 0 && best->cluster_id != 0 &&
           n->cluster_id != best->cluster_id;
}

/* A node that does not answer is known by its address only: the members tell its id. */
static void name_silent(struct hf_node *nodes, size_t count)
{
    const struct hf_node *best = best_informed(nodes, count);

    for (size_t i = 0; best != NULL && i < count; i++) {
        for (size_t k = 0; nodes[i].node == 0 && k < best->member_count; k++) {
            if (strcmp(best->members[k].client_address, nodes[i].address) == 0) {
                nodes[i].node = best->members[k].node;
            }
        }
    }
}

static const char *role_of(const struct hf_node *nodes, size_t count,
                           const struct hf_node *n)
{
    const struct hf_node *best = best_informed(nodes, count);

    if (best != NULL && is_foreign(n, best)) {
        return "foreign";
    }
    for (size_t i = 0; best != NULL && i < best->member_count; i++) {
        if (best->members[i].node == n->node) {
            return format_role(best->members[i].role);
        }
    }
    return "none";
}

/* A node that was removed may run on and answer; its state is nobody's. */
static bool is_member(const struct hf_node *nodes, size_t count, const struct hf_node *n)
{
    const struct hf_node *best = best_informed(nodes, count);

    if (best == NULL || best->member_count == 0) {
        return true; /* nobody knows */
    }
    if (is_foreign(n, best)) {
        return false;
    }
    for (size_t i = 0; i < best->member_count; i++) {
        if (n->node != 0
                ? best->members[i].node == n->node
                : strcmp(best->members[i].client_address, n->address) == 0) {
            return true;
        }
    }
    return false;
}

/* Those of the nodes that are members come first; returns how many. */
static size_t members_first(struct hf_node *nodes, size_t count)
{
    size_t members = 0;

    for (size_t i = 0; i < count; i++) {
        if (is_member(nodes, count, &nodes[i])) {
            struct hf_node other = nodes[members];

            nodes[members] = nodes[i];
            nodes[i] = other;
            members++;
        }
    }
    return members;
}

static void print_node(const struct tool *t, const struct hf_node *n, const char *role)
{
    char digest[17];
    char cluster[17];

    snprintf(digest, sizeof digest, "%016" PRIx64, n->digest);
    snprintf(cluster, sizeof cluster, "%016" PRIx64, n->cluster_id);
    if (t->json && n->error.status == HF_OK) {
        tool_print(json_pack(
            "{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s}", "id",
            (json_int_t)n->node, "address", n->address, "role", role, "state", n->state,
            "term", (json_int_t)n->term, "applied", (json_int_t)n->applied, "commit",
            (json_int_t)n->commit, "last_index", (json_int_t)n->last_index,
            "first_index", (json_int_t)n->first_index, "digest_index",
            (json_int_t)n->digest_index, "digest", digest, "version", n->version, "cluster_id",
            cluster));
    } else if (t->json) {
        tool_print(json_pack("{s:I, s:s, s:s, s:s, s:s}", "id", (json_int_t)n->node,
                             "address", n->address, "role", role, "state",
                             "unreachable", "error", n->error.sentence));
    } else if (n->error.status == HF_OK) {
        printf("%-4" PRIu64 " %-21s %-8s %-10s applied %" PRIu64 "  commit %" PRIu64
               "  last %" PRIu64 "  digest %s at %" PRIu64 "\n",
               n->node, n->address, role, n->state, n->applied, n->commit,
               n->last_index, digest, n->digest_index);
    } else {
        printf("%-4" PRIu64 " %-21s %-8s unreachable: %s\n", n->node, n->address, role,
               n->error.sentence);
    }
}

/* The leader is who says so itself, in the highest term. */
static const struct hf_node *find_leader(const struct hf_node *nodes, size_t count)
{
    const struct hf_node *leader = NULL;

    for (size_t i = 0; i < count; i++) {
        if (nodes[i].error.status == HF_OK && nodes[i].node != 0 &&
            nodes[i].leader_id == nodes[i].node &&
            (leader == NULL || nodes[i].term > leader->term)) {
            leader = &nodes[i];
        }
    }
    return leader;
}

enum agreement { AGREE, DIFFER, NOT_COMPARABLE };

/* Digests prove something only at the same index. Of those that answered, unless
 * `strict`: then who does not answer does not agree. */
static enum agreement compare(const struct hf_node *nodes, size_t count, bool strict)
{
    enum agreement result = AGREE;
    size_t answered = 0;

    for (size_t i = 0; i < count; i++) {
        if (nodes[i].error.status != HF_OK || nodes[i].digest_index == 0) {
            if (strict || nodes[i].error.status == HF_OK) {
                result = result == AGREE ? NOT_COMPARABLE : result;
            }
            continue;
        }
        answered++;
        for (size_t j = 0; j < i; j++) {
            if (nodes[j].error.status != HF_OK || nodes[j].digest_index == 0) {
                continue;
            }
            if (nodes[i].digest_index != nodes[j].digest_index) {
                result = result == AGREE ? NOT_COMPARABLE : result;
            } else if (nodes[i].digest != nodes[j].digest) {
                result = DIFFER;
            }
        }
    }
    return answered > 0 ? result : NOT_COMPARABLE;
}

static void print_summary(const struct tool *t, const struct hf_node *leader,
                          enum agreement agreement, size_t answered, size_t count)
{
    static const char *const words[] = {"same digest", "DIFFERENT DIGESTS",
                                        "digests not comparable now"};
    const char *word = words[agreement];

    if (t->json) {
        tool_print(json_pack("{s:I, s:s, s:I, s:I, s:I, s:s}", "leader",
                             (json_int_t)(leader != NULL ? leader->node : 0),
                             "leader_address", leader != NULL ? leader->address : "",
                             "term", (json_int_t)(leader != NULL ? leader->term : 0),
                             "nodes", (json_int_t)count, "answered",
                             (json_int_t)answered, "digests",
                             agreement == AGREE    ? "same"
                             : agreement == DIFFER ? "different"
                                                   : "not comparable"));
        return;
    }
    if (leader != NULL) {
        printf("leader %" PRIu64 " (%s), term %" PRIu64, leader->node, leader->address,
               leader->term);
    } else {
        printf("no leader");
    }
    printf(", %zu of %zu nodes answered, %s\n", answered, count, word);
}

static int by_id(const void *a, const void *b)
{
    const struct hf_node *x = a;
    const struct hf_node *y = b;

    return x->node < y->node ? -1 : x->node > y->node;
}

/* Replace what the nodes said by what they say together with a fresh digest, where that
 * comes in time: a node that hashes a large state is not an unreachable one. */
static void add_digests(struct tool *t, struct hf_client *client, struct hf_node *nodes,
                        size_t count)
{
    struct hf_node *fresh = calloc(HF_MEMBERS_MAX, sizeof *fresh);
    struct hf_error ignored; /* the nodes' last digests stay */
    size_t found = 0;

    if (fresh == NULL) {
        return;
    }
    hf_client_set_timeout(client, t->timeout_ms / 2 > 0 ? t->timeout_ms / 2 : 1);
    if (hf_cluster_status(client, 1, fresh, HF_MEMBERS_MAX, &found, &ignored) ==
        HF_OK) {
        for (size_t i = 0; i < count; i++) {
            for (size_t j = 0; j < found; j++) {
                if (fresh[j].node == nodes[i].node && fresh[j].error.status == HF_OK) {
                    nodes[i] = fresh[j];
                }
            }
        }
    }
    hf_client_set_timeout(client, t->timeout_ms);
    free(fresh);
}

/* What is compared and counted are the members: those first `count`. */
static bool all_answered(const struct hf_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].error.status != HF_OK) {
            return false;
        }
    }
    return true;
}

/* Nodes are asked at slightly different moments: while commands come in, they hash
 * states of different indexes. A few more looks usually find them at one. */
static void look_again(struct tool *t, struct hf_client *client, struct hf_node *nodes,
                       size_t count, bool strict)
{
    int64_t end_ms = mono_ms() + (strict ? t->timeout_ms : LOOKS_MS);

    while (all_answered(nodes, members_first(nodes, count)) &&
           compare(nodes, members_first(nodes, count), strict) == NOT_COMPARABLE &&
           mono_ms() < end_ms) {
        (void)poll(NULL, 0, PAUSE_MS); /* a pause; cut short by a signal is fine */
        add_digests(t, client, nodes, count);
    }
}

static int show_nodes(struct tool *t, struct hf_node *nodes, size_t count, bool strict)
{
    size_t members = members_first(nodes, count);
    const struct hf_node *leader;
    enum agreement agreement;
    size_t answered = 0;

    qsort(nodes, members, sizeof *nodes, by_id);
    qsort(nodes + members, count - members, sizeof *nodes, by_id);
    leader = find_leader(nodes, members);
    agreement = compare(nodes, members, strict);
    for (size_t i = 0; i < members; i++) {
        answered += nodes[i].error.status == HF_OK;
    }
    /* Scripts read the first line. */
    if (t->json) {
        print_summary(t, leader, agreement, answered, members);
    }
    for (size_t i = 0; i < count; i++) {
        print_node(t, &nodes[i], role_of(nodes, count, &nodes[i]));
    }
    if (!t->json) {
        print_summary(t, leader, agreement, answered, members);
    }
    if (agreement == DIFFER) {
        return tool_failed(t, "nodes at the same index hold different states",
                           "keep their data directories and report it");
    }
    if (strict && agreement == NOT_COMPARABLE) {
        return tool_failed(t, "the nodes did not all answer at the same index",
                           "try again when all run and nothing is being sent");
    }
    return leader == NULL ? TOOL_UNREACHABLE : TOOL_DONE;
}

/* `strict`: not being able to compare is a failure (digest), not only news (status). */
static int show_cluster(struct tool *t, bool strict)
{
    struct hf_client *client = tool_client(t);
    struct hf_node *nodes;
    struct hf_error error;
    size_t count = 0;
    int rc;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    nodes = calloc(HF_MEMBERS_MAX, sizeof *nodes);
    if (nodes == NULL) {
        return tool_failed(t, "out of memory", "free some");
    }
    if (hf_cluster_status(client, strict, nodes, HF_MEMBERS_MAX, &count, &error) !=
        HF_OK) {
        rc = tool_refused(t, NULL, &error);
        goto done;
    }
    if (!strict) {
        add_digests(t, client, nodes, count);
    }
    look_again(t, client, nodes, count, strict);
    name_silent(nodes, count);
    rc = show_nodes(t, nodes, count, strict);
done:
    free(nodes);
    return rc;
}

int tool_cluster_status(struct tool *t)
{
    return show_cluster(t, false);
}

int tool_cluster_digest(struct tool *t)
{
    return show_cluster(t, true);
}

static int change(struct tool *t,
                  int (*call)(struct hf_client *, uint64_t, struct hf_error *),
                  const char *word)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    int64_t node = 0;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (t->word_count > 0 && !format_read_number(t->words[0], 1, 65535, &node)) {
        return tool_usage(t, "'%s' is not a node id", t->words[0]);
    }
    if (call(client, (uint64_t)node, &error) != HF_OK) {
        return tool_refused(t, t->word_count > 0 ? t->words[0] : NULL, &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:I, s:s}", "id", (json_int_t)node, "done", word));
    } else if (node != 0) {
        printf("node %" PRId64 " %s\n", node, word);
    } else {
        printf("%s\n", word);
    }
    return TOOL_DONE;
}

int tool_cluster_add(struct tool *t)
{
    return change(t, hf_member_add, "added");
}

int tool_cluster_promote(struct tool *t)
{
    return change(t, hf_member_promote, "promoted");
}

int tool_cluster_remove(struct tool *t)
{
    return change(t, hf_member_remove, "removed");
}

int tool_cluster_transfer(struct tool *t)
{
    return change(t, hf_transfer, "asked to lead");
}
