/* json_record.c: see json_record.h. */
#include "base/json_record.h"

#include "base/base.h"
#include "base/buf.h"

/* ---- records ---- */

static void put_text(pd_json_writer *w, const char *key, const char *text, unsigned members)
{
  if (members & PD_WITHOUT_EMPTY)
    pd_json_put_said(w, key, text);
  else
    pd_json_put_text(w, key, text ? text : "");
}

static void put_commit(pd_json_writer *w, const pd_record *record, unsigned members)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_put_id(w, "commit", &record->commit.id);
  if (members & PD_WITH_TREE) pd_json_put_id(w, "tree", &record->commit.tree);
  if (!(members & PD_WITH_PARENTS) || ((members & PD_WITHOUT_EMPTY) && record->kind != PD_RECORD_COMMIT)) return;
  pd_json_key(w, "parents");
  pd_json_open(w, '[');
  for (size_t i = 0; i < record->parent_count; i++) pd_json_text(w, pd_text(pd_id_hex(&record->parents[i], hex)));
  pd_json_close(w, ']');
}

void pd_json_put_record(pd_json_writer *w, const pd_record *record, unsigned members)
{
  pd_json_put_number(w, "seq", record->seq);
  if (members & PD_WITH_KIND) pd_json_put_text(w, "kind", pd_record_kind_name(record->kind));
  if (members & PD_WITH_REF) put_text(w, "ref", record->ref, members);
  if (record->kind != PD_RECORD_KEYFRAME) put_commit(w, record, members);
  put_text(w, "author", record->author, members);
  put_text(w, "run", record->run, members);
  put_text(w, "reason", record->reason, members);
  pd_json_put_time(w, "time", record->time_ms);
}

void pd_json_put_change(pd_json_writer *w, const pd_change *change)
{
  pd_json_put_bytes(w, "key", change->key);
  pd_json_put_text(w, "op", change->is_delete ? "delete" : "put");
  pd_json_put_number(w, "version", change->version);
  if (change->is_delete) return;
  pd_json_put_id(w, "value_id", &change->value_id);
  pd_json_put_number(w, "size", change->size);
}

void pd_json_put_changes(pd_json_writer *w, const pd_record *record)
{
  pd_json_key(w, "changes");
  pd_json_open(w, '[');
  for (size_t i = 0; i < record->change_count; i++) {
    pd_json_open(w, '{');
    pd_json_put_change(w, &record->changes[i]);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
}

/* ---- entries ---- */

void pd_json_put_entry(pd_json_writer *w, const pd_entry *entry)
{
  pd_json_put_number(w, "version", entry->version);
  pd_json_put_number(w, "size", entry->size);
  pd_json_put_id(w, "value_id", &entry->value_id);
  pd_json_put_time(w, "created_at", entry->created_ms);
  pd_json_put_time(w, "updated_at", entry->updated_ms);
}

void pd_json_put_difference(pd_json_writer *w, pd_bytes key, bool has_before, bool has_after)
{
  pd_json_put_bytes(w, "key", key);
  pd_json_put_text(w, "change", !has_before ? "added" : !has_after ? "deleted" : "changed");
}

/* ---- events ---- */

static void put_known_id(pd_json_writer *w, const char *key, const pd_id *id)
{
  static const pd_id unknown;
  if (!pd_id_equal(id, &unknown)) pd_json_put_id(w, key, id);
}

void pd_json_put_event(pd_json_writer *w, const pd_watch_event *e)
{
  pd_json_put_text(w, "event", pd_watch_kind_name(e->kind));
  pd_json_put_number(w, "seq", e->seq);
  if (e->kind == PD_WATCH_GAP) pd_json_put_number(w, "last_seq", e->last_seq);
  pd_json_put_said(w, "ref", e->ref);
  if (e->kind == PD_WATCH_PUT || e->kind == PD_WATCH_DELETE) {
    pd_json_put_bytes(w, "key", e->key);
    pd_json_put_number(w, "version", e->version);
  }
  if (e->kind == PD_WATCH_PUT) {
    put_known_id(w, "value_id", &e->value_id);
    pd_json_put_number(w, "size", e->size);
    if (e->is_erased) pd_json_put_bool(w, "erased", true);
  }
  if (e->kind == PD_WATCH_MOVE) {
    pd_json_put_text(w, "move", pd_record_kind_name(e->record_kind));
    put_known_id(w, "before", &e->before);
  }
  put_known_id(w, "commit", &e->commit.id);
  pd_json_put_said(w, "author", e->author);
  pd_json_put_said(w, "run", e->run);
  pd_json_put_said(w, "reason", e->reason);
  if (e->time_ms) pd_json_put_time(w, "time", e->time_ms);
}
