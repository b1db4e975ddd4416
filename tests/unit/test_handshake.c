/* test_handshake.c: two nodes prove themselves, and what does not. */
#include "raftlog/bytes.h"
#include "raftlog/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct handshake_self acceptor = {"cluster", "secret", 1, 1001, 0};
static const struct handshake_self dialer = {"cluster", "secret", 2, 1002, 0};
static const struct handshake_peer wanted = {PURPOSE_RAFT, 1, 1001, 0};

struct talk {
    uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES];
    uint8_t proof[HANDSHAKE_PROOF_BYTES];
    uint8_t answer[HANDSHAKE_ANSWER_BYTES];
    struct handshake_peer seen;
    enum handshake_status status;
};

/* Challenge, proof and its check. */
static int prove(const struct handshake_self *from, const struct handshake_peer *to,
                 struct talk *t)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(handshake_challenge(t->challenge), HF_OK);
    assert_int_equal(handshake_prove(from, to, t->challenge, t->proof), HF_OK);
    return handshake_check_proof(&acceptor, t->challenge, t->proof, &t->seen,
                                 &t->status);
}

/* Both sides learn who the other one is. */
static void both_sides_are_proven(void **state)
{
    struct handshake_peer peer;
    struct talk t;

    (void)state;
    assert_int_equal(prove(&dialer, &wanted, &t), HF_OK);
    assert_int_equal(t.status, HANDSHAKE_OK);
    assert_int_equal(t.seen.node, 2);
    assert_int_equal(t.seen.disk_id, 1002);
    assert_int_equal(t.seen.purpose, PURPOSE_RAFT);
    handshake_answer(&acceptor, t.challenge, t.proof, HANDSHAKE_OK, t.answer);
    assert_int_equal(handshake_check_answer(&dialer, t.challenge, t.proof, t.answer,
                                            &peer, &t.status),
                     HF_OK);
    assert_int_equal(peer.node, 1);
    assert_int_equal(peer.disk_id, 1001);
}

/* The wrong secret or cluster is refused, and nothing is proven by the refusal. */
static void strangers_are_refused(void **state)
{
    struct handshake_self other = dialer;
    struct handshake_peer peer;
    struct talk t;

    (void)state;
    other.secret = "guess";
    assert_int_equal(prove(&other, &wanted, &t), HF_E_AUTH_FAILED);
    assert_int_equal(t.status, HANDSHAKE_WRONG_SECRET);
    handshake_answer(&acceptor, t.challenge, t.proof, t.status, t.answer);
    assert_int_equal(handshake_check_answer(&other, t.challenge, t.proof, t.answer,
                                            &peer, &t.status),
                     HF_E_AUTH_FAILED);
    other = dialer;
    other.cluster = "clusteR";
    assert_int_equal(prove(&other, &wanted, &t), HF_E_AUTH_FAILED);
    assert_int_equal(t.status, HANDSHAKE_OTHER_CLUSTER);
}

/* A proof is for one node, one disk; only a knock may be for any disk. */
static void a_proof_is_for_one_disk(void **state)
{
    struct handshake_self self = dialer;
    struct handshake_peer to = wanted;
    struct talk t;

    (void)state;
    to.node = 3;
    assert_int_equal(prove(&dialer, &to, &t), HF_OK);
    assert_int_equal(t.status, HANDSHAKE_OTHER_NODE);
    to = wanted;
    to.disk_id = 1003;
    assert_int_equal(prove(&dialer, &to, &t), HF_OK);
    assert_int_equal(t.status, HANDSHAKE_OTHER_DISK);
    to.disk_id = 0;
    assert_int_equal(prove(&dialer, &to, &t), HF_OK);
    assert_int_equal(t.status, HANDSHAKE_OTHER_DISK);
    to.purpose = PURPOSE_KNOCK;
    assert_int_equal(prove(&dialer, &to, &t), HF_OK);
    assert_int_equal(t.status, HANDSHAKE_OK);
    self.node = 1;
    assert_int_equal(prove(&self, &wanted, &t), HF_OK);
    assert_int_equal(t.status, HANDSHAKE_SAME_NODE);
}

/* Members of two clusters of one name are told apart; a blank disk belongs to none. */
static void members_of_two_clusters_refuse_each_other(void **state)
{
    struct handshake_self self = dialer;
    struct handshake_self host = acceptor;
    struct handshake_peer peer;
    struct talk t;

    (void)state;
    host.cluster_id = 7;
    for (uint64_t id = 0; id < 10; id++) {
        self.cluster_id = id;
        assert_int_equal(prove(&self, &wanted, &t), HF_OK);
        assert_int_equal(handshake_check_proof(&host, t.challenge, t.proof, &t.seen,
                                               &t.status),
                         HF_OK);
        assert_int_equal(t.status,
                         id == 0 || id == 7 ? HANDSHAKE_OK : HANDSHAKE_OTHER_ORIGIN);
        assert_int_equal(t.seen.cluster_id, id);
        handshake_answer(&host, t.challenge, t.proof, t.status, t.answer);
        assert_int_equal(handshake_check_answer(&self, t.challenge, t.proof, t.answer,
                                                &peer, &t.status),
                         HF_OK);
        assert_int_equal(peer.cluster_id, 7);
    }
}

/* A proof made for one challenge does not answer another one. */
static void a_proof_cannot_be_replayed(void **state)
{
    struct talk a;
    struct talk b;

    (void)state;
    assert_int_equal(prove(&dialer, &wanted, &a), HF_OK);
    assert_int_equal(handshake_challenge(b.challenge), HF_OK);
    assert_int_equal(
        handshake_check_proof(&acceptor, b.challenge, a.proof, &b.seen, &b.status),
        HF_E_AUTH_FAILED);
}

/* No flipped bit in a proof goes unnoticed. */
static void a_changed_proof_is_refused(void **state)
{
    struct talk t;
    size_t i;

    (void)state;
    assert_int_equal(prove(&dialer, &wanted, &t), HF_OK);
    for (i = 0; i < 8 * sizeof t.proof; i++) {
        t.proof[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_int_not_equal(
            handshake_check_proof(&acceptor, t.challenge, t.proof, &t.seen, &t.status),
            HF_OK);
        t.proof[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
}

/* Nor in an answer: a refusal cannot be made into a welcome on the way, nor a dialer's
 * own proof sent back to it as an answer. */
static void a_changed_answer_is_refused(void **state)
{
    struct handshake_peer peer;
    struct talk t;
    size_t i;

    (void)state;
    assert_int_equal(prove(&dialer, &wanted, &t), HF_OK);
    handshake_answer(&acceptor, t.challenge, t.proof, HANDSHAKE_REMOVED, t.answer);
    for (i = 0; i < 8 * sizeof t.answer; i++) {
        t.answer[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_int_not_equal(handshake_check_answer(&dialer, t.challenge, t.proof,
                                                    t.answer, &peer, &t.status),
                             HF_OK);
        t.answer[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    memcpy(t.answer + 24, t.proof + 144, 32);
    assert_int_equal(handshake_check_answer(&dialer, t.challenge, t.proof, t.answer,
                                            &peer, &t.status),
                     HF_E_AUTH_FAILED);
}

/* Random bytes are not a handshake, at any of its steps. */
static void random_bytes_are_refused(void **state)
{
    struct handshake_peer peer;
    struct talk t;
    size_t i;
    int round;

    (void)state;
    srandom(7);
    for (round = 0; round < 1000; round++) {
        for (i = 0; i < sizeof t; i++) {
            ((uint8_t *)&t)[i] = (uint8_t)random();
        }
        assert_int_not_equal(handshake_prove(&dialer, &wanted, t.challenge, t.proof),
                             HF_OK);
        assert_int_not_equal(
            handshake_check_proof(&acceptor, t.challenge, t.proof, &t.seen, &t.status),
            HF_OK);
        assert_int_not_equal(handshake_check_answer(&dialer, t.challenge, t.proof,
                                                    t.answer, &peer, &t.status),
                             HF_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_are_proven),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_proof_is_for_one_disk),
        cmocka_unit_test(members_of_two_clusters_refuse_each_other),
        cmocka_unit_test(a_proof_cannot_be_replayed),
        cmocka_unit_test(a_changed_proof_is_refused),
        cmocka_unit_test(a_changed_answer_is_refused),
        cmocka_unit_test(random_bytes_are_refused),
    };

    return cmocka_run_group_tests_name("handshake", tests, NULL, NULL);
}
