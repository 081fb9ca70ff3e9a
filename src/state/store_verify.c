/* store_verify.c: store.verify: recompute a whole store where it lies; what perdure verify does. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#define FINDINGS_MAX 1000 /* in the answer */

typedef struct store_check {
  pd_frame *frame;
  pd_buf texts; /* the findings, as the inside of an array */
  pd_json_writer w;
  uint64_t findings, heads, heads_retired;
} store_check;

static void check_done(store_check *c)
{
  pd_buf_done(&c->texts);
}

static void add_finding(void *ctx, const char *what)
{
  store_check *c = ctx;
  if (c->findings++ < FINDINGS_MAX) pd_json_text(&c->w, pd_text(what));
}

static bool go_on(void *ctx, uint64_t done, uint64_t total)
{
  const store_check *c = ctx;
  return pd_frame_progress(c->frame, done, total, NULL) == PD_OK;
}

/* A head that does not fit is a finding; one of history that was retired cannot be compared. */
static pd_code check_head(store_check *c, pd_store *store, const pd_public_key *key, pd_error *err)
{
  pd_bytes document = pd_in_text(c->frame, "head");
  pd_signed_head head;
  pd_error why = {0};
  if (!document.size) return PD_OK;
  pd_code code = pd_check_signed_head(document, key, &head, &why);
  if (!code) code = pd_verify_head(store, &head, &why);
  c->heads++;
  c->heads_retired += code == PD_RETIRED;
  if (!code || code == PD_RETIRED) return PD_OK;
  bool is_finding = code == PD_CORRUPT || code == PD_CONFLICT || code == PD_FORMAT || code == PD_LIMIT;
  if (is_finding)
    add_finding(c, why.message);
  else
    *err = why;
  return is_finding ? PD_OK : code;
}

static pd_code check_heads(store_check *c, pd_store *store, pd_error *err)
{
  pd_heads_report kept = {0};
  pd_public_key key;
  pd_error why = {0};
  pd_bytes text = pd_in_text(c->frame, "public_key");
  if (!text.size) return PD_OK;
  TRY(pd_public_key_parse(text, &key, err));
  pd_code code = pd_verify_heads(store, &key, add_finding, c, &kept, &why);
  if (code && !(code == PD_CORRUPT && kept.findings)) {
    *err = why;
    return code;
  }
  c->heads = kept.heads;
  c->heads_retired = kept.retired;
  return check_head(c, store, &key, err);
}

static pd_code check_store(store_check *c, pd_store *store, pd_verify_report *out, pd_error *err)
{
  char since[PD_STORE_AT_SIZE];
  pd_error why = {0};
  pd_verify_options options = {.progress = go_on, .finding = add_finding, .ctx = c};
  if (pd_in_text(c->frame, "since").size) {
    TRY(pd_store_at(c->frame, store, "since", since, err));
    options.since = since;
  }
  pd_code code = pd_verify(store, &options, out, &why);
  if (!code || (code == PD_CORRUPT && out->findings)) return PD_OK;
  TRY(pd_frame_progress(c->frame, 0, 0, err)); /* it was given up: say so by the name that it has */
  *err = why;
  return code;
}

pd_code pd_cap_store_verify(pd_frame *frame, pd_error *err)
{
  CLEANUP(check_done) store_check c = {.frame = frame};
  pd_verify_report report = {0};
  pd_store *store;
  c.w = (pd_json_writer){.out = &c.texts, .err = err};
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(check_store(&c, store, &report, err));
  TRY(check_heads(&c, store, err));
  TRY(c.w.code);
  pd_json_put_number(&frame->out, "records", report.records);
  pd_json_put_number(&frame->out, "commits", report.commits);
  pd_json_put_number(&frame->out, "values", report.values);
  pd_json_put_number(&frame->out, "nodes", report.nodes);
  pd_json_put_number(&frame->out, "keyframes", report.keyframes);
  pd_json_put_number(&frame->out, "heads", c.heads);
  pd_json_put_number(&frame->out, "heads_retired", c.heads_retired);
  pd_json_put_number(&frame->out, "finding_count", c.findings);
  pd_json_key(&frame->out, "findings");
  pd_json_open(&frame->out, '[');
  pd_json_raw(&frame->out, pd_buf_bytes(&c.texts));
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}
