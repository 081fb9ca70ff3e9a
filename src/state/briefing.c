/* briefing.c: state.briefing.generate: gathering the sections, the summary, and what is dropped to fit. See briefing.h. */
#include "state/briefing.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/activity.h"
#include "state/health.h"
#include "state/moment.h"
#include "state/run.h"

#include <stdio.h>

static const struct {
  const char *name; /* of the member */
  const char *like; /* the capability that tells the same; NULL: the section asks policy itself, about each key */
  pd_code (*gather)(pd_briefing *b, pd_section *out, pd_error *err);
} kinds[PD_BRIEF_COUNT] = {
  [PD_BRIEF_HEALTH] = {"health", "system.health", pd_brief_health},
  [PD_BRIEF_ALERTS] = {"alerts", "alerts.list", pd_brief_alerts},
  [PD_BRIEF_PENDING] = {"pending_approvals", "approvals.list", pd_brief_pending},
  [PD_BRIEF_DECISIONS] = {"approval_decisions", "approvals.list", pd_brief_decisions},
  [PD_BRIEF_MESSAGES] = {"unread_messages", "queue.count", pd_brief_messages},
  [PD_BRIEF_PROCESSES] = {"process_events", "process.list", pd_brief_processes},
  [PD_BRIEF_SHARED] = {"shared_changes", NULL, pd_brief_shared},
  [PD_BRIEF_FILES] = {"filesystem_changes", "folders.list", pd_brief_files},
  [PD_BRIEF_OWN] = {"own_changes", NULL, pd_brief_own},
};

typedef enum level { LEVEL_NONE = 0, LEVEL_BRIEF, LEVEL_FULL } level;

/* What the answer takes. */
typedef struct choice {
  level levels[PD_BRIEF_COUNT];
  size_t sentences; /* how many of the first kinds may have a sentence */
  bool is_short;    /* something was left out */
} choice;

static void section_done(pd_section *section)
{
  pd_buf_done(&section->brief);
  pd_buf_done(&section->full);
  pd_buf_done(&section->sentence);
}

static void briefing_done(pd_briefing *b)
{
  for (size_t i = 0; i < PD_BRIEF_COUNT; i++) section_done(&b->sections[i]);
}

pd_code pd_brief_count(pd_buf *out, uint64_t count, const char *one, const char *many, pd_error *err)
{
  return pd_buf_printf(out, err, "%llu %s", (unsigned long long)count, count == 1 ? one : many);
}

/* ---- the summary ---- */

static pd_code write_opening(const pd_briefing *b, pd_buf *out, pd_error *err)
{
  char span[PD_SPAN_TEXT_SIZE], when[PD_TIME_TEXT_SIZE];
  int64_t now_ms = b->frame->now_ms;
  bool is_given = pd_in_text(b->frame, "since").data != NULL;
  if (b->since_ms > now_ms) return pd_buf_printf(out, err, "%s is still to come", pd_time_text(b->since_ms, when));
  if (!b->since_ms && !is_given) return pd_buf_printf(out, err, "This is your first briefing");
  pd_span_text(now_ms - b->since_ms, span);
  if (!is_given) return pd_buf_printf(out, err, "While you were away (%s)", span);
  pd_time_text(b->since_ms, when);
  return pd_buf_printf(out, err, "Since %.10s %.5s UTC (%s)", when, when + 11, span);
}

static pd_code write_summary(const pd_briefing *b, const choice *c, pd_buf *out, pd_error *err)
{
  size_t told = 0, left = 0;
  TRY(write_opening(b, out, err));
  for (size_t i = 0; i < PD_BRIEF_COUNT; i++) {
    const pd_buf *sentence = &b->sections[i].sentence;
    if (!sentence->size) continue;
    if (i >= c->sentences) {
      left++;
      continue;
    }
    TRY(pd_buf_append(out, told++ ? ". " : ": ", 2, err));
    TRY(pd_buf_append(out, sentence->data, sentence->size, err));
  }
  if (!told && !left) TRY(pd_buf_printf(out, err, ": nothing happened"));
  TRY(pd_buf_byte(out, '.', err));
  if (c->is_short) TRY(pd_buf_printf(out, err, " (Shortened.)"));
  return PD_OK;
}

/* ---- the answer ---- */

static void write_dropped(pd_json_writer *w, const pd_briefing *b, const choice *c)
{
  pd_json_key(w, "dropped");
  pd_json_open(w, '[');
  for (size_t i = 0; i < PD_BRIEF_COUNT; i++) {
    bool has_full = b->is_detailed && b->sections[i].full.size;
    char text[64];
    if (c->levels[i] == LEVEL_NONE)
      snprintf(text, sizeof text, "%s", kinds[i].name);
    else if (c->levels[i] == LEVEL_BRIEF && has_full)
      snprintf(text, sizeof text, "%s (lists)", kinds[i].name);
    else
      continue;
    pd_json_text(w, pd_text(text));
  }
  pd_json_close(w, ']');
}

static pd_code write_briefing(const pd_briefing *b, const choice *c, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf summary = {0};
  pd_json_writer w = {.out = out, .err = err};
  TRY(write_summary(b, c, &summary, err));
  pd_json_open(&w, '{');
  pd_json_put_time(&w, "since", b->since_ms);
  pd_json_put_time(&w, "until", b->frame->now_ms);
  pd_json_put_bytes(&w, "summary", pd_buf_bytes(&summary));
  for (size_t i = 0; i < PD_BRIEF_COUNT; i++) {
    const pd_section *s = &b->sections[i];
    const pd_buf *text = c->levels[i] == LEVEL_FULL && s->full.size ? &s->full : &s->brief;
    if (c->levels[i] != LEVEL_NONE) pd_json_put_value(&w, kinds[i].name, (pd_json){pd_buf_bytes(text), PD_JSON_OBJECT});
  }
  if (c->is_short) write_dropped(&w, b, c);
  pd_json_close(&w, '}');
  return w.code;
}

/* Take a little less: first the lists of the least important section, then the section, then its sentence. False: nothing is left. */
static bool take_less(const pd_briefing *b, choice *c)
{
  c->is_short = true;
  for (size_t i = PD_BRIEF_COUNT; i-- > 0;)
    if (c->levels[i] == LEVEL_FULL) {
      c->levels[i] = LEVEL_BRIEF;
      if (b->sections[i].full.size) return true;
    }
  for (size_t i = PD_BRIEF_COUNT; i-- > 0;)
    if (c->levels[i] == LEVEL_BRIEF) {
      c->levels[i] = LEVEL_NONE;
      return true;
    }
  if (!c->sentences) return false;
  c->sentences--;
  return true;
}

static pd_code fit(const pd_briefing *b, uint64_t size_max, pd_buf *out, pd_error *err)
{
  choice c = {.sentences = PD_BRIEF_COUNT};
  for (size_t i = 0; i < PD_BRIEF_COUNT; i++) c.levels[i] = b->is_detailed ? LEVEL_FULL : LEVEL_BRIEF;
  for (;;) {
    pd_buf_clear(out);
    TRY(write_briefing(b, &c, out, err));
    if (out->size <= size_max || !take_less(b, &c)) return PD_OK;
  }
}

/* ---- gathering ---- */

static bool is_damage(pd_code code)
{
  return code == PD_CORRUPT || code == PD_STORAGE || code == PD_FORMAT || code == PD_READ_ONLY || code == PD_FULL;
}

/* Instead of a section that cannot be read: what is wrong with it. Messages name files of the host, which are not an agent's to know. */
static pd_code tell_failing(const pd_frame *frame, const char *name, const pd_error *why, pd_section *out, pd_error *err)
{
  const char *problem = frame->ctx->is_operator ? why->message : pd_code_name(why->code);
  section_done(out);
  *out = (pd_section){0};
  pd_json_writer w = {.out = &out->brief, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "status", pd_health_status_name(PD_HEALTH_FAILING));
  pd_json_put_text(&w, "problem", problem);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_buf_printf(&out->sentence, err, "%s cannot be read: %s", name, problem);
}

/* Policy keeps the section from the agent, as it does the call. */
static bool is_closed(const pd_briefing *b, size_t kind)
{
  pd_ctx who = {.home = b->home, .agent = b->agent};
  return kinds[kind].like && !pd_authorise_any(&who, kinds[kind].like, false);
}

static pd_code tell_closed(size_t kind, pd_section *out, pd_error *err)
{
  pd_json_writer w = {.out = &out->brief, .err = err};
  pd_json_open(&w, '{');
  if (kind != PD_BRIEF_HEALTH) pd_json_put_number(&w, "count", 0);
  pd_json_put_text(&w, "left_out", "all, by policy");
  pd_json_close(&w, '}');
  return w.code;
}

/* A store that is damaged takes its own sections away, not the briefing. */
static pd_code gather_all(pd_briefing *b, pd_error *err)
{
  for (size_t i = 0; i < PD_BRIEF_COUNT; i++) {
    pd_error why = {0};
    pd_code code = is_closed(b, i) ? tell_closed(i, &b->sections[i], &why) : kinds[i].gather(b, &b->sections[i], &why);
    if (is_damage(code)) code = tell_failing(b->frame, kinds[i].name, &why, &b->sections[i], &why);
    if (code) *err = why;
    TRY(code);
  }
  return PD_OK;
}

pd_code pd_cap_state_briefing_generate(pd_frame *frame, pd_error *err)
{
  CLEANUP(briefing_done) pd_briefing b = {.frame = frame, .home = frame->home, .agent = frame->agent};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  bool has_since;
  TRY(pd_in_moment(frame, "since", &b.since_ms, &has_since, err));
  if (!has_since) pd_activity_last(frame->home, frame->agent, frame->ctx->session, &b.since_ms);
  b.is_detailed = pd_bytes_equal(pd_in_text(frame, "detail_level"), pd_text("detailed"));
  TRY(gather_all(&b, err));
  TRY(fit(&b, (uint64_t)pd_in_int(frame, "max_chars", INT64_MAX), &text, err));
  pd_json_put_value(&frame->out, "briefing", (pd_json){pd_buf_bytes(&text), PD_JSON_OBJECT});
  return PD_OK;
}
