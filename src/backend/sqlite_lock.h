/*
 * sqlite_lock.h: the file STORE.lock beside a store: its advisory lock, and the tail word that all processes share.
 *
 * The flock serialises appends, checkpoints, creation and closing of one store (FACTS.md: SQLite before 3.51.3 can corrupt a
 * WAL when a write meets a checkpoint), and it is fair and blocking where SQLite would poll.
 *
 * Bytes of the file, 4096 in all, the rest zero:
 *    0  16  "perdure lock 1\n" and a NUL
 *   16  16  the store's uuid
 *   48   1  nothing; the range that a claim locks (an open file description lock, independent of the flock)
 *   64   8  the tail word, little-endian: the number of the last acknowledged record in the low 48 bits, a check of it and
 *           the uuid in the high 16. All zero: not known.
 *   72   4  the bell: not 0 while somebody may be asleep on the tail word (a futex on its low half)
 *   49   1  nothing; the range that each open handle locks shared, so that one can tell whether it is alone
 *   76   4  the claim word: not 0 while somebody claims, or did and died. A hint: the byte at 48 decides.
 *   80   4  the sick word: not 0 once a sync of the store failed; it says of what (pd_sick). README.md, "A sync that failed".
 *   84   4  the name word: not 0 while the name of the -wal file may not be on the disk yet
 *   88   8  when the store fell sick, ms since 1970, little-endian
 *   96   4  the fence word: odd while the store takes part in a joint commit (sqlite_joint.h), or did when its coordinator died.
 *           Each beginning and each end adds 1, so a reader that sees the same even number twice knows that none was between.
 *
 *  2^40 +  nothing, beyond the file's end; the ranges of gc_lock (B21). Who shares it locks the one byte of the second at which its time is
 *           over, by the machine's monotonic clock; who wants it alone locks all bytes from the present second on. So what is over is in
 *           nobody's way, also if its process hangs, and what died is gone.
 *
 * L1  The word is stored only under the exclusive lock, and after what it counts is durable: it never says too much.
 * L2  It may say too little (a writer died between its commit and the word), or nothing; then the table decides.
 * L3  Who sleeps sets the bell before looking at the tail a last time; who stores a tail looks at the bell afterwards, clears it and
 *     wakes all. So no wake is lost, an append that nobody waits for makes no system call, and one that died asleep costs one.
 * L4  The sick word is set under the exclusive lock, before the failed call gives the lock up, and is cleared under it by one who is alone.
 *     It need not survive a loss of power: after one, what is read is what the disk has.
 * So a word that is valid and greater than the log's real tail proves that acknowledged records were lost.
 */
#ifndef PD_BACKEND_SQLITE_LOCK_H
#define PD_BACKEND_SQLITE_LOCK_H

#include <perdure/perdure.h>

#define PD_LOCK_UUID_SIZE 16
#define PD_LOCK_TAIL_MAX ((UINT64_C(1) << 48) - 1)

/* What could not be synced. The numbers are in lock files. */
typedef enum pd_sick {
  PD_SICK_NOT = 0,
  PD_SICK_WAL = 1,        /* a commit */
  PD_SICK_CHECKPOINT = 2, /* the WAL or the database */
  PD_SICK_FOLDER = 3
} pd_sick;

typedef struct pd_lock_file {
  char *path;
  int fd;           /* -1: none to be had, the medium is read-only */
  uint8_t *map;     /* NULL: none */
  bool is_writable; /* the word may be stored */
  bool is_quiet;    /* a handle inside a joint commit: its appends are not published, so the tail word is neither read nor stored */
  int64_t end_ms;   /* 0: wait for locks however long it takes. Else until then (monotonic), and at least one try */
  uint64_t salt[2]; /* the uuid */
} pd_lock_file;

/* Open or create `path`. With `is_read_only`, or on a read-only medium, a file that cannot be had is no error: fd is then -1.
 * Holds no lock on return. */
PD_MUST_USE pd_code pd_lock_file_open(pd_lock_file *lock, const char *path, bool is_read_only, pd_error *err);
/* The same for a writer, which waits for this and the file's other locks no longer than until `end_ms`: PD_STORAGE, and the error names
 * what it waited for. */
PD_MUST_USE pd_code pd_lock_file_open_until(pd_lock_file *lock, const char *path, int64_t end_ms, pd_error *err);
void pd_lock_file_close(pd_lock_file *lock);

/* Blocking, retried when a signal comes. Without a file: PD_OK, nothing to lock. */
PD_MUST_USE pd_code pd_lock_file_lock(pd_lock_file *lock, bool is_shared, pd_error *err);
void pd_lock_file_unlock(pd_lock_file *lock);

/* The right to append, apart from the lock: who holds it keeps other writers out between its own writes, while stores can still be
 * opened, read and closed. Blocking. Taken before the lock, never after it. */
PD_MUST_USE pd_code pd_lock_file_claim(pd_lock_file *lock, pd_error *err);
void pd_lock_file_unclaim(pd_lock_file *lock);

/* The claim word. Set under the lock. */
bool pd_lock_file_is_claimed(const pd_lock_file *lock);
void pd_lock_file_set_claimed(pd_lock_file *lock, bool is_claimed);

/* B21, without waiting. The lock is of a file description of its own, so the handles of one process, and two locks of one handle, exclude
 * each other as those of several processes do. *out is NULL if there is no file. */
PD_MUST_USE pd_code pd_lock_file_gc_lock(const pd_lock_file *lock, uint32_t shared_ms, void **out, pd_error *err);
void pd_lock_file_gc_unlock(void *lock);

/* Count among those who have the store open, from now until the file is closed. */
PD_MUST_USE pd_code pd_lock_file_join(pd_lock_file *lock, pd_error *err);
/* Under the exclusive lock: no other handle, of whatever process, has the store open. False as well if that cannot be known. */
bool pd_lock_file_is_alone(pd_lock_file *lock);

/* The sick word; PD_SICK_NOT if there is no mapping. Costs nanoseconds. `out_ms` may be NULL. */
pd_sick pd_lock_file_sick(const pd_lock_file *lock, int64_t *out_ms);
/* Under the exclusive lock (L4). The file is synced as well as it can be: what was acknowledged is known after a loss of power. */
void pd_lock_file_set_sick(pd_lock_file *lock, pd_sick what, int64_t ms);
/* The name word. Under the exclusive lock. */
bool pd_lock_file_is_unnamed(const pd_lock_file *lock);
void pd_lock_file_set_unnamed(pd_lock_file *lock, bool is_unnamed);
/* The fence word. Set under the lock; setting it wakes those who wait for it to change. */
uint32_t pd_lock_file_fence(const pd_lock_file *lock);
void pd_lock_file_set_fence(pd_lock_file *lock, uint32_t fence);
/* Sleep until the fence word is not `fence`, at most `timeout_ms`. */
void pd_lock_file_wait_fence(pd_lock_file *lock, uint32_t fence, uint32_t timeout_ms);

/* Under the lock, at open. Whether the file speaks of a store that had records, and of which one. */
bool pd_lock_file_peek(const pd_lock_file *lock, uint64_t *out_tail);
/* Bind the file to a store: forgets the word if it belongs to another. Needs the exclusive lock to change anything. */
void pd_lock_file_bind(pd_lock_file *lock, const uint8_t uuid[PD_LOCK_UUID_SIZE]);
/* Speak of the store that the file is bound to; false if it is bound to none. */
bool pd_lock_file_adopt(pd_lock_file *lock);

/* The acknowledged tail; false if the word is not valid. Costs nanoseconds. */
bool pd_lock_file_tail(const pd_lock_file *lock, uint64_t *out_tail);
/* Sleep until the tail word is not what it says `after`, at most `timeout_ms`, or until a signal comes. False if there is no mapping to
 * sleep on. */
bool pd_lock_file_wait(pd_lock_file *lock, uint64_t after, uint32_t timeout_ms);
/* Under the exclusive lock. Wakes who waits. */
void pd_lock_file_set_tail(pd_lock_file *lock, uint64_t tail);
void pd_lock_file_forget_tail(pd_lock_file *lock);

#endif
