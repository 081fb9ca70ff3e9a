/*
 * snapshot.h: system snapshots: files FOLDER/snapshots/ID.json, and the tags snapshot/ID that keep the states they name.
 *
 * N1  A file under its own name is whole: it is written as .ID.json.part, synced and renamed. Its last member is the SHA-256 of all bytes
 *     before it, so damage is found.
 * N2  Who makes a snapshot holds .ID.json.part (made with O_EXCL) from before its first tag until after its file is there: an id is used
 *     once, and a tag without either file is left over and may go.
 * N3  Nothing in the folder is followed if it is a symbolic link, nor the folder itself.
 * N4  A snapshot holds names, numbers and ids; never a key or value of an agent.
 * N5  An agent that loads one sees of other agents what agents.list and system.health tell it: totals (snapshot_view.c).
 * N6  Each maker has snapshot.keep of them: nobody's creating removes what another made. What the operator makes, for an agent or not, is
 *     the operator's.
 */
#ifndef PD_STATE_SNAPSHOT_H
#define PD_STATE_SNAPSHOT_H

#include "base/json.h"
#include "state/call.h"
#include "state/stores.h"

#define PD_SNAPSHOT_ID_SIZE 40
#define PD_SNAPSHOT_TAG "snapshot/" /* and the id: a tag of every store */
#define PD_SNAPSHOT_SIZE_MAX ((size_t)64 * 1024 * 1024)

/* ---- snapshot_file.c ---- */

typedef struct pd_snapshot_info {
  char id[PD_SNAPSHOT_ID_SIZE];
  int64_t time_ms; /* as the file tells it */
  uint64_t size;
  bool is_operators;
  char maker[PD_NAME_SIZE_MAX + 1]; /* the agent, if it is not the operator's */
} pd_snapshot_info;

typedef struct pd_snapshot_skip {
  char file[256], why[200];
} pd_snapshot_skip;

typedef struct pd_snapshot_list {
  pd_snapshot_info *items; /* newest first */
  size_t count, capacity;
  pd_snapshot_skip *skips; /* what is in the folder and is no snapshot, or a damaged one */
  size_t skip_count, skip_capacity;
} pd_snapshot_list;

/* snap-YYYYMMDDTHHMMSSZ, or that and -2, -3…; nothing else. */
PD_MUST_USE bool pd_snapshot_id_check(const char *id);
/* The folder, open; -1 if it is not there and `create` is false. To be closed. PD_STORAGE; PD_UNSUPPORTED for a home without a folder. */
PD_MUST_USE pd_code pd_snapshot_folder(pd_home *home, bool create, int *out, pd_error *err);
/* Take the first free id of this second (N2); *out_file is its part file, open for writing. */
PD_MUST_USE pd_code pd_snapshot_reserve(int folder, int64_t now_ms, char out_id[PD_SNAPSHOT_ID_SIZE], int *out_file, pd_error *err);
/* Write `object` (JSON text that ends with '}') and give it its name. Closes `file`. On a failure nothing is left of it. PD_FULL. */
PD_MUST_USE pd_code pd_snapshot_finish(int folder, const char *id, int file, pd_bytes object, uint64_t *out_size, pd_error *err);
/* Give a reserved id back. */
void pd_snapshot_abandon(int folder, const char *id, int file);
/* The whole file, checked. PD_NOT_FOUND; PD_CORRUPT says what is wrong. */
PD_MUST_USE pd_code pd_snapshot_read(int folder, const char *id, pd_buf *out, pd_error *err);
/* To be finished with pd_snapshot_list_done, also after a failure. */
PD_MUST_USE pd_code pd_snapshot_list_read(int folder, pd_snapshot_list *out, pd_error *err);
void pd_snapshot_list_done(pd_snapshot_list *list);
/* Is there a file, or one being made, for this id? */
bool pd_snapshot_is_there(int folder, const char *id);
/* Remove part files that nobody can be writing any more. */
void pd_snapshot_clean(int folder);

/* ---- snapshot_view.c ---- */

/* Write the snapshot as `agent` may see it. N5 */
PD_MUST_USE pd_code pd_snapshot_write_for(pd_json_writer *w, pd_json snapshot, const char *agent);

/* ---- snapshot.c ---- */

/* The snapshot that the input `snapshot_id` names: its id, text and JSON (which points into the text). PD_NOT_FOUND named
 * SnapshotNotFound, also for what cannot be an id; IoError for a damaged one. */
PD_MUST_USE pd_code pd_snapshot_load(pd_frame *frame, char out_id[PD_SNAPSHOT_ID_SIZE], pd_buf *out, pd_json *out_json, pd_error *err);

/* ---- snapshot_heads.c ---- */

/* A store's state at the moment of the snapshot. */
typedef struct pd_head {
  bool is_known; /* false: the store cannot be read */
  bool is_kept;  /* `keep` was called for this commit */
  pd_commit commit;
  int64_t updated_ms;
  bool is_counted; /* the numbers below are those of the commit and its store */
  uint64_t keys, bytes, versions, records, disk_bytes;
} pd_head;

/* Called for a store and the head that was read of it, while the store is open anyway: tag it, count it. PD_RETIRED or PD_NOT_FOUND if
 * retention was quicker: the head is read again. */
typedef pd_code (*pd_head_keep)(void *ctx, pd_store *store, pd_lease *lease, pd_head *head, pd_error *err);

typedef struct pd_heads {
  pd_home *home;
  pd_leases leases;
  size_t open_max; /* so many of the first are open; the others are for each use: there may be more stores than descriptors */
  pd_head *items;  /* one a lease */
  uint64_t tries;
  bool is_one_instant; /* all of them were the heads at one and the same moment */
} pd_heads;

/* The heads of all stores at one instant, or, if writers do not let it, after a few rounds one after the other. Each head is kept. Asks the
 * caller of `frame` before each store whether to go on. To be finished with pd_heads_done, also after a failure. */
PD_MUST_USE pd_code pd_heads_read(const pd_frame *frame, pd_head_keep keep, void *ctx, pd_heads *out, pd_error *err);
void pd_heads_done(pd_heads *heads);
/* The store of a lease, NULL if it cannot be opened; to be put back before the next one is taken. */
pd_store *pd_heads_take(pd_heads *heads, size_t index);
void pd_heads_put(pd_heads *heads, size_t index);
/* Tag a head, so that retention keeps it. */
PD_MUST_USE pd_code pd_head_tag(pd_store *store, const pd_head *head, const char *id, const pd_note *note, pd_error *err);
/* Remove the tags of snapshots that are not there any more, of one store or of all. What cannot be removed now is tried again next time. */
void pd_head_untag(pd_store *store, int folder, const pd_note *note);
void pd_heads_untag(pd_heads *heads, int folder, const pd_note *note);

#endif
