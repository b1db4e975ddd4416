/* body.h: bodies that name their message: round, sender and number, then a pattern that
 * the three decide. */
#ifndef HF_TESTS_ATTACK_BODY_H
#define HF_TESTS_ATTACK_BODY_H

#include "tests/attack/actor.h"

#define BODY_MAX 100000u

uint32_t body_len(uint32_t sender, uint32_t number);
/* The body of this actor's message, in place `i` of its bodies. */
uint8_t *body_of(struct actor *a, uint32_t i, uint32_t number);
/* False (and a violation) when the body is not one of this round's, unchanged. */
bool body_read(struct workload *w, struct slice body, uint32_t *sender,
               uint32_t *number);

#endif
