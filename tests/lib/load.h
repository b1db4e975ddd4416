/* load.h: producers and consumers in the background, and a check of what they saw.
 *
 * Every body names its sender and its number, so the load itself knows what was
 * confirmed, delivered and acked; it never believes the broker's counters. Sends are
 * numbered: repeating one must not store it twice. What is checked:
 *
 *   1. every confirmed send is delivered;
 *   2. nothing is delivered to a receive that was asked after the ack of that message
 * had been answered;
 *   3. no body is seen under two message ids (stored twice);
 *   4. deliveries of one message count 1, 2, 3 without going back. */
#ifndef HF_TESTS_LIB_LOAD_H
#define HF_TESTS_LIB_LOAD_H

#include "tests/lib/cluster.h"

struct load;

struct load_options {
    const char *queue;
    int senders;             /* threads */
    int consumers;           /* threads */
    int batch;               /* messages per send; 0 = 1 */
    int body_bytes;          /* at least 16 */
    int pause_ms;            /* between two sends of a thread; 0 = as fast as it goes */
    uint32_t max_per_sender; /* stop after so many; 0 = until load_stop */
};

struct load *load_start(struct cluster *c, const struct load_options *o);
/* Wait until at least `count` sends were confirmed; false when that takes longer
 * than the bound. */
bool load_wait_confirmed(struct load *l, uint64_t count, int timeout_ms);
uint64_t load_confirmed(const struct load *l);
/* End the senders, let consumers take what is there until the queue is empty, end
 * them. */
void load_stop(struct load *l);
/* Check the four rules (fails the test), print one line of figures, free. */
void load_check(struct load *l);
/* The longest time between two confirmations of one sender so far. */
int64_t load_longest_gap_ms(const struct load *l);

#endif
