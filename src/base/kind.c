/* kind.c: the names of kinds of records and of events. Declared in perdure.h and watch.h. */
#include "base/base.h"

#include <perdure/perdure.h>

const char *pd_record_kind_name(pd_record_kind kind)
{
  static const char *const names[PD_RECORD_KIND_COUNT] = {"none", "commit", "fork",   "reset",   "undo",
                                                          "redo", "delete", "switch", "keyframe"};
  return (unsigned)kind < PD_RECORD_KIND_COUNT ? names[kind] : "unknown";
}

const char *pd_watch_kind_name(pd_watch_kind kind)
{
  static const char *const names[] = {"none", "put", "delete", "move", "gap"};
  return (unsigned)kind < COUNT_OF(names) ? names[kind] : "unknown";
}
