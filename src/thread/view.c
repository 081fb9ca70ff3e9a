/* view.c: see view.h. */
#include "thread/view.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/thread.h"

pd_code pd_old_view_scan(const pd_old_view *view, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  return view->edit ? pd_edit_iter(view->edit, scan, out, err) : pd_iter_open(view->store, view->at, scan, out, err);
}

/* No key has a NUL, so nothing lies between a key and itself with one behind it. */
static pd_code open_at_key(const pd_old_view *view, pd_bytes key, bool keys_only, pd_iter **out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf next = {0};
  TRY(pd_buf_append(&next, key.data, key.size, err));
  TRY(pd_buf_byte(&next, 0, err));
  return pd_iter_open(view->store, view->at, &(pd_scan){.from = key, .to = pd_buf_bytes(&next), .keys_only = keys_only}, out, err);
}

pd_code pd_old_view_get(const pd_old_view *view, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  if (view->edit) return pd_edit_get(view->edit, key, out_value, out_entry, err);
  if (view->is_past) return pd_get(view->store, view->at, key, out_value, out_entry, err);
  TRY(open_at_key(view, key, !out_value, &iter, err));
  pd_code code = pd_iter_next(iter, &entry, &value, err);
  if (code == PD_NOT_FOUND)
    return pd_error_set(err, PD_NOT_FOUND, "there is no key '%.*s'", (int)(key.size < 200 ? key.size : 200), (const char *)key.data);
  TRY(code);
  if (out_value) {
    pd_buf_clear(out_value);
    TRY(pd_buf_append(out_value, value.data, value.size, err));
  }
  entry.key = key;
  if (out_entry) *out_entry = entry;
  return PD_OK;
}
