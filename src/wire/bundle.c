/*
 * bundle.c: history on its way: POST /v1/bundles/STORE/export answers with a bundle, POST /v1/bundles/STORE/import takes one in as its
 * body; thread-export and thread-import do so with a thread's lines. They are what `clone`, `push`, `pull`, `export` and `import` ask a
 * server for. The operator's; an auditor may export (pd_authorise_operator by store.export and store.import). They are not capabilities,
 * since a bundle has no place in JSON.
 *
 * Both go through a spool (spool.h): an import is verified as a whole before anything of it is taken in (decision 012), and an export that
 * fails in the middle is an error, not half an answer. Whoever leaves cancels it.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_report.h"
#include "base/names.h"
#include "wire/http.h"

#include <perdure/thread.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUE_SIZE_MAX ((size_t)UINT32_MAX - 1) /* whatever a store can hold: it was put already */
#define KNOWN_MAX 100000
#define REFS_MAX 100000
#define SINCE_MAX 64 /* each is looked for with the store's lock held, and may be far back */

typedef struct bundle_call {
  pd_request *request;
  char store_name[PD_NAME_SIZE_MAX + 1];
  pd_store *store;
} bundle_call;

static pd_code export_bundle(bundle_call *call, pd_error *err);
static pd_code import_bundle(bundle_call *call, pd_error *err);
static pd_code export_thread(bundle_call *call, pd_error *err);
static pd_code import_thread(bundle_call *call, pd_error *err);

pd_lane pd_route_bundle_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_SLOW;
}

/* ---- who may ---- */

static const struct verb {
  const char *name; /* after the store's */
  pd_code (*run)(bundle_call *call, pd_error *err);
  bool takes_body;
} verbs[] = {
  {"export", export_bundle, false},
  {"import", import_bundle, true},
  {"thread-export", export_thread, false},
  {"thread-import", import_thread, true},
};

bool pd_bundle_verb_at(size_t index, const char **out_name, bool *out_takes_body)
{
  if (index >= COUNT_OF(verbs)) return false;
  *out_name = verbs[index].name;
  *out_takes_body = verbs[index].takes_body;
  return true;
}

/* NULL: none of them. */
static const struct verb *find_verb(const pd_request *request)
{
  const char *slash = strchr(request->rest, '/');
  for (size_t i = 0; slash && i < COUNT_OF(verbs); i++)
    if (strcmp(slash + 1, verbs[i].name) == 0) return &verbs[i];
  return NULL;
}

bool pd_bundle_takes_body(const pd_request *request)
{
  const struct verb *verb = find_verb(request);
  return verb && verb->takes_body;
}

static pd_code take_name(const pd_request *request, char out[PD_NAME_SIZE_MAX + 1], pd_error *err)
{
  size_t size = strcspn(request->rest, "/");
  if (!find_verb(request)) return pd_error_set(err, PD_NOT_FOUND, "there is nothing at %.256s", request->path);
  if (size > PD_NAME_SIZE_MAX) return pd_error_set(err, PD_INVALID, "the store's name is longer than %d bytes", PD_NAME_SIZE_MAX);
  snprintf(out, PD_NAME_SIZE_MAX + 1, "%.*s", (int)size, request->rest);
  return pd_agent_check(out, err);
}

static const char *capability_of(const pd_request *request)
{
  return pd_bundle_takes_body(request) ? "store.import" : "store.export";
}

/* As for the capabilities store.*: the store `system` is written by the server alone, and read by the operator. */
static pd_code judge(pd_request *request, const char *name, pd_error *err)
{
  pd_ctx who = pd_caller_ctx(&request->caller);
  bool writes = pd_bundle_takes_body(request);
  TRY(pd_authorise_operator(&who, capability_of(request), writes, &request->grant, err));
  if (strcmp(name, "system") != 0 || (!writes && request->caller.token->role == PD_ROLE_OPERATOR)) return PD_OK;
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "the store 'system' is written by the server alone, and read by the operator");
}

pd_code pd_bundle_permit(pd_request *request, pd_error *err)
{
  char name[PD_NAME_SIZE_MAX + 1];
  TRY(take_name(request, name, err));
  pd_code code = judge(request, name, err);
  if (code) pd_caller_audit(&request->caller, capability_of(request), pd_text(name), code, err);
  return code;
}

static pd_code open_store(bundle_call *call, bool create, pd_error *err)
{
  pd_code code = pd_home_borrow(&call->request->grant, call->store_name, create, &call->store, err);
  if (code == PD_NOT_FOUND) return pd_error_named(err, PD_NOT_FOUND, "StoreNotFound", "no store for agent '%s' here", call->store_name);
  return code;
}

/* The same whether it was given up because the client has left or for another reason: nobody reads it. */
static bool goes_on(void *ctx, uint64_t done, uint64_t total)
{
  const bundle_call *call = ctx;
  return pd_request_is_wanted(call->request, done, total);
}

/* ---- export ---- */

typedef struct export_input {
  pd_names refs, since;
  pd_id *known;
  size_t known_count, known_capacity;
  bool is_all;
} export_input;

static void input_done(export_input *in)
{
  pd_names_done(&in->refs);
  pd_names_done(&in->since);
  free(in->known);
}

static pd_code take_texts(pd_json list, const char *name, size_t count_max, pd_names *out, pd_error *err)
{
  pd_json item;
  size_t count = 0;
  char text[PD_REF_SIZE_MAX + 512];
  if (list.kind == PD_JSON_NONE) return PD_OK;
  if (list.kind != PD_JSON_ARRAY) return pd_error_named(err, PD_INVALID, "InvalidInput", "'%s' must be a list of texts", name);
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);) {
    if (!pd_json_copy_text(item, text, sizeof text))
      return pd_error_named(err, PD_INVALID, "InvalidInput", "'%s' must be a list of texts", name);
    if (count++ == count_max) return pd_error_named(err, PD_LIMIT, "LimitExceeded", "'%s' has at most %zu items", name, count_max);
    pd_names_add(out, text);
  }
  return pd_names_check(out, name, err);
}

static pd_code take_known(pd_json list, export_input *in, pd_error *err)
{
  pd_json item;
  if (list.kind == PD_JSON_NONE) return PD_OK;
  if (list.kind != PD_JSON_ARRAY) return pd_error_named(err, PD_INVALID, "InvalidInput", "'known' must be a list of commit ids");
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);) {
    TRY(pd_array_grow(&in->known, in->known_count, &in->known_capacity, sizeof *in->known, "commits", err));
    if (in->known_count == KNOWN_MAX) return pd_error_named(err, PD_LIMIT, "LimitExceeded", "'known' has at most %d ids", KNOWN_MAX);
    if (!pd_json_id(item, &in->known[in->known_count++]))
      return pd_error_named(err, PD_INVALID, "InvalidInput", "'known' must be a list of commit ids");
  }
  return PD_OK;
}

static pd_code take_input(const pd_request *request, export_input *out, pd_error *err)
{
  pd_json_field fields[] = {{.name = "refs"}, {.name = "all"}, {.name = "since"}, {.name = "known"}};
  pd_json input;
  pd_error why = {0};
  if (pd_json_parse(pd_buf_bytes(&request->body), &input, NULL))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "the body is not valid JSON");
  if (pd_json_fields(input, fields, COUNT_OF(fields), &why)) return pd_error_named(err, PD_INVALID, "InvalidInput", "%s", why.message);
  TRY(take_texts(fields[0].value, "refs", REFS_MAX, &out->refs, err));
  TRY(take_texts(fields[2].value, "since", SINCE_MAX, &out->since, err));
  TRY(take_known(fields[3].value, out, err));
  out->is_all = fields[1].value.kind == PD_JSON_BOOL && pd_json_true(fields[1].value);
  return PD_OK;
}

static pd_code write_spool(void *ctx, const void *data, size_t size, pd_error *err)
{
  return pd_spool_write(ctx, data, size, err);
}

static void answer_file(bundle_call *call, const char *type)
{
  call->request->type = type;
  call->request->spool->is_answer = true;
}

static void put_report(pd_request *request, const pd_export_report *r)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  pd_bind_object(&w, pd_export_members, pd_export_member_count, r);
  if (!w.code && !pd_buf_byte(&text, 0, NULL)) pd_reply_header(request, PD_BUNDLE_HEADER, (const char *)text.data);
}

static void take_current(void *ctx, const pd_ref *ref)
{
  if (ref->is_current) snprintf(ctx, PD_REF_SIZE_MAX + 1, "%s", ref->name);
}

static pd_code export_bundle(bundle_call *call, pd_error *err)
{
  CLEANUP(input_done) export_input in = {0};
  pd_export_report report;
  char current[PD_REF_SIZE_MAX + 1] = "";
  const char *own = current;
  TRY(take_input(call->request, &in, err));
  TRY(open_store(call, false, err));
  TRY(pd_ref_list(call->store, take_current, current, err));
  TRY(pd_spool_open(call->request, 0, err));
  pd_sink sink = {.write = write_spool, .ctx = call->request->spool};
  pd_export_options options = {.refs = in.refs.count ? (const char *const *)in.refs.items : &own,
                               .ref_count = in.refs.count ? in.refs.count : 1,
                               .is_all = in.is_all,
                               .since = (const char *const *)in.since.items,
                               .since_count = in.since.count,
                               .known = in.known,
                               .known_count = in.known_count,
                               .progress = goes_on,
                               .ctx = call};
  if (in.is_all) options.ref_count = 0;
  TRY(pd_export_to(call->store, &sink, &options, &report, err));
  put_report(call->request, &report);
  answer_file(call, "application/octet-stream");
  return PD_OK;
}

/* ---- import ---- */

static pd_code read_spool(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  return pd_spool_read(ctx, at, data, size, err);
}

static void put_ref(void *ctx, const pd_import_ref *ref)
{
  pd_json_writer *w = ctx;
  pd_import_moved moved = {.commit = ref->commit, .fate = (uint32_t)ref->fate - 1};
  snprintf(moved.name, sizeof moved.name, "%s", ref->name);
  pd_bind_object(w, pd_import_ref_members, pd_import_ref_member_count, &moved);
}

typedef struct import_view {
  bundle_call *call;
  pd_json_writer refs;
} import_view;

static void visit_ref(void *ctx, const pd_import_ref *ref)
{
  put_ref(&((import_view *)ctx)->refs, ref);
}

static bool import_goes_on(void *ctx, uint64_t done, uint64_t total)
{
  return goes_on(((import_view *)ctx)->call, done, total);
}

static bool is_asked(const pd_request *request, const char *name)
{
  const char *text = pd_request_query(request, name);
  return text && strcmp(text, "true") == 0;
}

static pd_code answer_import(pd_request *request, const pd_import_report *report, const pd_buf *refs, pd_error *err)
{
  pd_json_writer w = {.out = &request->out, .err = err};
  pd_json_open(&w, '{');
  pd_bind_write(&w, pd_import_members, pd_import_member_count, report);
  pd_json_key(&w, "refs");
  pd_json_open(&w, '[');
  pd_json_raw(&w, pd_buf_bytes(refs));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code import_bundle(bundle_call *call, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf refs = {0};
  pd_request *request = call->request;
  import_view view = {.call = call, .refs = {.out = &refs, .err = err}};
  const char *as = pd_request_query(request, "as");
  pd_import_report report = {0};
  pd_import_options options = {.is_dry_run = is_asked(request, "dry_run"),
                               .as = as && *as ? as : NULL,
                               .value_size_max = VALUE_SIZE_MAX,
                               .adopts_current = is_asked(request, "adopt"),
                               .visit_ref = visit_ref,
                               .progress = import_goes_on,
                               .ctx = &view};
  TRY(pd_spool_write(request->spool, request->body.data, request->body.size, err)); /* the last block */
  pd_source source = {.read = read_spool, .size = request->spool->size, .ctx = request->spool};
  TRY(open_store(call, !options.is_dry_run, err));
  TRY(pd_import_from(call->store, &source, &options, &report, err));
  TRY(view.refs.code);
  return answer_import(request, &report, &refs, err);
}

/* ---- threads, as lines of JSON ---- */

static void shut(pd_thread **thread)
{
  pd_thread_close(*thread);
}

static pd_code export_thread(bundle_call *call, pd_error *err)
{
  CLEANUP(shut) pd_thread *thread = NULL;
  const char *id = pd_request_query(call->request, "thread");
  uint64_t lines;
  if (!id || !*id) return pd_error_named(err, PD_INVALID, "InvalidInput", "which thread? Give its id as ?thread=ID");
  TRY(open_store(call, false, err));
  TRY(pd_thread_open(call->store, id, &thread, err));
  TRY(pd_spool_open(call->request, 0, err));
  pd_sink sink = {.write = write_spool, .ctx = call->request->spool};
  TRY(pd_thread_export(thread, &sink, &lines, err));
  answer_file(call, "application/x-ndjson");
  return PD_OK;
}

static pd_code import_thread(bundle_call *call, pd_error *err)
{
  pd_request *request = call->request;
  const char *as = pd_request_query(request, "as");
  pd_thread_import_options options = {
    .id = as && *as ? as : NULL, .is_dry_run = is_asked(request, "dry_run"), .progress = goes_on, .ctx = call};
  pd_thread_replay_report report;
  TRY(pd_spool_write(request->spool, request->body.data, request->body.size, err)); /* the last block */
  pd_source source = {.read = read_spool, .size = request->spool->size, .ctx = request->spool};
  TRY(open_store(call, !options.is_dry_run, err));
  TRY(pd_thread_import(call->store, &source, &options, &report, err));
  pd_json_writer w = {.out = &request->out, .err = err};
  pd_bind_object(&w, pd_thread_replay_members, pd_thread_replay_member_count, &report);
  return w.code;
}

/* ---- the route ---- */

/* Its token may have been revoked, or have expired, while the bundle was on its way. */
static pd_code recheck(const pd_request *request, pd_error *err)
{
  const pd_caller *caller = &request->caller;
  if (!caller->has_token) return PD_OK;
  pd_token_mark mark = {.hash = caller->token->hash};
  memcpy(mark.id, caller->token->id, sizeof mark.id);
  return pd_token_recheck(request->server->home, &mark, err);
}

static pd_code answer(bundle_call *call, pd_error *err)
{
  pd_request *request = call->request;
  bool is_import = pd_bundle_takes_body(request);
  if (is_import)
    TRY(recheck(request, err)); /* what it may do was asked before the body was read, which may have taken hours */
  else
    TRY(pd_bundle_permit(request, err));
  TRY(take_name(request, call->store_name, err));
  request->subject = capability_of(request);
  pd_code code = find_verb(request)->run(call, err);
  pd_home_return(request->server->home, call->store);
  pd_caller_audit(&request->caller, capability_of(request), pd_text(call->store_name), code, err);
  return code;
}

void pd_route_bundle(pd_request *request)
{
  bundle_call call = {.request = request};
  pd_error err = {0};
  pd_code code = answer(&call, &err);
  if (!code) return pd_reply(request, MHD_HTTP_OK);
  pd_spool_free(request->spool);
  request->spool = NULL;
  pd_buf_clear(&request->out);
  pd_reply_error(request, &err);
  bool is_bad = pd_bundle_takes_body(request) && (code == PD_CORRUPT || code == PD_FORMAT); /* the client's bundle, not our store */
  if (is_bad) request->status = MHD_HTTP_UNPROCESSABLE_CONTENT;
}
