/* model_ops.h: the operations of the model test. Each asks the store and the model the same thing and compares every answer. */
#ifndef PD_TESTS_ENGINE_MODEL_OPS_H
#define PD_TESTS_ENGINE_MODEL_OPS_H

#include "engine/model_world.h"

typedef struct world_op {
  const char *name;
  unsigned weight;
  void (*run)(world *w);
} world_op;

/* model_write.c */
void op_put(world *w);
void op_delete(world *w);
void op_edit(world *w);
void op_fork(world *w);
void op_reset(world *w);
void op_ref_delete(world *w);
void op_undo(world *w);
void op_redo(world *w);
void op_bad_write(world *w);
/* One large invocation on main that puts about two keys in three. */
void fill_store(world *w);

/* model_read.c */
void op_get(world *w);
void op_has(world *w);
void op_list(world *w);
void op_resolve(world *w);
void op_refs(world *w);
void op_bad_read(world *w);
/* Every key at a commit, by get and by listing. */
void check_whole_commit(world *w, pd_store *store, uint32_t commit);

/* model_history.c */
void op_history(world *w);
void op_version(world *w);
void op_log(world *w);
void op_diff(world *w);
/* The whole log of the store, and that of each ref. */
void check_whole_log(world *w, pd_store *store);

#endif
