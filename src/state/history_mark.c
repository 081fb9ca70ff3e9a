/*
 * history_mark.c: history.tag, untag, pin, unpin: points that retention must keep.
 *
 * A tag or a pin that somebody else has set (the operator, a system snapshot) is not the agent's to move or to remove: it may be what
 * somebody needs who does not trust the agent.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/run.h"
#include "state/threads.h"

#include <stdio.h>

/* ---- who has set what ---- */

typedef struct mark_search {
  const char *name, *author; /* author: whose are counted */
  bool is_found, is_own;
  uint64_t count;
} mark_search;

static bool look_at_mark(void *ctx, const pd_mark *mark)
{
  mark_search *search = ctx;
  bool is_own = strcmp(mark->author, search->author) == 0;
  search->count += is_own;
  if (strcmp(mark->name, search->name) != 0) return true;
  search->is_found = true;
  search->is_own = is_own;
  return true;
}

static pd_code not_yours(const pd_frame *frame, const char *what, const char *name, pd_error *err)
{
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s: %s '%.128s' was set by somebody else, not by agent '%s'",
                        frame->capability->name, what, name, frame->agent);
}

/* PD_QUOTA if the agent has as many as it may have. */
static pd_code check_count(pd_frame *frame, pd_store *store, pd_error *err)
{
  mark_search tags = {.name = "", .author = frame->agent}, pins = tags;
  uint64_t limit = frame->home->config.history_marks_max;
  if (frame->ctx->is_operator) return PD_OK;
  TRY(pd_tag_list(store, look_at_mark, &tags, err));
  TRY(pd_pin_list(store, look_at_mark, &pins, err));
  if (tags.count + pins.count < limit) return PD_OK;
  pd_frame_detail_number(frame, "used", tags.count + pins.count);
  pd_frame_detail_number(frame, "limit", limit);
  return pd_error_named(err, PD_QUOTA, "QuotaExceeded", "agent '%s' has set %llu tags and pins, at most %llu are allowed", frame->agent,
                        (unsigned long long)(tags.count + pins.count), (unsigned long long)limit);
}

/* ---- tags ---- */

static pd_code take_name(const pd_frame *frame, char out[PD_REF_SIZE_MAX + 1], pd_error *err)
{
  static const char *const taken[] = {"main", "root"};
  bool is_good = pd_in_string(frame, "name", out, PD_REF_SIZE_MAX + 1) && pd_agent_check(out, NULL) == PD_OK && !pd_history_hides(out);
  for (size_t i = 0; i < COUNT_OF(taken); i++) is_good = is_good && strcmp(out, taken[i]) != 0;
  if (is_good) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidInput",
                        "%s: field 'name' is no name of a tag: 1 to 64 of letters, digits, '.', '_' and '-', a letter or digit first, "
                        "and none that perdure uses itself",
                        frame->capability->name);
}

static pd_code find_tag(pd_frame *frame, pd_store *store, const char *name, mark_search *out, pd_error *err)
{
  *out = (mark_search){.name = name, .author = frame->agent};
  TRY(pd_tag_list(store, look_at_mark, out, err));
  out->is_own |= frame->ctx->is_operator;
  return PD_OK;
}

pd_code pd_cap_history_tag(pd_frame *frame, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1] = "";
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  bool may_move = pd_in_bool(frame, "move", false);
  mark_search search;
  pd_point_in point;
  pd_commit commit;
  pd_store *store;
  TRY(take_name(frame, name, err));
  TRY(pd_history_own(frame, &store, err));
  TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  TRY(find_tag(frame, store, name, &search, err));
  if (search.is_found && !search.is_own && may_move) return not_yours(frame, "tag", name, err);
  if (!search.is_found) TRY(check_count(frame, store, err));
  if (frame->foresees && search.is_found && !may_move) return pd_error_set(err, PD_EXISTS, "there is a tag '%s' already", name);
  pd_fact_text(frame, "at", point.at);
  TRY(pd_brink(frame, err));
  TRY(pd_tag_set(store, name, point.at, may_move, &note, &commit, err));
  pd_json_put_text(&frame->out, "name", name);
  pd_out_id(frame, "commit", &commit.id);
  return frame->out.code;
}

pd_code pd_cap_history_untag(pd_frame *frame, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1] = "";
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  mark_search search;
  pd_point_in point = {0};
  pd_store *store;
  TRY(take_name(frame, name, err));
  TRY(pd_history_own(frame, &store, err));
  TRY(find_tag(frame, store, name, &search, err));
  if (search.is_found && !search.is_own) return not_yours(frame, "tag", name, err);
  if (frame->foresees) TRY(pd_history_point_at(store, name, &point, err));
  pd_fact_text(frame, "commit", point.at);
  TRY(pd_brink(frame, err));
  TRY(pd_tag_delete(store, name, &note, err));
  pd_json_put_text(&frame->out, "name", name);
  pd_json_put_bool(&frame->out, "removed", true);
  return frame->out.code;
}

/* ---- pins ---- */

/* Who else pinned it keeps it pinned: nothing is written then. */
static pd_code find_pin(pd_frame *frame, pd_store *store, pd_point_in *point, mark_search *out, pd_error *err)
{
  TRY(pd_history_point(frame, store, "at", NULL, point, err));
  *out = (mark_search){.name = point->at, .author = frame->agent};
  TRY(pd_pin_list(store, look_at_mark, out, err));
  out->is_own |= frame->ctx->is_operator;
  return PD_OK;
}

pd_code pd_cap_history_pin(pd_frame *frame, pd_error *err)
{
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  mark_search search;
  pd_point_in point;
  pd_store *store;
  TRY(pd_history_own(frame, &store, err));
  TRY(find_pin(frame, store, &point, &search, err));
  if (!search.is_found) TRY(check_count(frame, store, err));
  pd_fact_text(frame, "at", point.at);
  TRY(pd_brink(frame, err));
  if (!search.is_found || search.is_own) TRY(pd_pin_set(store, point.at, &note, NULL, err));
  pd_out_id(frame, "commit", &point.commit.id);
  pd_json_put_bool(&frame->out, "pinned", true);
  return frame->out.code;
}

pd_code pd_cap_history_unpin(pd_frame *frame, pd_error *err)
{
  pd_history_texts texts;
  pd_note note = pd_history_note(frame, &texts);
  mark_search search;
  pd_point_in point;
  pd_store *store;
  TRY(pd_history_own(frame, &store, err));
  TRY(find_pin(frame, store, &point, &search, err));
  if (search.is_found && !search.is_own) return not_yours(frame, "the pin of", point.at, err);
  pd_fact_text(frame, "at", point.at);
  TRY(pd_brink(frame, err));
  TRY(pd_pin_delete(store, point.at, &note, err));
  pd_out_id(frame, "commit", &point.commit.id);
  pd_json_put_bool(&frame->out, "removed", true);
  return frame->out.code;
}
