/*
 * backend.h: for those who write a backend. Embedders need only perdure.h.
 *
 * A backend keeps stores. A store is a log and a bag, and this is the whole contract. The numbered clauses are what
 * tests/contract/backend_contract.c checks; code and tests cite them by number.
 *
 *  B1  log_append(seq, records[n]) gives the records the numbers seq … seq+n-1, all or none. Numbers begin at 1.
 *  B2  If seq is taken, log_append answers PD_CONFLICT and changes nothing. If seq is past tail+1, PD_INVALID.
 *  B3  Once log_append returned PD_OK the records survive a crash of the process, and if `flags` has PD_BACKEND_LASTS,
 *      a loss of power.
 *  B4  log_read(from, to) visits every record numbered from … to in order, without gaps, and ends at `to` or at the tail it
 *      met. A record that is missing or damaged in between is PD_CORRUPT, never left out.
 *  B5  log_tail is the number of the last record, 0 for an empty log. log_tail_hint is the same but may lag behind what
 *      other processes appended only if no shared memory is to be had; it must cost nanoseconds.
 *  B6  bag_put is idempotent: an id that is there already is left as it is, but counts as put now (B15). bag_get gives the very bytes
 *      or PD_NOT_FOUND. Ids are chosen by the engine: SHA-256 of the bytes.
 *  B7  What bag_put accepted survives (as in B3) once a later log_append on the same handle returned PD_OK.
 *      A bag_put that fails leaves no torn blob.
 *  B8  A store that fails an operation is still usable: the next call may succeed (but B19). An append that answered an error never
 *      shows up later, except for PD_OUTCOME_UNKNOWN: then it may, once the store is opened again.
 *  B9  Handles may be used by several threads at once; several handles and processes may have one store open.
 *  B10 Two stores never see each other's records or blobs.
 *  B11 Opening a store that does not exist without PD_BACKEND_CREATE answers PD_NOT_FOUND and creates nothing.
 *      What is not a store, or is of a newer format, answers PD_FORMAT and is not touched.
 *  B12 log_claim, where present, keeps other processes from appending until log_release: between the two, log_append
 *      at tail+1 never answers PD_CONFLICT. After log_claim, log_tail is exact until log_release.
 *  B13 An append of no records, or a number 0, is PD_INVALID. A record or blob larger than the backend can hold is PD_LIMIT.
 *
 *  B14 log_redact(seq, records[n]) replaces the bytes of the records seq … seq+n-1, all or none, and survives as B3 says. Each
 *      may be empty, and is then visited with 0 bytes. Numbers never change. PD_INVALID past the tail, for no records, for number 0.
 *  B15 bag_mark names the present moment. bag_sweep(mark, keep) removes the blobs that `keep` answers false for, but none that
 *      bag_put accepted after `mark`, however old the blob is. Killed at any moment it leaves a sound bag. `keep` must not call
 *      the backend. A mark that was never given is PD_INVALID; one may be used again, and by any handle of the store.
 *  B16 compact gives space that log_redact and bag_sweep freed back to the file system. Once it returned PD_OK, what they
 *      removed before it was called is in none of the backend's files. Others may read and write meanwhile; they may have to wait.
 *      Out of space it answers PD_FULL, and if somebody reads on and on PD_STORAGE; nothing is lost then, and it can be tried again.
 *  B17 log_wait(after, timeout_ms) returns when log_tail_hint is greater than `after`, whoever appended, or when the time is
 *      over; both are PD_OK. It may return early when a signal comes. It does not burn time: no polling faster than every 50 ms.
 *      Several threads may wait at once.
 *  B18 log_swap(swaps[n]), numbers ascending, each once, replaces records as B14 does, however far apart: all or none. If one is not
 *      `was` any more, byte for byte, it answers PD_CONFLICT and changes nothing: two who take bytes away never bring each other's back.
 *
 *  B19 A sync that failed is final: no handle of any process acknowledges a write until all were closed and the store was opened again.
 *      Until then writes, and `health`, answer PD_STORAGE and name what failed; reads go on. `health` must cost nanoseconds.
 *
 *  B20 Joint commits, where present (all four or none): from joint_begin on, nobody but handles of joint_open appends to the stores that it
 *      names; others wait. What these append is seen by no other handle until joint_commit, and then in all of the stores at one moment;
 *      with joint_abort, or if the process dies before the commit, never. joint_commit survives as B3 says and needs no space; if it
 *      fails, nothing was committed, or (PD_OUTCOME_UNKNOWN) all or nothing, and nobody sees the difference before it is settled.
 *      joint_begin does not wait without end for others that keep a store locked. Handles of joint_open are closed before either. Both free
 *      `joint`; abort takes NULL.
 *
 *  B21 gc_lock, where present (with gc_unlock), keeps gc away from those who read for long. With `shared_ms` it is shared: any number may
 *      have it so, in any process, each for at most that long. With 0 it is exclusive: nobody has it otherwise, but for those whose time is
 *      over, and nobody gets it before gc_unlock. It does not wait: PD_CONFLICT if it cannot be had now. A process that dies gives it up.
 *      It may be unlocked after its handle was closed. It stops nobody who does not ask. *out_lock may be NULL: nothing here can be taken
 *      away.
 *
 * B14 to B16, B18, and B21 if it is exclusive, on a read-only handle are PD_READ_ONLY.
 *
 * A visitor of log_read must not call the backend on the same handle: copy what is needed, act afterwards.
 *
 * Every function pointer may be called with a NULL `err`. Optional ones may be NULL.
 */
#ifndef PERDURE_BACKEND_H
#define PERDURE_BACKEND_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_BACKEND_ABI 3 /* 2: health and joint commits (B19, B20). 3: gc_lock (B21) */

/* Flags of an open backend. */
#define PD_BACKEND_LASTS 1u     /* log_append survives power loss */
#define PD_BACKEND_READ_ONLY 2u /* opened read-only, or the medium is */

/* Flags to open with. */
#define PD_BACKEND_CREATE 1u
#define PD_BACKEND_OPEN_READ_ONLY 2u

typedef struct pd_backend pd_backend; /* one open store */

/* Called once per record; `record` is borrowed until return. Anything but PD_OK stops the reading and is passed on. */
typedef pd_code (*pd_log_visit)(void *ctx, uint64_t seq, pd_bytes record, pd_error *err);

/* Called once per finding of `check`; `what` is one line. */
typedef void (*pd_check_visit)(void *ctx, const char *what);

typedef struct pd_backend_usage {
  uint64_t log_bytes;  /* payload of the log */
  uint64_t bag_bytes;  /* payload of the bag */
  uint64_t bag_count;  /* blobs in the bag */
  uint64_t disk_bytes; /* what the files take, 0 where there are none */
} pd_backend_usage;

/* One record that is to be replaced. */
typedef struct pd_log_swap {
  uint64_t seq;
  pd_bytes was, now;
} pd_log_swap;

typedef struct pd_backend_ops {
  unsigned abi;       /* PD_BACKEND_ABI */
  const char *scheme; /* "sqlite" for sqlite:… */

  /* `rest` is the URI without "scheme:". `store` is a valid agent name. */
  pd_code (*open)(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err);
  void (*close)(pd_backend *b); /* takes NULL */
  unsigned (*flags)(const pd_backend *b);

  pd_code (*log_append)(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err);
  pd_code (*log_read)(pd_backend *b, uint64_t from, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err);
  pd_code (*log_tail)(pd_backend *b, uint64_t *out_seq, pd_error *err);
  uint64_t (*log_tail_hint)(pd_backend *b);

  pd_code (*bag_put)(pd_backend *b, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err);
  pd_code (*bag_get)(pd_backend *b, const pd_id *id, pd_buf *out, pd_error *err); /* appends to `out` */

  /* Optional. */
  pd_code (*log_claim)(pd_backend *b, pd_error *err);
  void (*log_release)(pd_backend *b);
  pd_code (*check)(pd_backend *b, pd_check_visit visit, void *ctx, pd_error *err); /* the backend's own integrity */
  pd_code (*usage)(pd_backend *b, pd_backend_usage *out, pd_error *err);
  pd_code (*log_redact)(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err);
  pd_code (*bag_mark)(pd_backend *b, uint64_t *out_mark, pd_error *err);
  pd_code (*bag_sweep)(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                       pd_error *err); /* *out_bytes: payload removed */
  pd_code (*compact)(pd_backend *b, pd_error *err);
  pd_code (*log_wait)(pd_backend *b, uint64_t after, uint32_t timeout_ms, pd_error *err);
  pd_code (*log_swap)(pd_backend *b, const pd_log_swap *swaps, size_t count, pd_error *err); /* B18 */
  /* The stores of a home, in any order. */
  pd_code (*stores)(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err);
  /* The folder of a home, for what is kept beside its stores; it need not exist. For free(). NULL: homes have none. */
  pd_code (*folder)(const char *rest, char **out_folder, pd_error *err);
  pd_code (*health)(pd_backend *b, pd_error *err); /* B19 */
  /* B20. `purpose` is a word or two for messages: what waits, waits for that. */
  pd_code (*joint_begin)(const char *rest, const char *const *stores, size_t count, const char *purpose, void **out_joint, pd_error *err);
  pd_code (*joint_open)(void *joint, const char *store, unsigned flags, pd_backend **out, pd_error *err);
  pd_code (*joint_commit)(void *joint, pd_error *err);
  void (*joint_abort)(void *joint);
  /* B21. */
  pd_code (*gc_lock)(pd_backend *b, uint32_t shared_ms, void **out_lock, pd_error *err);
  void (*gc_unlock)(void *lock); /* takes NULL */
} pd_backend_ops;

/* Each backend's struct begins with its ops. */
struct pd_backend {
  const pd_backend_ops *ops;
};

/* Make a backend known under its scheme. Not thread-safe: call before the first open. PD_EXISTS if the scheme is taken,
 * PD_INVALID for another ABI, PD_LIMIT after 16, the built-in ones included. `ops` must live as long as the process. */
PD_API PD_MUST_USE pd_code pd_backend_register(const pd_backend_ops *ops, pd_error *err);

/* The backend of a URI and the part after the colon (`out_rest` points into `uri`). PD_INVALID names what is wrong. */
PD_API PD_MUST_USE pd_code pd_backend_find(const char *uri, const pd_backend_ops **out_ops, const char **out_rest, pd_error *err);

/* ---- for those who append what others made: a server ---- */

/* Could the engine have appended these records to the log of `b` at `seq`? Each is whole (checksum, bounds), carries on the chain of audits
 * and of times from the record before it, and its commit id follows from its tree and its parents. Records before `seq` are read from `b`;
 * of what retention took away there nothing is asked. That a tree id follows from the changes is what verify shows. PD_CONFLICT if `seq`
 * is taken, PD_INVALID if it is past tail+1 or a record is not sound: the message names it. */
PD_API PD_MUST_USE pd_code pd_log_check_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err);

/* Could `now` be what redaction leaves of the record `was`: nothing at all, or a whole record with the same audit and ids? PD_INVALID. */
PD_API PD_MUST_USE pd_code pd_log_check_swap(uint64_t seq, pd_bytes was, pd_bytes now, pd_error *err);

/* The commit that a record makes or points at; PD_NOT_FOUND if it names none (a keyframe, a redacted one, one that is no record). */
PD_API PD_MUST_USE pd_code pd_log_commit_of(uint64_t seq, pd_bytes record, pd_id *out, pd_error *err);

/* The version of the SQLite library that the sqlite backend stands on: "3.40.1". Static storage. */
PD_API const char *pd_backend_sqlite_version(void);

/* Write an error as the engine does: code and message. Returns `code`. For backend writers. */
PD_API pd_code pd_error_set(pd_error *err, pd_code code, const char *fmt, ...) PD_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
