/* replay.c: is the thread what its change sets make of it? */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/rebuild.h"

typedef struct replay {
  pd_rebuild r;
  pd_thread_replay_report report;
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  void *ctx;
  uint64_t total;
} replay;

static void replay_done(replay *rp)
{
  pd_rebuild_done(&rp->r);
}

static void compare(replay *rp, uint64_t version, const pd_id *commit)
{
  static const pd_id unknown; /* retention took it: the versions after it still tell */
  if (!rp->report.is_same || pd_id_equal(commit, &rp->r.t->commit.id) || pd_id_equal(commit, &unknown)) return;
  rp->report.is_same = false;
  rp->report.differs_at = version;
}

/* What the rebuild refuses was taken once: so the thread is damaged. */
static pd_code as_damage(const pd_thread *t, uint64_t version, pd_code code, const pd_error *why, pd_error *err)
{
  if (code == PD_INVALID || code == PD_LIMIT || code == PD_CONFLICT)
    return pd_error_set(err, PD_CORRUPT, "thread '%s' cannot be replayed at version %llu: %.300s", t->id, (unsigned long long)version,
                        why->message);
  if (code && err) *err = *why;
  return code;
}

static pd_code copy_identity(const pd_identity *from, pd_identity *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  TRY(pd_identity_write(from, &text, err));
  TRY(pd_json_parse(pd_buf_bytes(&text), &json, err));
  return pd_identity_parse(json, out, err);
}

static pd_code replay_identity(void *ctx, const pd_identity *identity, pd_error *err)
{
  CLEANUP(pd_identity_done) pd_identity copy = {0};
  replay *rp = ctx;
  TRY(copy_identity(identity, &copy, err));
  return pd_rebuild_identity(&rp->r, &copy, err);
}

static pd_code replay_change(void *ctx, const pd_thread_delta *delta, pd_error *err)
{
  replay *rp = ctx;
  TRY(pd_rebuild_change(&rp->r, delta->version, delta->json, err));
  compare(rp, delta->version, &delta->commit);
  rp->report.versions = delta->version;
  if (rp->progress && !rp->progress(rp->ctx, delta->version, rp->total)) return pd_error_set(err, PD_INVALID, "the replay was given up");
  return PD_OK;
}

static pd_code compare_states(pd_thread *t, replay *rp, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf is = {0}, rebuilt = {0};
  TRY(pd_thread_need_doc(t, err));
  TRY(pd_thread_need_doc(rp->r.t, err));
  TRY(pd_doc_write(t->doc, &is, err));
  TRY(pd_doc_write(rp->r.t->doc, &rebuilt, err));
  compare(rp, t->head.version, &t->commit.id);
  if (rp->report.is_same && !pd_bytes_equal(pd_buf_bytes(&is), pd_buf_bytes(&rebuilt))) {
    rp->report.is_same = false;
    rp->report.differs_at = t->head.version;
  }
  return PD_OK;
}

static pd_code verdict(const pd_thread *t, replay *rp, pd_thread_replay_report *out, pd_error *err)
{
  pd_thread_replay_report *report = &rp->report;
  report->messages = rp->r.t->head.messages;
  report->runs = rp->r.t->head.runs;
  report->forks = rp->r.identity.forks;
  report->commit = rp->r.t->commit.id;
  if (out) *out = *report;
  if (report->is_same) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "thread '%s' is not what its change sets make of it: version %llu differs", t->id,
                      (unsigned long long)report->differs_at);
}

pd_code pd_thread_replay(pd_thread *thread, bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                         pd_thread_replay_report *out, pd_error *err)
{
  CLEANUP(replay_done) replay rp = {.progress = progress, .ctx = ctx, .report = {.is_same = true}};
  pd_story story = {.identity = replay_identity, .change = replay_change, .ctx = &rp};
  pd_error why;
  TRY(pd_thread_follow(thread, err));
  rp.total = thread->head.version;
  TRY(pd_rebuild_open(&rp.r, err));
  pd_code code = pd_thread_tell(thread, &story, &why);
  bool is_given_up = code == PD_INVALID && strcmp(why.message, "the replay was given up") == 0;
  if (is_given_up && err) *err = why;
  if (code) return is_given_up ? code : as_damage(thread, rp.report.versions + 1, code, &why, err);
  TRY(compare_states(thread, &rp, err));
  return verdict(thread, &rp, out, err);
}
