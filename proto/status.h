/* status.h: every way an operation can end, in one list.
 *
 * A function that can fail returns 0 (HF_OK) or one of these codes; all are negative. On the wire a status
 * travels as the positive number (wire = -code). Numbers are never reused.
 *
 * Classes tell a client what to do:
 *   OK         done.
 *   RETRIABLE  nothing happened; the same request may succeed later (backoff, retry_after_ms).
 *   REDIRECT   nothing happened; ask the node named by the leader hint at once.
 *   CLIENT     nothing happened; the request has to change before it can succeed.
 *   UNKNOWN    it may or may not have happened: safe to repeat for numbered sends, acks and extends.
 *   FATAL      this node or this connection cannot go on. */
#ifndef HF_PROTO_STATUS_H
#define HF_PROTO_STATUS_H

enum status_class {
    STATUS_CLASS_OK,
    STATUS_CLASS_RETRIABLE,
    STATUS_CLASS_REDIRECT,
    STATUS_CLASS_CLIENT,
    STATUS_CLASS_UNKNOWN,
    STATUS_CLASS_FATAL
};

/*    code                      wire  name                  class      text */
#define STATUS_MAP(X)                                                                                      \
    X(HF_OK,                    0,    "OK",                 OK,        "success")                          \
    X(HF_E_QUEUE_NOT_FOUND,    -1,    "QueueNotFound",      CLIENT,    "there is no queue of this name")   \
    X(HF_E_QUEUE_EXISTS,       -2,    "QueueExists",        CLIENT,    "a queue of this name exists with other attributes") \
    X(HF_E_MESSAGE_NOT_FOUND,  -3,    "MessageNotFound",    CLIENT,    "the message is gone")              \
    X(HF_E_STALE_RECEIPT,      -4,    "StaleReceipt",       CLIENT,    "the receipt no longer holds the message") \
    X(HF_E_RECEIPT_MALFORMED,  -5,    "ReceiptMalformed",   CLIENT,    "this is not a receipt of this queue") \
    X(HF_E_IN_FLIGHT,          -6,    "InFlight",           CLIENT,    "a consumer holds the message")     \
    X(HF_E_INVALID_ARGUMENT,   -7,    "InvalidArgument",    CLIENT,    "an argument is out of its bounds") \
    X(HF_E_TOO_LARGE,          -8,    "TooLarge",           CLIENT,    "the message or batch is too large") \
    X(HF_E_QUEUE_FULL,         -9,    "QueueFull",          RETRIABLE, "the queue is at its limit")        \
    X(HF_E_TOO_MANY_WAITERS,  -10,    "TooManyWaiters",     RETRIABLE, "too many receives are waiting")    \
    X(HF_E_RATE_LIMITED,      -11,    "RateLimited",        RETRIABLE, "more requests than this node takes on") \
    X(HF_E_DISK_LOW,          -12,    "DiskLow",            RETRIABLE, "the disk is nearly full; sends are refused") \
    X(HF_E_MEMORY_LOW,        -13,    "MemoryLow",          RETRIABLE, "out of memory")                    \
    X(HF_E_NOT_LEADER,        -14,    "NotLeader",          REDIRECT,  "this node is not the leader")      \
    X(HF_E_NO_LEADER,         -15,    "NoLeader",           RETRIABLE, "no leader is known to this node")  \
    X(HF_E_UNAVAILABLE,       -16,    "Unavailable",        RETRIABLE, "the node is starting or stopping") \
    X(HF_E_SEQUENCE_TOO_OLD,  -17,    "SequenceTooOld",     CLIENT,    "the producer session no longer remembers this number") \
    X(HF_E_AUTH_FAILED,       -18,    "AuthFailed",         CLIENT,    "authentication failed")            \
    X(HF_E_ACCESS_DENIED,     -19,    "AccessDenied",       CLIENT,    "no permission")                    \
    X(HF_E_VERSION_UNSUPPORTED, -20,  "VersionUnsupported", FATAL,     "no protocol version in common")    \
    X(HF_E_LEASE_CAP_REACHED, -21,    "LeaseCapReached",    CLIENT,    "the lease cannot be extended further") \
    X(HF_E_PAUSED,            -22,    "Paused",             RETRIABLE, "the queue is paused")              \
    X(HF_E_UNKNOWN_OUTCOME,   -23,    "UnknownOutcome",     UNKNOWN,   "the request may or may not have taken effect") \
    X(HF_E_INTERNAL,          -24,    "Internal",           FATAL,     "internal error")                   \
    X(HF_E_QUEUE_NOT_EMPTY,   -25,    "QueueNotEmpty",      CLIENT,    "the queue holds messages")         \
    X(HF_E_CONFLICT,          -26,    "Conflict",           RETRIABLE, "another change is in progress")    \
    X(HF_E_PROTOCOL,          -27,    "ProtocolError",      FATAL,     "the bytes are not this protocol")  \
    X(HF_E_UNSUPPORTED,       -28,    "Unsupported",        CLIENT,    "this node does not know the operation") \
    X(HF_E_TIMEOUT,           -29,    "Timeout",            RETRIABLE, "no answer within the time limit")  \
    X(HF_E_CLOSED,            -30,    "Closed",             FATAL,     "the connection or handle is closed") \
    X(HF_E_IO,                -31,    "IoError",            FATAL,     "disk or socket failure")           \
    X(HF_E_CORRUPT,           -32,    "Corrupt",            FATAL,     "stored or received bytes are damaged") \
    X(HF_E_NO_SPACE,          -33,    "NoSpace",            FATAL,     "no space left on the device")      \
    X(HF_E_NOT_FOUND,         -34,    "NotFound",           CLIENT,    "there is nothing of this name")    \
    X(HF_E_VERSION_MISMATCH,  -35,    "VersionMismatch",    CLIENT,    "it has changed since that version") \
    X(HF_E_IN_USE,            -36,    "InUse",              CLIENT,    "something else still needs it")

enum status_code {
#define X(code, wire, name, class, text) code = wire,
    STATUS_MAP(X)
#undef X
};

/* The printable name ("QueueNotFound"), or "Unknown" for a number that is not in the list. */
const char *status_name(int code);

/* One plain sentence without a full stop. */
const char *status_text(int code);

enum status_class status_class(int code);

/* The code for a positive number from the wire; HF_E_INTERNAL for one that this version does not know. */
int status_from_wire(unsigned wire);

#endif
