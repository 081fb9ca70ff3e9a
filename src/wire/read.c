/*
 * read.c: reading without a capability's envelope: GET /v1/agents/NAME/state, /state/KEY, /log and /diff. NAME is an agent, or shared.
 * ETag is the id of the commit that was read, of a diff both ids, so who asks again with If-None-Match is answered 304 until something
 * changed.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_record.h"
#include "base/number.h"
#include "wire/http.h"

#include <stdio.h>

#define REF "main" /* where an agent's persistent state is, and the shared one */
#define KEYS_MAX 10000
#define RECORDS_MAX 1000
#define DIFFERENCES_MAX 100000

pd_lane pd_route_agents_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_SLOW; /* the past may have to be read from the disk */
}

/* ---- what was asked ---- */

typedef struct reading {
  pd_request *request;
  char store_name[PD_NAME_SIZE_MAX + 1];
  const char *what; /* "state", "log", "diff" */
  const char *key;  /* after state/; NULL: none */
  pd_store *store;
  pd_commit commit;
  char at[PD_ID_HEX_SIZE];
  char from[PD_ID_HEX_SIZE]; /* of a diff; "": what is read depends on `at` alone */
  pd_json_writer w;
  uint64_t count, limit;
  bool has_more;
} reading;

static pd_code split_path(reading *r, pd_error *err)
{
  const char *rest = r->request->rest, *slash = strchr(rest, '/');
  size_t size = slash ? (size_t)(slash - rest) : 0;
  if (!size || size > PD_NAME_SIZE_MAX) return pd_error_set(err, PD_NOT_FOUND, "there is nothing at %.256s", r->request->path);
  snprintf(r->store_name, sizeof r->store_name, "%.*s", (int)size, rest);
  r->what = slash + 1;
  if (strncmp(r->what, "state/", 6) == 0 && r->what[6]) {
    r->key = r->what + 6;
    return PD_OK;
  }
  if (strcmp(r->what, "state") == 0 || strcmp(r->what, "log") == 0 || strcmp(r->what, "diff") == 0) return PD_OK;
  return pd_error_set(err, PD_NOT_FOUND, "there is nothing at %.256s", r->request->path);
}

static pd_code query_number(const pd_request *request, const char *name, uint64_t max, uint64_t *out, pd_error *err)
{
  const char *text = pd_request_query(request, name);
  if (!text) return PD_OK;
  uint64_t number;
  if (!pd_u64_parse(text, &number) || number < 1 || number > max)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s is '%.40s'; it must be a number from 1 to %llu", name, text,
                          (unsigned long long)max);
  *out = number;
  return PD_OK;
}

/* ---- who may ---- */

/* Reading past the door asks what the door would say to a call that tells the same. */
static const char *like_capability(const reading *r)
{
  bool is_shared = strcmp(r->store_name, "shared") == 0;
  if (r->key) return is_shared ? "state.shared.get" : "state.persistent.get";
  if (is_shared) return "state.shared.list";
  return strcmp(r->what, "state") == 0 ? "state.persistent.list" : "state.persistent.history";
}

void pd_read_audit(const pd_request *request, const char *name, const char *like, const char *key, pd_code code, const pd_error *err)
{
  pd_caller who = request->caller;
  bool is_own = strcmp(name, "shared") == 0 || strcmp(name, who.agent) == 0;
  if (who.is_operator && !is_own) snprintf(who.agent, sizeof who.agent, "%s", name); /* as with calls: whose state it was */
  pd_caller_audit(&who, like, pd_text(key ? key : ""), code, err);
}

pd_code pd_read_permit(pd_request *request, const char *name, const char *like, const char *key, pd_error *err)
{
  pd_ctx who = pd_caller_ctx(&request->caller);
  pd_code code = pd_authorise_read(&who, like, name, pd_text(key ? key : ""), &request->grant, err);
  if (code) pd_read_audit(request, name, like, key, code, err);
  return code;
}

pd_code pd_read_store(const pd_request *request, const char *name, bool create, pd_store **out, pd_error *err)
{
  pd_code code = strcmp(name, "system") == 0 ? PD_NOT_FOUND : pd_home_borrow(&request->grant, name, create, out, err);
  if (code == PD_NOT_FOUND) return pd_error_named(err, PD_NOT_FOUND, "NotFound", "there is no agent '%s' here", name);
  return code;
}

/* A point in history that the caller may read at: threads, mailboxes and snapshots are read by their capabilities. */
static pd_code resolve(const reading *r, const char *at, pd_commit *out, pd_error *err)
{
  return pd_caller_sees_hidden(&r->request->caller) ? pd_resolve(r->store, at, out, err) : pd_history_resolve(r->store, at, out, err);
}

/* ---- state ---- */

static pd_code read_key(reading *r, pd_error *err)
{
  char number[24];
  pd_entry entry;
  pd_code code = pd_get(r->store, r->at, pd_text(r->key), &r->request->out, &entry, err);
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "KeyNotFound", "key '%.200s' is not in '%s' there", r->key, r->store_name);
  TRY(code);
  bool is_json = pd_json_parse(pd_buf_bytes(&r->request->out), NULL, NULL) == PD_OK;
  bool is_text = !is_json && pd_utf8_check(pd_buf_bytes(&r->request->out));
  r->request->type = is_json ? "application/json" : is_text ? "text/plain; charset=utf-8" : "application/octet-stream";
  snprintf(number, sizeof number, "%llu", (unsigned long long)entry.version);
  pd_reply_header(r->request, "Perdure-Version", number);
  return PD_OK;
}

static pd_code read_keys(reading *r, pd_error *err)
{
  const char *prefix = pd_request_query(r->request, "prefix"), *after = pd_request_query(r->request, "after");
  pd_scan scan = {.prefix = pd_text(prefix ? prefix : ""), .after = pd_text(after ? after : ""), .keys_only = true};
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_code code;
  r->limit = 1000;
  TRY(query_number(r->request, "limit", KEYS_MAX, &r->limit, err));
  TRY(pd_iter_open(r->store, r->at, &scan, &iter, err));
  pd_json_key(&r->w, "entries");
  pd_json_open(&r->w, '[');
  while (!(code = pd_iter_next(iter, &entry, NULL, err)) && r->count++ < r->limit) {
    pd_json_open(&r->w, '{');
    pd_json_put_bytes(&r->w, "key", entry.key);
    pd_json_put_entry(&r->w, &entry);
    pd_json_close(&r->w, '}');
  }
  pd_iter_close(iter);
  r->has_more = code == PD_OK;
  pd_json_close(&r->w, ']');
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* ---- log ---- */

static bool put_record(void *ctx, const pd_record *record)
{
  reading *r = ctx;
  if (r->count == r->limit) {
    r->has_more = true;
    return false;
  }
  r->count++;
  pd_json_open(&r->w, '{');
  pd_json_put_record(&r->w, record, PD_WITH_KIND | PD_WITH_TREE);
  pd_json_put_changes(&r->w, record);
  pd_json_close(&r->w, '}');
  return r->w.code == PD_OK;
}

static pd_code read_log(reading *r, pd_error *err)
{
  const char *key = pd_request_query(r->request, "key");
  pd_log_query query = {.at = r->at, .key = pd_text(key ? key : "")};
  r->limit = 100;
  TRY(query_number(r->request, "limit", RECORDS_MAX, &r->limit, err));
  TRY(query_number(r->request, "before", UINT64_MAX, &query.before, err));
  query.limit = r->limit + 1;
  pd_json_key(&r->w, "records");
  pd_json_open(&r->w, '[');
  TRY(pd_log(r->store, &query, put_record, r, err));
  pd_json_close(&r->w, ']');
  return PD_OK;
}

/* ---- diff ---- */

static bool put_difference(void *ctx, const pd_difference *difference)
{
  reading *r = ctx;
  if (r->count == r->limit) {
    r->has_more = true;
    return false;
  }
  r->count++;
  pd_json_open(&r->w, '{');
  pd_json_put_difference(&r->w, difference->key, difference->before, difference->after);
  const pd_entry *sides[] = {difference->before, difference->after};
  for (size_t i = 0; i < COUNT_OF(sides); i++) {
    if (!sides[i]) continue;
    pd_json_key(&r->w, i ? "after" : "before");
    pd_json_open(&r->w, '{');
    pd_json_put_entry(&r->w, sides[i]);
    pd_json_close(&r->w, '}');
  }
  pd_json_close(&r->w, '}');
  return r->w.code == PD_OK;
}

static pd_code read_diff(reading *r, pd_error *err)
{
  const char *from = pd_request_query(r->request, "from");
  char before[PD_ID_HEX_SIZE + 2];
  pd_commit commit;
  snprintf(before, sizeof before, "%s~", r->at);
  pd_code code = resolve(r, from && *from ? from : before, &commit, err);
  if (code == PD_NOT_FOUND && !from) code = resolve(r, "root", &commit, err);
  TRY(code);
  r->limit = DIFFERENCES_MAX;
  pd_json_put_id(&r->w, "from", &commit.id);
  pd_json_put_id(&r->w, "to", &r->commit.id);
  pd_json_key(&r->w, "differences");
  pd_json_open(&r->w, '[');
  TRY(pd_diff(r->store, pd_id_hex(&commit.id, r->from), r->at, put_difference, r, err));
  pd_json_close(&r->w, ']');
  return PD_OK;
}

/* ---- the route ---- */

static pd_code read_object(reading *r, pd_error *err)
{
  pd_json_open(&r->w, '{');
  pd_json_put_id(&r->w, "commit", &r->commit.id);
  TRY(strcmp(r->what, "log") == 0 ? read_log(r, err) : strcmp(r->what, "diff") == 0 ? read_diff(r, err) : read_keys(r, err));
  pd_json_put_bool(&r->w, "has_more", r->has_more);
  pd_json_close(&r->w, '}');
  return r->w.code;
}

static pd_code answer(reading *r, pd_error *err)
{
  TRY(pd_read_store(r->request, r->store_name, false, &r->store, err));
  const char *at = pd_request_query(r->request, strcmp(r->what, "diff") == 0 ? "to" : "at");
  TRY(resolve(r, at && *at ? at : REF, &r->commit, err));
  pd_id_hex(&r->commit.id, r->at); /* so that it does not move meanwhile */
  TRY(r->key ? read_key(r, err) : read_object(r, err));
  snprintf(r->request->etag, sizeof r->request->etag, "\"%s%s%s\"", r->from, *r->from ? "." : "", r->at);
  return PD_OK;
}

static pd_code run(reading *r, pd_error *err)
{
  TRY(split_path(r, err));
  bool is_list = strcmp(r->what, "state") == 0;
  const char *key = r->key ? r->key : is_list ? pd_request_query(r->request, "prefix") : NULL;
  TRY(pd_read_permit(r->request, r->store_name, like_capability(r), key, err));
  pd_code code = answer(r, err);
  pd_read_audit(r->request, r->store_name, like_capability(r), key, code, err);
  return code;
}

void pd_route_agents(pd_request *request)
{
  reading r = {.request = request};
  pd_error err = {0};
  r.w = (pd_json_writer){.out = &request->out, .err = &err};
  pd_code code = run(&r, &err);
  pd_home_return(request->server->home, r.store);
  if (code)
    pd_reply_error(request, &err);
  else
    pd_reply(request, MHD_HTTP_OK);
}
