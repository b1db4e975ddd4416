/* server.h: the node as a process: owns the loop, the listener, the log, and everything
 * that hangs on them. */
#ifndef HF_BROKER_SERVER_H
#define HF_BROKER_SERVER_H

#include "broker/config.h"

#define SERVER_STOP_MS  10000 /* an orderly stop takes no longer */
#define SERVER_DRAIN_MS 2000  /* of it: for clients to take their last answers */

/* Run a node until it is told to stop. `config` is finished; argc and argv are read
 * again at SIGHUP. Returns the exit code: 0 ended in order, 1 the node could not start
 * or go on (then a sentence was written). */
int server_run(struct config *config, int argc, char **argv);

#endif
