/*
 * sqlite_joint.h: joint commits: appends to several stores of one folder that become visible at one moment, or never.
 *
 * A coordinator fences the stores, appends to them through handles of its own, and decides. Two files in the stores' folder:
 *   .joint.lock  flock, exclusive: the coordinator lives. Never removed.
 *   .joint       there from before the first append of a joint commit until after its end. Text:
 *                "perdure joint 1\n", then at byte 16 P (pending) or C (committed), at byte 17 - or + (published), "\n", the purpose,
 *                "\n", for each store "TAIL NAME\n" (TAIL: its last record before the joint commit), "end\n".
 *
 *  J1  From the fence on nobody but the coordinator writes to a store: writers wait, or clean up after a dead coordinator first. But for
 *      one that has a claim since before the fence: it ends in peace, and the coordinator waits for it, a minute at most.
 *  J2  While .joint is not published, readers take no record behind TAIL for there. So until the decision the state is the old one
 *      everywhere, whatever was appended, and a coordinator that dies or meets a full disk has changed nothing.
 *  J3  The decision is the byte at 16, overwritten in place and synced: it needs no space. Only then the byte at 17 is set, which every
 *      handle of every store looks at: so the new state is there for all stores at one moment, and never before it is durable.
 *  J4  The tail word of a store is not stored before the decision: the witness counts nothing that may be taken back.
 *  J5  What a dead coordinator left is settled by the first who opens or writes any of the stores, with .joint.lock held: committed, it is
 *      published; pending, the records behind TAIL are deleted. Only then does .joint go, and the fences after it.
 *  J6  A name that was removed can come back with a loss of power, if the folder's sync failed. So before .joint goes and writers go on, it
 *      says C durably: nobody ever cuts what was written after it. And before the first store is cut it says P durably: a decision whose
 *      sync failed may be on the disk, and would turn stores that are cut and stores that are not into a mixture after a loss of power.
 *  J7  A store that fell sick in a joint commit stays in .joint, alone, until it is healed and cut. One that is sick takes part in none.
 */
#ifndef PD_BACKEND_SQLITE_JOINT_H
#define PD_BACKEND_SQLITE_JOINT_H

#include "backend/sqlite_store.h"

#define PD_JOINT_FILE ".joint"
#define PD_JOINT_LOCK ".joint.lock"

/* ---- sqlite_joint_file.c: the two files ---- */

typedef struct pd_joint_store {
  char name[PD_NAME_SIZE_MAX + 1];
  uint64_t tail;
} pd_joint_store;

typedef struct pd_joint_file {
  bool is_there, is_committed, is_published;
  char purpose[64];
  pd_joint_store *stores;
  size_t count;
} pd_joint_file;

void pd_joint_file_done(pd_joint_file *file);
/* PD_OK with is_there false if there is none. PD_CORRUPT. */
PD_MUST_USE pd_code pd_joint_file_read(const char *folder, pd_joint_file *out, pd_error *err);
/* J3. *out_fd stays open for the decision. */
PD_MUST_USE pd_code pd_joint_file_write(const char *folder, const pd_joint_file *file, bool must_be_new, int *out_fd, pd_error *err);
/* PD_OUTCOME_UNKNOWN if it can neither be written durably nor be taken back: then nothing may be cut. */
PD_MUST_USE pd_code pd_joint_file_decide(int fd, const char *folder, pd_error *err);
PD_MUST_USE pd_code pd_joint_file_publish(int fd, const char *folder, pd_error *err);
/* J6: it says C, durably; P. PD_OK if there is none. */
PD_MUST_USE pd_code pd_joint_file_say_committed(const char *folder, pd_error *err);
PD_MUST_USE pd_code pd_joint_file_say_pending(const char *folder, pd_error *err);
PD_MUST_USE pd_code pd_joint_file_remove(const char *folder, pd_error *err);
bool pd_joint_file_is_there(const char *folder);
/* *out_fd is -1 if another holds it. */
PD_MUST_USE pd_code pd_joint_lock(const char *folder, int *out_fd, pd_error *err);

/* ---- sqlite_joint.c ---- */

/* What a handle may see of its store. Two looks that give the same, with a read begun between them, make the read sound. */
typedef struct pd_joint_view {
  uint32_t fence;
  uint8_t status;
  uint64_t tail; /* no record behind it is there; UINT64_MAX: all are */
} pd_joint_view;

PD_MUST_USE pd_code pd_joint_look(pd_sqlite *s, pd_joint_view *out, pd_error *err);
bool pd_joint_view_equal(const pd_joint_view *a, const pd_joint_view *b);
/* Must a writer wait, or a reader look closer? */
bool pd_joint_is_fenced(const pd_sqlite *s);
/* J1: return when it may be tried again. Without any lock. PD_STORAGE after a minute. */
PD_MUST_USE pd_code pd_joint_wait(pd_sqlite *s, pd_error *err);
/* J5, when a store is opened. */
void pd_joint_settle(pd_sqlite *s);

typedef struct pd_sqlite_joint pd_sqlite_joint;

/* How long a writer waits for a joint commit, and a joint commit for others. Tests make it shorter. */
extern uint32_t pd_joint_wait_ms;

PD_MUST_USE pd_code pd_sqlite_joint_begin(const char *rest, const char *const *stores, size_t count, const char *purpose, void **out,
                                          pd_error *err);
PD_MUST_USE pd_code pd_sqlite_joint_open(void *joint, const char *store, unsigned flags, pd_backend **out, pd_error *err);
PD_MUST_USE pd_code pd_sqlite_joint_commit(void *joint, pd_error *err);
void pd_sqlite_joint_abort(void *joint);

#endif
