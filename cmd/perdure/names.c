/* names.c: see names.h. */
#include "names.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>

void names_done(names_list *names)
{
  pd_buf_done(&names->items);
}

static void visit_ref(void *ctx, const pd_ref *ref)
{
  names_list *all = ctx;
  names_item item = {.commit = ref->commit, .updated_ms = ref->updated_ms, .is_current = ref->is_current, .can_redo = ref->can_redo};
  snprintf(item.text, sizeof item.text, "%s", ref->name);
  if (all->code == PD_OK) all->code = pd_buf_append(&all->items, &item, sizeof item, NULL);
}

pd_code names_load(pd_store *store, names_list *out, pd_error *err)
{
  TRY(pd_ref_list(store, visit_ref, out, err));
  return out->code == PD_OK ? PD_OK : pd_error_memory(err, "the list of refs");
}

size_t names_count(const names_list *names)
{
  return names->items.size / sizeof(names_item);
}

const names_item *names_at(const names_list *names, size_t index)
{
  return (const names_item *)(const void *)names->items.data + index;
}

void names_print(const names_list *names, const pd_id *commit, out_stream *o)
{
  const char *before = " (";
  for (size_t i = 0; i < names_count(names); i++) {
    const names_item *item = names_at(names, i);
    if (!pd_id_equal(&item->commit.id, commit)) continue;
    out_text(o, before);
    out_set(o, OUT_NAME);
    out_printf(o, "%s%s", item->is_current ? "*" : "", item->text);
    out_set(o, OUT_PLAIN);
    before = ", ";
  }
  if (before[0] == ',') out_text(o, ")");
}
