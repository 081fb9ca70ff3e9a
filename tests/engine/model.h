/*
 * model.h: a naive store that the real one has to agree with. Every commit is a full copy of a plain array; nothing is shared, cached,
 * hashed or written anywhere. It cannot make ids: those it takes from the real store's acknowledgements, and holds it to them.
 *
 *  M1  A commit once made never changes: what was true at its id stays true.
 *  M2  The same key -> value map has the same tree id, a different one a different id, however it came about.
 *  M3  An id that is acknowledged twice names the same parent and the same map.
 *  M4  A version grows with each write on a line, and no two writes of a key have the same, on whatever refs they were made;
 *      but for lines that have nothing in common but the root commit (families).
 */
#ifndef PD_TESTS_ENGINE_MODEL_H
#define PD_TESTS_ENGINE_MODEL_H

#include <perdure/perdure.h>

#define MODEL_REFS 8
#define MODEL_NONE UINT32_MAX
#define MODEL_ROOT 0u /* the commit that every history begins with */

typedef struct model_entry {
  bool is_present;
  uint32_t value;   /* a number that stands for bytes: see world_value */
  uint32_t version; /* learned from the store once it is committed (M4) */
  uint32_t writes;  /* since the key was created */
  uint64_t seq;
  int64_t created_ms, updated_ms;
} model_entry;

typedef struct model_commit {
  pd_id id, tree;
  uint32_t parent;
  int family;           /* the ref that the first commit of its line was made on */
  uint64_t print;       /* of the key -> value map */
  model_entry *entries; /* key_count of them */
} model_commit;

typedef struct model_record {
  uint64_t seq;
  pd_record_kind kind;
  int ref;
  uint32_t commit; /* made, or moved to */
  int64_t time_ms;
  const char *author, *reason; /* static storage */
} model_record;

typedef struct model_ref {
  bool exists;
  uint32_t head;
  uint32_t redo_top; /* MODEL_NONE: nothing to redo */
  int64_t updated_ms;
  uint64_t born_seq;
} model_ref;

typedef struct model {
  size_t key_count;
  model_commit *commits;
  size_t commit_count, commit_room;
  model_record *records; /* rising seq */
  size_t record_count, record_room;
  model_ref refs[MODEL_REFS];
  uint64_t base_seq; /* records up to here were made by opening the store */
  bool has_twins;    /* some commit was made by more than one record */
} model;

/* What is wrong when the store's answer cannot be: static text, or NULL. */
typedef const char *model_fault;

void model_init(model *m, size_t key_count, const pd_commit *root);
void model_done(model *m);

const model_entry *model_entries(const model *m, uint32_t commit);
/* A copy of a commit's entries, to be edited and given to model_commit_add. */
model_entry *model_copy(const model *m, uint32_t commit);
/* The effect of one edit at `seq` and `time_ms`. */
void model_entry_put(model_entry *entry, uint32_t value, uint64_t seq, int64_t time_ms);
void model_entry_delete(model_entry *entry);

/* Is there a child of the ref's head with the same map that was come by differently (other versions or writers, or another family, as
 * with two edits of the root commit that change nothing)? It has the same id, and so the two cannot be told apart by it. */
bool model_has_twin(const model *m, int ref, const model_entry *entries);

/* M4: may record `seq`, the next commit on `ref`, have given `version` to `key`? */
model_fault model_version_fault(const model *m, int ref, size_t key, uint64_t version, uint64_t seq);

/* The store acknowledged a commit of `entries` (taken over) on `ref`. */
model_fault model_commit_add(model *m, int ref, model_entry *entries, const pd_ack *ack, const model_record *about);
/* The store acknowledged that `ref` was moved (kind: fork, reset, undo, redo). */
model_fault model_ref_move(model *m, int ref, uint32_t commit, const pd_ack *ack, const model_record *about);
/* Its record has no acknowledgement, so the model does not know its number. */
void model_ref_delete(model *m, int ref);

uint32_t model_find(const model *m, const pd_id *id);
/* Commits whose id begins with these hex digits; the last one found in `out`. */
size_t model_find_short(const model *m, const char *digits, uint32_t *out);
const model_record *model_record_of(const model *m, uint64_t seq);
/* `count` commits back along first parents, or MODEL_NONE. */
uint32_t model_back(const model *m, uint32_t commit, uint64_t count);
/* Commits between `commit` and the root. */
size_t model_depth(const model *m, uint32_t commit);
/* `count` commits from `head` towards `top`; MODEL_NONE if that is past it. */
uint32_t model_forward(const model *m, uint32_t head, uint32_t top, uint64_t count);
/* The head of a ref as it was at a time, or MODEL_NONE before its birth. */
uint32_t model_ref_at(const model *m, int ref, int64_t time_ms);
/* The commit on the line of `commit` that wrote the entry of `key` that is seen at it. */
uint32_t model_writer(const model *m, uint32_t commit, size_t key);

#endif
