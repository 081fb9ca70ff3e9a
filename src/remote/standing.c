/* standing.c: see standing.h. */
#include "remote/standing.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"

#include <stdlib.h>

static bool asks_for(const pd_errand *errand, const char *method)
{
  return errand->json.kind == PD_JSON_OBJECT && pd_json_is(pd_json_member(errand->json, "method"), method);
}

static pd_json uri_of(const pd_errand *errand)
{
  return pd_json_member(pd_json_member(errand->json, "params"), "uri");
}

pd_json pd_standing_uri(const pd_errand *errand)
{
  return asks_for(errand, "resources/subscribe") ? uri_of(errand) : (pd_json){0};
}

static void done_wish(pd_standing_wish *wish)
{
  pd_buf_done(&wish->key);
  pd_buf_done(&wish->line);
}

static void forget(pd_standing *standing, pd_bytes key)
{
  for (size_t i = 0; i < standing->count; i++)
    if (pd_bytes_equal(pd_buf_bytes(&standing->wishes[i].key), key)) {
      done_wish(&standing->wishes[i]);
      standing->wishes[i] = standing->wishes[--standing->count];
      return;
    }
}

static pd_code keep(pd_standing *standing, pd_bytes key, pd_bytes line, pd_error *err)
{
  forget(standing, key);
  TRY(pd_array_grow(&standing->wishes, standing->count, &standing->capacity, sizeof standing->wishes[0], "subscriptions", err));
  pd_standing_wish wish = {0};
  pd_code code = pd_buf_append(&wish.key, key.data, key.size, err);
  if (!code) code = pd_buf_append(&wish.line, line.data, line.size, err);
  if (code)
    done_wish(&wish);
  else
    standing->wishes[standing->count++] = wish;
  return code;
}

pd_code pd_standing_note(pd_standing *standing, const pd_errand *errand, pd_json answer, pd_error *err)
{
  if (*errand->version || pd_json_member(answer, "result").kind != PD_JSON_OBJECT) return PD_OK; /* the stateless era has no sessions */
  pd_bytes line = pd_buf_bytes(&errand->text);
  if (asks_for(errand, "logging/setLevel")) return keep(standing, pd_text("level"), line, err); /* no URI, which has quotes */
  if (asks_for(errand, "resources/subscribe")) return keep(standing, uri_of(errand).raw, line, err);
  if (asks_for(errand, "resources/unsubscribe")) forget(standing, uri_of(errand).raw);
  return PD_OK;
}

void pd_standing_done(pd_standing *standing)
{
  for (size_t i = 0; i < standing->count; i++) done_wish(&standing->wishes[i]);
  free(standing->wishes);
  *standing = (pd_standing){0};
}
