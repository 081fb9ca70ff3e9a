/* record.c: see record.h. */
#include "record.h"

#include "base/clock.h"
#include "base/json_record.h"

#include <inttypes.h>

#define SUMMARY_SIZE_MAX 72

static void print_field(out_stream *o, const char *label, const char *text)
{
  if (!*text) return;
  out_printf(o, "%-8s", label);
  out_safe(o, pd_text(text));
  out_text(o, "\n");
}

void record_print_change(out_stream *o, const pd_change *change)
{
  out_set(o, change->is_delete ? OUT_BAD : change->is_new ? OUT_GOOD : OUT_CHANGED);
  out_text(o, change->is_delete ? "- " : change->is_new ? "+ " : "~ ");
  out_safe(o, change->key);
  out_set(o, OUT_DIM);
  if (change->is_delete)
    out_printf(o, "  (was v%" PRIu64 ")", change->version);
  else
    out_printf(o, "  v%" PRIu64 ", %" PRIu64 " byte%s", change->version, change->size, change->size == 1 ? "" : "s");
  out_set(o, OUT_PLAIN);
}

static void print_changes(out_stream *o, const pd_record *record, size_t most)
{
  if (!record->change_count) return;
  out_text(o, "\n");
  for (size_t i = 0; i < record->change_count && i < most; i++) {
    out_text(o, "    ");
    record_print_change(o, &record->changes[i]);
    out_text(o, "\n");
  }
  if (record->change_count > most) out_printf(o, "    … and %zu more\n", record->change_count - most);
}

static bool has_commit(const pd_record *record)
{
  return record->kind != PD_RECORD_KEYFRAME;
}

void record_print(out_stream *o, const pd_record *record, const names_list *names, size_t changes_max)
{
  char id[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  out_set(o, OUT_ID);
  out_text(o, pd_record_kind_name(record->kind));
  if (has_commit(record)) out_printf(o, " %s", cli_short_id(&record->commit.id, id));
  out_set(o, OUT_PLAIN);
  if (names && record->kind == PD_RECORD_COMMIT) names_print(names, &record->commit.id, o);
  out_text(o, "\n");
  print_field(o, "Ref:", record->ref ? record->ref : "");
  print_field(o, "Author:", record->author);
  print_field(o, "Run:", record->run);
  print_field(o, "Date:", pd_time_text(record->time_ms, time));
  out_printf(o, "Record: #%" PRIu64 "\n", record->seq);
  if (*record->reason) {
    out_text(o, "\n    ");
    out_safe(o, pd_text(record->reason));
    out_text(o, "\n");
  }
  print_changes(o, record, changes_max);
}

void record_print_summary(out_stream *o, const pd_record *record)
{
  if (*record->reason) {
    cli_value_short(o, pd_text(record->reason), SUMMARY_SIZE_MAX);
    return;
  }
  if (record->kind != PD_RECORD_COMMIT) {
    out_printf(o, "%s %s", pd_record_kind_name(record->kind), record->ref ? record->ref : "");
    return;
  }
  if (!record->change_count) out_text(o, "no change");
  for (size_t i = 0; i < record->change_count && i < 2; i++) {
    out_text(o, i ? ", " : "");
    out_text(o, record->changes[i].is_delete ? "del " : "put ");
    cli_value_short(o, record->changes[i].key, SUMMARY_SIZE_MAX);
  }
  if (record->change_count > 2) out_printf(o, " and %zu more", record->change_count - 2);
}

void record_print_line(out_stream *o, const pd_record *record, const names_list *names)
{
  char id[PD_ID_HEX_SIZE];
  out_set(o, OUT_ID);
  out_text(o, has_commit(record) ? cli_short_id(&record->commit.id, id) : "            ");
  out_set(o, OUT_PLAIN);
  if (names && record->kind == PD_RECORD_COMMIT) names_print(names, &record->commit.id, o);
  out_text(o, " ");
  if (record->kind != PD_RECORD_COMMIT && *record->reason) out_printf(o, "%s %s: ", pd_record_kind_name(record->kind), record->ref);
  record_print_summary(o, record);
}

void record_json(pd_json_writer *w, const pd_record *record)
{
  pd_json_open(w, '{');
  pd_json_put_record(w, record, PD_WITH_KIND | PD_WITH_REF | PD_WITH_TREE | PD_WITH_PARENTS);
  pd_json_put_changes(w, record);
  pd_json_put_id(w, "audit", &record->audit);
  pd_json_close(w, '}');
}
