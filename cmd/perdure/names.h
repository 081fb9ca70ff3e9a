/* names.h: which refs stand at which commit, for the decorations of log, show and graph. */
#ifndef PD_CMD_NAMES_H
#define PD_CMD_NAMES_H

#include "out.h"

#include <perdure/perdure.h>

typedef struct names_item {
  char text[PD_REF_SIZE_MAX + 1];
  pd_commit commit;
  int64_t updated_ms;
  bool is_current, can_redo;
} names_item;

typedef struct names_list {
  pd_buf items; /* of names_item */
  pd_code code; /* of the visitor, which cannot return one */
} names_list;

void names_done(names_list *names);
PD_MUST_USE pd_code names_load(pd_store *store, names_list *out, pd_error *err);
size_t names_count(const names_list *names);
const names_item *names_at(const names_list *names, size_t index);
/* " (*main, experiment)" if refs stand at the commit; the star marks the current one. */
void names_print(const names_list *names, const pd_id *commit, out_stream *o);

#endif
