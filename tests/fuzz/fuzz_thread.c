/* fuzz_thread.c: the export of a thread, and a change set. What is refused leaves nothing behind; what is taken can be told and taken
 * again. */
#include "base/base.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"

static pd_code write_out(void *ctx, const void *data, size_t size, pd_error *err)
{
  return pd_buf_append(ctx, data, size, err);
}

static pd_code read_in(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  const pd_bytes *bytes = ctx;
  (void)err;
  FUZZ_REQUIRE(at <= bytes->size && size <= bytes->size - at);
  if (size) memcpy(data, (const uint8_t *)bytes->data + at, size);
  return PD_OK;
}

static void close_store(pd_store **store)
{
  FUZZ_REQUIRE(pd_store_close(*store, NULL) == PD_OK);
}

static pd_store *open_store(void)
{
  pd_store *store = NULL;
  FUZZ_REQUIRE(pd_store_open("memory:", "main", NULL, &store, NULL) == PD_OK);
  return store;
}

static bool find_only(void *ctx, const pd_thread_info *info, const char *cursor)
{
  (void)cursor;
  snprintf(ctx, PD_THREAD_ID_SIZE_MAX + 1, "%s", info->id);
  return true;
}

/* Taken once, it is taken again, with the same commit. */
static void tell_again(pd_store *store, const pd_thread_replay_report *first)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(close_store) pd_store *other = open_store();
  char id[PD_THREAD_ID_SIZE_MAX + 1] = "";
  pd_thread *t = NULL;
  pd_thread_replay_report second;
  pd_sink sink = {.write = write_out, .ctx = &text};
  FUZZ_REQUIRE(pd_thread_list(store, NULL, find_only, id, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_thread_open(store, id, &t, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_thread_export(t, &sink, NULL, NULL) == PD_OK);
  pd_thread_close(t);
  pd_bytes bytes = pd_buf_bytes(&text);
  pd_source source = {.read = read_in, .size = text.size, .ctx = &bytes};
  FUZZ_REQUIRE(pd_thread_import(other, &source, NULL, &second, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_id_equal(&first->commit, &second.commit));
}

static void as_export(pd_bytes bytes)
{
  CLEANUP(close_store) pd_store *store = open_store();
  pd_source source = {.read = read_in, .size = bytes.size, .ctx = &bytes};
  pd_thread_replay_report report;
  pd_error err = {0};
  char id[PD_THREAD_ID_SIZE_MAX + 1] = "";
  pd_code code = pd_thread_import(store, &source, NULL, &report, &err);
  if (!code) {
    tell_again(store, &report);
    return;
  }
  FUZZ_REQUIRE(code == PD_INVALID || code == PD_LIMIT || code == PD_CORRUPT || code == PD_FORMAT);
  FUZZ_REQUIRE(err.code == code && err.message[0]);
  FUZZ_REQUIRE(pd_thread_list(store, NULL, find_only, id, NULL) == PD_OK && !*id);
}

static void as_changeset(pd_bytes bytes)
{
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  CLEANUP(close_store) pd_store *store = open_store();
  pd_changeset set;
  pd_thread *t = NULL;
  pd_error err = {0};
  pd_code code = pd_changeset_parse(bytes, &set, &texts, &err);
  FUZZ_REQUIRE(!code || ((code == PD_INVALID || code == PD_LIMIT) && err.message[0]));
  if (code) return;
  pd_thread_options options = {.id = "t", .state = pd_text("{\"a\":{\"b\":[1,2,{}]},\"n\":1,\"s\":\"x\"}")};
  FUZZ_REQUIRE(pd_thread_create(store, &options, &t, NULL) == PD_OK);
  code = pd_thread_append(t, &set, 0, NULL, &err);
  FUZZ_REQUIRE(pd_thread_version(t) == (code ? 0 : 1));
  FUZZ_REQUIRE(!code || ((code == PD_INVALID || code == PD_LIMIT) && err.message[0]));
  FUZZ_REQUIRE(pd_thread_replay(t, NULL, NULL, NULL, NULL) == PD_OK);
  pd_thread_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_bytes bytes = {data, size};
  as_export(bytes);
  as_changeset(bytes);
  return 0;
}
