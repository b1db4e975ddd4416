/* client_cluster.c: the calls of holdfast.h about the cluster: ping, node status,
 * members, transfer. */
#include "proto/client.h"

#include "proto/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls that only succeed or fail ---- */

static void on_end(struct client_call *call, const struct hf_error *error,
                   const struct op_reply *reply, struct client_answer *kept)
{
    struct hf_error *out = call->ctx;

    (void)reply; /* nothing in it is asked for */
    (void)kept;
    *out = *error;
}

static int run(struct hf_client *c, struct client_call *call, struct hf_error *error)
{
    struct hf_error ended = {.status = HF_OK};

    call->done = on_end;
    call->ctx = &ended;
    return client_run_to(c, call, &ended, error);
}

int hf_ping(struct hf_client *c, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_PING);

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->safe = true;
    call->read = true;
    return run(c, call, error);
}

static int member_call(struct hf_client *c, enum op_code op, uint64_t node,
                       struct hf_error *error)
{
    struct client_call *call = client_call_new(op);

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    switch (op) {
    case OP_MEMBER_ADD:
        call->request.member_add.node = node;
        break;
    case OP_MEMBER_REMOVE:
        call->request.member_remove.node = node;
        break;
    case OP_MEMBER_PROMOTE:
        call->request.member_promote.node = node;
        break;
    default:
        call->request.transfer.node = node;
        break;
    }
    return run(c, call, error);
}

int hf_member_add(struct hf_client *c, uint64_t node, struct hf_error *error)
{
    return member_call(c, OP_MEMBER_ADD, node, error);
}

int hf_member_remove(struct hf_client *c, uint64_t node, struct hf_error *error)
{
    return member_call(c, OP_MEMBER_REMOVE, node, error);
}

int hf_member_promote(struct hf_client *c, uint64_t node, struct hf_error *error)
{
    return member_call(c, OP_MEMBER_PROMOTE, node, error);
}

int hf_transfer(struct hf_client *c, uint64_t node, struct hf_error *error)
{
    return member_call(c, OP_TRANSFER, node, error);
}

/* ---- status ---- */

static void copy_text(char *to, size_t size, struct slice from)
{
    size_t len = from.data == NULL ? 0 : from.len;

    len = len < size ? len : size - 1;
    if (len > 0) {
        memcpy(to, from.data, len);
    }
    to[len] = '\0';
}

static void convert_member(const struct op_member *from, struct hf_member *to)
{
    to->node = from->node;
    to->role = (int)from->role;
    copy_text(to->peer_address, sizeof to->peer_address, from->peer_address);
    copy_text(to->client_address, sizeof to->client_address, from->client_address);
    to->match = from->match;
    to->reachable = from->reachable;
}

static void convert_status(const struct op_node_status_reply *from, struct hf_node *to)
{
    to->node = from->node;
    copy_text(to->cluster, sizeof to->cluster, from->cluster);
    to->cluster_id = from->cluster_id;
    copy_text(to->version, sizeof to->version, from->version);
    copy_text(to->state, sizeof to->state, from->state);
    to->term = from->term;
    to->leader_id = from->leader_id;
    copy_text(to->leader, sizeof to->leader, from->leader);
    to->applied = from->applied;
    to->commit = from->commit;
    to->last_index = from->last_index;
    to->first_index = from->first_index;
    to->digest_index = from->digest_index;
    to->digest = from->digest;
    to->cluster_ms = from->cluster_ms;
    to->member_count =
        from->member_count < HF_MEMBERS_MAX ? from->member_count : HF_MEMBERS_MAX;
    for (size_t i = 0; i < to->member_count; i++) {
        convert_member(&from->members[i], &to->members[i]);
    }
}

static void on_status(struct client_call *call, const struct hf_error *error,
                      const struct op_reply *reply, struct client_answer *kept)
{
    struct hf_node *node = call->ctx;

    (void)kept; /* not asked for */
    node->error = *error;
    if (reply != NULL) {
        convert_status(&reply->node_status, node);
    }
}

/* NULL when out of memory. */
static struct client_call *status_call(struct hf_client *c, int index, int digest,
                                       struct hf_node *node)
{
    struct client_call *call = client_call_new(OP_NODE_STATUS);

    if (call == NULL) {
        return NULL;
    }
    memset(node, 0, sizeof *node);
    snprintf(node->address, sizeof node->address, "%s", c->finder.nodes[index].address);
    node->node = c->finder.nodes[index].node;
    node->error.status = HF_E_CLOSED; /* until it has ended */
    call->request.node_status.digest = digest != 0;
    call->node = index;
    call->safe = true;
    call->read = true;
    call->done = on_status;
    call->ctx = node;
    return call;
}

int hf_node_status(struct hf_client *c, const char *address, int digest,
                   struct hf_node *out, struct hf_error *error)
{
    int index = finder_add(&c->finder, slice_text(address), false);
    struct hf_node *node;
    struct client_call *call;
    int rc;

    if (index < 0) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "'%.80s' is not HOST:PORT",
                            address);
    }
    node = malloc(sizeof *node);
    call = node != NULL ? status_call(c, index, digest, node) : NULL;
    if (call == NULL) {
        free(node);
        return client_out_of_memory(error);
    }
    rc = client_run(c, call, error);
    if (rc == HF_OK) {
        rc = node->error.status;
        if (error != NULL) {
            *error = node->error;
        }
    }
    if (rc == HF_OK) {
        *out = *node;
    }
    free(node);
    return rc;
}

/* Ask those of the finder's nodes that were not asked yet, all at once. Returns how
 * many are asked in all. */
static size_t ask_new(struct hf_client *c, int digest, bool asked[FINDER_NODES_MAX],
                      struct hf_node *nodes, size_t count, size_t capacity)
{
    for (int i = 0; i < (int)FINDER_NODES_MAX && count < capacity; i++) {
        struct client_call *call;

        if (!c->finder.nodes[i].used || asked[i]) {
            continue;
        }
        call = status_call(c, i, digest, &nodes[count]);
        if (call == NULL) {
            break;
        }
        asked[i] = true;
        count++;
        client_begin(c, call);
    }
    return count;
}

static bool all_ended(const struct hf_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].error.status == HF_E_CLOSED) {
            return false;
        }
    }
    return true;
}

/* Who was asked, and why each did not answer, as far as there is room. */
static int nobody_answered(const struct hf_node *nodes, size_t count,
                           struct hf_error *error)
{
    char reasons[HF_SENTENCE_BYTES - 24] = "";
    size_t len = 0;

    for (size_t i = 0; i < count && len + 1 < sizeof reasons; i++) {
        len += (size_t)snprintf(reasons + len, sizeof reasons - len, "%s%s: %s",
                                i > 0 ? ", " : "", nodes[i].address,
                                nodes[i].error.sentence);
    }
    (void)client_error(error, HF_E_NO_LEADER, "no node answered (%s)", reasons);
    if (error != NULL) {
        error->unreachable = 1;
    }
    return HF_E_NO_LEADER;
}

/* A member named under two addresses answers twice: keep the first answer. One that did
 * not answer but whose id did under another address is no news either. */
static size_t without_twins(struct hf_node *nodes, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        bool twin = false;

        for (size_t j = 0; j < count && !twin; j++) {
            twin = j != i && nodes[i].node != 0 && nodes[j].node == nodes[i].node &&
                   nodes[j].error.status == HF_OK &&
                   (j < i || nodes[i].error.status != HF_OK);
        }
        if (!twin && kept != i) {
            nodes[kept] = nodes[i];
        }
        kept += twin ? 0 : 1;
    }
    return kept;
}

int hf_cluster_status(struct hf_client *c, int digest, struct hf_node *nodes,
                      size_t capacity, size_t *count, struct hf_error *error)
{
    bool asked[FINDER_NODES_MAX] = {false};
    size_t known = 0;
    size_t before;

    if (c->in_callback) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "a callback must not block");
    }
    /* Whoever answers names its members, and those that are new to us are asked too. */
    do {
        before = known;
        known = ask_new(c, digest, asked, nodes, known, capacity);
        while (!all_ended(nodes, known)) {
            if (hf_poll(c, NULL, 0, -1) != HF_OK) {
                return client_error(error, HF_E_INTERNAL,
                                    "waiting for the nodes failed");
            }
        }
        for (size_t i = before; i < known; i++) {
            for (size_t m = 0;
                 nodes[i].error.status == HF_OK && m < nodes[i].member_count; m++) {
                (void)finder_add(&c->finder,
                                 slice_text(nodes[i].members[m].client_address), false);
            }
        }
    } while (known > before);
    for (size_t i = 0; i < known; i++) {
        if (nodes[i].error.status == HF_OK) {
            *count = without_twins(nodes, known);
            return client_error(error, HF_OK, "%s", "");
        }
    }
    return nobody_answered(nodes, known, error);
}
