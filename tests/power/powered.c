/* powered.c: see powered.h. */
#include "tests/power/powered.h"

#include "tests/lib/cases.h"

#include <sys/stat.h>

void power_on(struct powered *p, int node)
{
    char shim[4096];

    snprintf(shim, sizeof shim, "%s", cluster_program("libpower_shim.so"));
    setenv("HOLDFAST_POWER_DATA", p->c->node[node].data, 1);
    setenv("HOLDFAST_POWER_UNDO", p->undo[node], 1);
    setenv("LD_PRELOAD", shim, 1);
    node_start(p->c, node);
    unsetenv("LD_PRELOAD");
}

void power_off(struct powered *p, int node)
{
    if (p->c->node[node].pid != 0) {
        node_kill(p->c, node);
    }
    power_fail(p->c->node[node].data, p->undo[node], &p->random, &p->figures);
}

void power_crash(struct powered *p, int node)
{
    if (p->c->node[node].pid != 0) {
        node_kill(p->c, node);
    }
    power_stays(p->undo[node]);
}

void powered_start(struct powered *p)
{
    /* Small steps, so that cuts meet checkpoints, new segments and cut logs. */
    static const char *const flags[] = {"--checkpoint-bytes", "2MiB",
                                        "--trailing-bytes", "1MiB", NULL};
    const struct cluster_options options = {.flags = flags};

    memset(p, 0, sizeof *p);
    p->random = probe_seed();
    p->c = cluster_prepare(&options);
    for (int i = 1; i <= 3; i++) {
        snprintf(p->undo[i], sizeof p->undo[i], "%s/undo-%d", p->c->dir, i);
        assert_int_equal(mkdir(p->undo[i], 0700), 0);
        power_on(p, i);
    }
    cluster_leader(p->c, 20000);
}
