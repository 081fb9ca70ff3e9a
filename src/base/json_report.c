/* json_report.c: see json_report.h. */
#include "base/json_report.h"

#include "base/base.h"

#include <perdure/thread.h>

const char *const pd_import_fate_names[] = {"created", "forwarded", "replaced", "unchanged", NULL};

const pd_bind pd_export_members[] = {
  {"commits", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, commits)},
  {"changes", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, changes)},
  {"refs", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, refs)},
  {"metas", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, metas)},
  {"needs", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, needs)},
  {"value_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, value_bytes)},
  {"file_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_export_report, file_bytes)},
};
const size_t pd_export_member_count = COUNT_OF(pd_export_members);

const pd_bind pd_import_members[] = {
  {"source", PD_BIND_TEXT, PD_BIND_AT(pd_import_report, source)},
  {"commits", PD_BIND_NUMBER, PD_BIND_AT(pd_import_report, commits)},
  {"added", PD_BIND_NUMBER, PD_BIND_AT(pd_import_report, added)},
  {"changes", PD_BIND_NUMBER, PD_BIND_AT(pd_import_report, changes)},
  {"value_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_import_report, value_bytes)},
  {"refs_moved", PD_BIND_NUMBER, PD_BIND_AT(pd_import_report, refs_moved)},
  {"metas_added", PD_BIND_NUMBER, PD_BIND_AT(pd_import_report, metas_added)},
};
const size_t pd_import_member_count = COUNT_OF(pd_import_members);

const pd_bind pd_import_ref_members[] = {
  {"ref", PD_BIND_TEXT, PD_BIND_AT(pd_import_moved, name)},
  {"commit", PD_BIND_ID, PD_BIND_AT(pd_import_moved, commit)},
  {"fate", PD_BIND_NAME, PD_BIND_AT(pd_import_moved, fate), .names = pd_import_fate_names},
};
const size_t pd_import_ref_member_count = COUNT_OF(pd_import_ref_members);

const pd_bind pd_gc_members[] = {
  {"commits", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, commits)},
  {"retired", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, retired)},
  {"kept_heads", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_heads)},
  {"kept_marks", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_marks)},
  {"kept_last", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_last)},
  {"kept_days", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_days)},
  {"kept_refs", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_refs)},
  {"kept_base", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_base)},
  {"kept_versions", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, kept_versions)},
  {"dropped_versions", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, dropped_versions)},
  {"log_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, log_bytes)},
  {"bag_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, bag_bytes)},
  {"disk_before", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, disk_before)},
  {"disk_after", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_report, disk_after)},
};
const size_t pd_gc_member_count = COUNT_OF(pd_gc_members);

const pd_bind pd_gc_info_members[] = {
  {"cut", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_info, cut)},
  {"points", PD_BIND_NUMBER, PD_BIND_AT(pd_gc_info, points)},
  {"is_auto", PD_BIND_BOOL, PD_BIND_AT(pd_gc_info, is_auto)},
};
const size_t pd_gc_info_member_count = COUNT_OF(pd_gc_info_members);

const pd_bind pd_erase_members[] = {
  {"versions", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, versions)},
  {"bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, bytes)},
  {"refs", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, refs)},
  {"held_refs", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, held_refs)},
  {"held_marks", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, held_marks)},
  {"held_keys", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, held_keys)},
  {"disk_before", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, disk_before)},
  {"disk_after", PD_BIND_NUMBER, PD_BIND_AT(pd_erase_report, disk_after)},
  {"held_by", PD_BIND_TEXT, PD_BIND_AT(pd_erase_report, held_by), .is_optional = true},
  {"has_commit", PD_BIND_BOOL, PD_BIND_AT(pd_erase_report, has_commit)},
  {"commit", PD_BIND_ID, PD_BIND_AT(pd_erase_report, commit), .is_optional = true},
};
const size_t pd_erase_member_count = COUNT_OF(pd_erase_members);

const pd_bind pd_du_members[] = {
  {"keys", PD_BIND_NUMBER, PD_BIND_AT(pd_du, keys)},
  {"bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, bytes)},
  {"versions", PD_BIND_NUMBER, PD_BIND_AT(pd_du, versions)},
  {"version_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, version_bytes)},
  {"live_versions", PD_BIND_NUMBER, PD_BIND_AT(pd_du, live_versions)},
  {"live_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, live_bytes)},
  {"history_versions", PD_BIND_NUMBER, PD_BIND_AT(pd_du, history_versions)},
  {"history_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, history_bytes)},
  {"log_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, log_bytes)},
  {"bag_value_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, bag_value_bytes)},
  {"bag_node_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, bag_node_bytes)},
  {"gc_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, gc_bytes)},
  {"overhead_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, overhead_bytes)},
  {"disk_bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_du, disk_bytes)},
};
const size_t pd_du_member_count = COUNT_OF(pd_du_members);

const pd_bind pd_repair_members[] = {
  {"records", PD_BIND_NUMBER, PD_BIND_AT(pd_repair_report, records)},   {"damaged", PD_BIND_NUMBER, PD_BIND_AT(pd_repair_report, damaged)},
  {"missing", PD_BIND_NUMBER, PD_BIND_AT(pd_repair_report, missing)},   {"mended", PD_BIND_NUMBER, PD_BIND_AT(pd_repair_report, mended)},
  {"findings", PD_BIND_NUMBER, PD_BIND_AT(pd_repair_report, findings)}, {"refs", PD_BIND_NUMBER, PD_BIND_AT(pd_repair_report, refs)},
};
const size_t pd_repair_member_count = COUNT_OF(pd_repair_members);

const pd_bind pd_thread_replay_members[] = {
  {"versions", PD_BIND_NUMBER, PD_BIND_AT(pd_thread_replay_report, versions)},
  {"messages", PD_BIND_NUMBER, PD_BIND_AT(pd_thread_replay_report, messages)},
  {"runs", PD_BIND_NUMBER, PD_BIND_AT(pd_thread_replay_report, runs)},
  {"commit", PD_BIND_ID, PD_BIND_AT(pd_thread_replay_report, commit)},
};
const size_t pd_thread_replay_member_count = COUNT_OF(pd_thread_replay_members);
