/*
 * json_report.h: reports of the engine as JSON and back, by one table for both ends: what a server answers becomes the struct that the
 * command line prints.
 */
#ifndef PD_BASE_JSON_REPORT_H
#define PD_BASE_JSON_REPORT_H

#include "base/bind.h"

#include <perdure/perdure.h>

#define PD_BUNDLE_HEADER "Perdure-Bundle" /* of an answer that is a bundle: pd_export_report as JSON */

#define PD_REPORT_TABLE(name)                                                                                                              \
  extern const pd_bind pd_##name##_members[];                                                                                              \
  extern const size_t pd_##name##_member_count

PD_REPORT_TABLE(export);
PD_REPORT_TABLE(import);
PD_REPORT_TABLE(import_ref);
PD_REPORT_TABLE(gc);
PD_REPORT_TABLE(gc_info);
PD_REPORT_TABLE(erase);
PD_REPORT_TABLE(du);
PD_REPORT_TABLE(repair);
PD_REPORT_TABLE(thread_replay);

/* {"ref":…,"commit":…,"fate":…} of an import. */
typedef struct pd_import_moved {
  char name[2 * PD_REF_SIZE_MAX + 2];
  pd_id commit;
  uint32_t fate; /* pd_import_fate - 1 */
} pd_import_moved;

/* "created", "forwarded", "replaced", "unchanged", NULL. */
extern const char *const pd_import_fate_names[];

#endif
