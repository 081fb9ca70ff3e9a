/* window.c: see window.h. What was last set is a setting of the store itself, so that every process sees it. */
#include "state/window.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/quota.h"

#include <stdio.h>

#define IN_FORCE "state.persistent.versions"
#define KEEP_LAST "1000" /* commits that can be read as a whole, whatever the versions: for undo, diff and log */
#define VERSIONS_MAX 999999999
#define COMMON_IN_FORCE "state.common.gc"
#define SHARED_DAYS "7" /* a suspended subscription goes on where it was for so long; later it is told of a gap */

static pd_code set(pd_store *store, const char *name, const char *value, pd_error *err)
{
  pd_note note = {.author = "perdure", .reason = "persistent.versions"};
  return pd_setting_set(store, name, pd_text(value), &note, err);
}

/* *out: nothing is to be done. */
static pd_code is_settled(pd_store *store, const char *versions, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  pd_ref main_ref;
  pd_code code = pd_setting_get(store, IN_FORCE, &before, err);
  if (code == PD_NOT_FOUND) {
    TRY(pd_ref_get(store, PD_STATE_REF, &main_ref, err));
    *out = main_ref.commit.seq != 0;
    return PD_OK;
  }
  *out = !code && pd_bytes_equal(pd_buf_bytes(&before), pd_text(versions));
  return code;
}

pd_code pd_window_keep(pd_store *store, uint64_t versions, pd_error *err)
{
  char text[24];
  bool is_done;
  snprintf(text, sizeof text, "%llu", (unsigned long long)(versions < VERSIONS_MAX ? versions : VERSIONS_MAX));
  TRY(is_settled(store, text, &is_done, err));
  if (is_done) return PD_OK;
  if (versions) {
    TRY(set(store, PD_SETTING_GC_KEEP_VERSIONS, text, err));
    TRY(set(store, PD_SETTING_GC_KEEP_LAST, KEEP_LAST, err));
  }
  TRY(set(store, PD_SETTING_GC_AUTO, versions ? "on" : "off", err));
  return set(store, IN_FORCE, text, err);
}

static pd_code has_setting(pd_store *store, const char *name, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_code code = pd_setting_get(store, name, &value, err);
  *out = !code;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_window_keep_common(pd_store *store, bool is_shared, pd_error *err)
{
  bool is_done, is_by_hand;
  TRY(has_setting(store, COMMON_IN_FORCE, &is_done, err));
  if (is_done) return PD_OK;
  TRY(has_setting(store, PD_SETTING_GC_AUTO, &is_by_hand, err));
  if (!is_by_hand) {
    TRY(set(store, PD_SETTING_GC_KEEP_LAST, KEEP_LAST, err));
    if (is_shared) TRY(set(store, PD_SETTING_GC_KEEP_DAYS, SHARED_DAYS, err));
    TRY(set(store, PD_SETTING_GC_AUTO, "on", err));
  }
  return set(store, COMMON_IN_FORCE, "1", err);
}
