/* limits.h: every bound in one place. Bytes unless the name says otherwise; times in ms.
 *
 * Each bound has a status when it is hit; see status.h. A bound that a queue or a node may tighten is an
 * option or attribute with this as its hard limit. */
#ifndef HF_PROTO_LIMITS_H
#define HF_PROTO_LIMITS_H

/* Wire. */
#define LIMIT_FRAME_BYTES (6u << 20)    /* one message of 4 MiB plus its fields; a larger length closes */
#define LIMIT_NESTING 8u                /* msgpack containers inside each other */
#define LIMIT_ITEMS 4096u               /* elements of one msgpack container */
#define LIMIT_BATCH 256u                /* entries of one send, settle or receive */
#define LIMIT_BATCH_BYTES (1u << 20)    /* bodies of one batch, unless it is one message */
#define LIMIT_MESSAGE_BYTES (4u << 20)  /* hard limit of body + attributes */
#define LIMIT_QUEUE_NAME 128u
#define LIMIT_TAG 64u
#define LIMIT_KEYS 8u
#define LIMIT_KEY 128u
#define LIMIT_GROUP 128u
#define LIMIT_DEDUP_ID 128u
#define LIMIT_ATTRIBUTES 64u
#define LIMIT_ATTRIBUTE_NAME 128u
#define LIMIT_FILTER 1024u
#define LIMIT_CURSOR 256u
#define LIMIT_RETRY_SETTINGS 16u        /* pairs of a message's own retry policy */
#define LIMIT_RETRY_STEPS 16u           /* delays in a retry policy's list */
#define LIMIT_RETRY_STEPS_TEXT 255u     /* the same list as the text of a queue attribute */
#define LIMIT_RECEIPT 96u               /* what a request may carry as a receipt; ours have 31 bytes */
#define LIMIT_REASON 256u               /* a failure reason; longer ones are cut */
#define LIMIT_ACTOR 64u                 /* consumer or producer name */
#define LIMIT_RECEIVE_QUEUES 8u
#define LIMIT_DEAD_LETTERS 8u           /* moves to a dead-letter queue that a message remembers */
#define LIMIT_LIST 1000u                /* names, peeked messages, members in one answer */
#define LIMIT_LIST_DEFAULT 100u         /* when a request does not say */
#define LIMIT_ADDRESS 128u
#define LIMIT_BACKUP_PIECE (1u << 20)   /* bytes of a backup in one answer */
#define LIMIT_USER 64u                  /* name of a user, and of one of its tokens */
#define LIMIT_SCOPE 128u                /* a name, or its beginning and a star */
#define LIMIT_MECHANISM 32u
#define LIMIT_AUTH_PAYLOAD 1024u        /* one message of a SCRAM exchange */
#define LIMIT_TOKEN_MIN 16u
#define LIMIT_TOKEN 128u
#define LIMIT_SALT_MIN 8u
#define LIMIT_SALT 64u
#define LIMIT_ITERATIONS_MIN 4096u
#define LIMIT_ITERATIONS 10000000u
#define LIMIT_BUCKETS 1000u             /* of one SCHEDULE_COUNT answer */
#define LIMIT_SUBSCRIPTIONS 256u        /* queues of one topic: a publish is one command */
#define LIMIT_COPIES 16384u             /* messages times subscriptions of one publish */
#define LIMIT_REDRIVES 256u             /* remembered, the ended ones included */
#define LIMIT_CREDIT 10000u             /* messages a subscription may have sent ahead */
#define LIMIT_RATE 1000000u             /* messages per second of a redrive */
#define LIMIT_CRON 256u
#define LIMIT_ZONE 64u                  /* name of a time zone */
#define LIMIT_ZONE_DATA 4096u           /* a time zone, compiled */
#define LIMIT_DEAD_LETTERS 8u           /* moves to a dead-letter queue that a message remembers */

/* Times. */
#define LIMIT_WAIT_MS 60000
#define LIMIT_LEASE_MIN_MS 1000         /* of a queue; a call may ask for less: 0 gives back at once */
#define LIMIT_LEASE_MAX_MS 43200000     /* 12 h */
#define LIMIT_DELAY_HARD_MS 315360000000ll /* 10 years */
#define LIMIT_TIME_MAX_MS 253402300799999ll /* the last millisecond of the year 9999 */
#define LIMIT_RETENTION_MIN_MS 60000
#define LIMIT_RETENTION_MAX_MS 31536000000ll
#define LIMIT_ACK_MEMORY_MS 300000      /* how long a repeated ack is answered "already" */
#define LIMIT_SESSION_IDLE_MS 3600000
#define LIMIT_CONSUMER_IDLE_MS 3600000 /* without leases and heartbeats */
#define LIMIT_DEDUP_WINDOW_MS 2592000000ll /* 30 days */
#define LIMIT_EVERY_MIN_MS 1000         /* shortest interval of a recurring message */
#define LIMIT_GRACE_MS 5000

/* State machine. */
#define LIMIT_QUEUES 100000u
#define LIMIT_FIRE 1024u                /* messages moved by one fire or sweep command */
#define LIMIT_PRIORITY 16u
#define LIMIT_TX_BYTES (32u << 20)      /* of what one transaction overwrites and removes */
#define LIMIT_ATTEMPT_BYTES (16u << 20) /* of remembered receives, before memory is cut short */
#define LIMIT_SESSION_WINDOW 1024u      /* numbers remembered per producer session */
#define LIMIT_SESSIONS 100000u
#define LIMIT_CONSUMERS 100000u         /* consumer sessions */
#define LIMIT_HEARTBEAT 1000u           /* leases that one heartbeat looks at */
#define LIMIT_TOPICS 100000u
#define LIMIT_USERS 10000u
#define LIMIT_TOKENS_PER_USER 100u
#define LIMIT_GRANTS_PER_USER 1000u
#define LIMIT_RECURRING 100000u         /* recurring messages of all queues */

/* Log. */
#define LIMIT_ENTRY_COMMANDS 256u
#define LIMIT_ENTRY_BYTES (256u << 10)  /* an entry closes here; one larger command is an entry of its own */
#define LIMIT_ENTRY_RECORDS 1024u       /* the same for what its commands touch: applying it is a step of the loop */
#define LIMIT_ENTRIES_IN_FLIGHT 4u
#define LIMIT_PROPOSE_QUEUE_BYTES (64u << 20) /* beyond it: RateLimited */

/* Between nodes. */
#define LIMIT_PEER_FRAME_BYTES (16u << 20) /* a longer one closes the connection */

/* Connections. */
#define LIMIT_CONNECTIONS 20000u
#define LIMIT_REQUESTS_IN_FLIGHT 1024u  /* per connection; above it the server stops reading */
#define LIMIT_OUT_SOFT_BYTES (1u << 20) /* unsent answers: above it the server stops reading */
#define LIMIT_OUT_HARD_BYTES (8u << 20) /* above it the server closes */
#define LIMIT_WAITERS_PER_CONNECTION 256u
#define LIMIT_WAITERS 100000u

/* Disk. */
#define LIMIT_DISK_REFUSE_BYTES (256ull << 20) /* free space below it: sends are refused, no leading */
#define LIMIT_DISK_STOP_BYTES (64ull << 20)    /* below it the node stops */

#endif
