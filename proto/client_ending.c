/* client_ending.c: blocking calls whose answer the caller keeps. */
#include "proto/client.h"

#include "proto/check.h"

#include <string.h>

static void on_end(struct client_call *call, const struct hf_error *error,
                   const struct op_reply *reply, struct client_answer *kept)
{
    struct client_ending *ending = call->ctx;

    ending->error = *error;
    if (reply == NULL) {
        return;
    }
    if (ending->convert == NULL) {
        ending->existed = reply->existed.existed;
        return;
    }
    CHECK(kept != NULL);
    if (ending->convert(kept, reply) != HF_OK) {
        (void)client_out_of_memory(&ending->error);
        client_answer_free(kept);
        return;
    }
    ending->kept = kept;
}

int client_run_ending(struct hf_client *c, struct client_call *call,
                      int (*convert)(struct client_answer *kept,
                                     const struct op_reply *reply),
                      struct client_ending *ending, struct hf_error *error)
{
    memset(ending, 0, sizeof *ending);
    ending->convert = convert;
    call->keep = convert != NULL;
    call->done = on_end;
    call->ctx = ending;
    return client_run_to(c, call, &ending->error, error);
}
