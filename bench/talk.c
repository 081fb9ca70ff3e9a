/* talk.c: see talk.h. */
#include "talk.h"

#include <errno.h>
#include <fcntl.h>
#include <perdure/thread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "bench.h"
#include "data.h"
#include "folder.h"

#define FIELD_SIZE 40
#define CHANGED_COUNT 3
#define FLUSH_MS 100

/* ---- what is said ------------------------------------------------------------------------------------------------- */

static void random_text(uint64_t *random, char *out, size_t size)
{
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";
  for (size_t i = 0; i < size; i++) out[i] = letters[bench_random_below(random, 64)];
  out[size] = 0;
}

/* A message's content is short by what its JSON takes beside it. */
static void add_messages(pd_json_writer *w, uint32_t turn)
{
  static const char *const roles[] = {"user", "assistant"};
  uint64_t random = turn;
  pd_json_open(w, '[');
  for (int i = 0; i < 2; i++) {
    char content[TALK_MESSAGE_SIZE + 1], id[24];
    size_t frame = (size_t)snprintf(content, sizeof(content), "{\"content\":\"\",\"id\":\"m%05u-%d\",\"role\":\"%s\"}", turn, i, roles[i]);
    random_text(&random, content, TALK_MESSAGE_SIZE - frame);
    snprintf(id, sizeof(id), "m%05u-%d", turn, i);
    pd_json_open(w, '{');
    pd_json_put_text(w, "id", id);
    pd_json_put_text(w, "role", roles[i]);
    pd_json_put_text(w, "content", content);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
}

typedef struct field {
  char name[8], value[FIELD_SIZE + 1];
} field;

/* The first turn sets all fields, each other one three of them. */
static uint32_t changed_fields(uint32_t turn, field out[TALK_FIELD_COUNT])
{
  uint64_t random = (uint64_t)turn + 1000000;
  uint32_t count = turn == 0 ? TALK_FIELD_COUNT : CHANGED_COUNT;
  for (uint32_t i = 0; i < count; i++) {
    snprintf(out[i].name, sizeof(out[i].name), "field%02u", (turn * CHANGED_COUNT + i) % TALK_FIELD_COUNT);
    random_text(&random, out[i].value, FIELD_SIZE);
  }
  return count;
}

static void add_patches(pd_json_writer *w, uint32_t turn)
{
  field fields[TALK_FIELD_COUNT];
  uint32_t count = changed_fields(turn, fields);
  pd_json_open(w, '[');
  for (uint32_t i = 0; i < count; i++) {
    pd_json_open(w, '{');
    pd_json_put_text(w, "op", "set");
    pd_json_key(w, "path");
    pd_json_open(w, '[');
    pd_json_text(w, pd_text(fields[i].name));
    pd_json_close(w, ']');
    pd_json_put_text(w, "value", fields[i].value);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
}

/* ---- ours ---------------------------------------------------------------------------------------------------------- */

static pd_code append_turn(pd_thread *thread, uint32_t turn, double *out_seconds, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf messages = {0};
  CLEANUP(pd_buf_done) pd_buf patches = {0};
  pd_json_writer message_writer = {.out = &messages, .err = err}, patch_writer = {.out = &patches, .err = err};
  add_messages(&message_writer, turn);
  add_patches(&patch_writer, turn);
  TRY(message_writer.code);
  TRY(patch_writer.code);
  pd_changeset changeset = {
    .run_id = "talk", .reason = PD_REASON_ASSISTANT_TURN_COMMITTED, .messages = pd_buf_bytes(&messages), .patches = pd_buf_bytes(&patches)};
  double start = bench_now();
  TRY(pd_thread_append(thread, &changeset, turn, NULL, err));
  *out_seconds = bench_now() - start;
  return PD_OK;
}

/* The last values of all fields, and as many messages as there were. */
static pd_code check_thread(pd_thread *thread, uint32_t turn_count, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf state = {0};
  field last[TALK_FIELD_COUNT], changed[TALK_FIELD_COUNT];
  pd_thread_info info;
  pd_json parsed;
  for (uint32_t turn = 0; turn < turn_count; turn++) {
    uint32_t count = changed_fields(turn, changed);
    for (uint32_t i = 0; i < count; i++) last[(turn * CHANGED_COUNT + i) % TALK_FIELD_COUNT] = changed[i];
  }
  TRY(pd_thread_info_get(thread, &info, err));
  TRY(pd_thread_state(thread, PD_VERSION_HEAD, NULL, &state, err));
  TRY(pd_json_parse(pd_buf_bytes(&state), &parsed, err));
  for (uint32_t i = 0; i < TALK_FIELD_COUNT; i++)
    if (!pd_json_is(pd_json_member(parsed, last[i].name), last[i].value))
      return pd_error_set(err, PD_CORRUPT, "the thread's %s is not what was set", last[i].name);
  if (info.message_count == 2 * (uint64_t)turn_count) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the thread has %llu messages", (unsigned long long)info.message_count);
}

static pd_code talk_to(pd_store *store, uint32_t turn_count, talk_result *out, pd_error *err)
{
  pd_thread *thread = NULL;
  TRY(pd_thread_create(store, &(pd_thread_options){.id = "talk"}, &thread, err));
  pd_code code = PD_OK;
  out->count = turn_count;
  out->seconds_all = 0;
  for (uint32_t turn = 0; turn < turn_count && !code; turn++) {
    code = append_turn(thread, turn, &out->seconds[turn], err);
    out->seconds_all += out->seconds[turn];
  }
  double start = bench_now();
  if (!code) code = pd_store_flush(store, err);
  out->seconds_all += bench_now() - start;
  if (!code) code = check_thread(thread, turn_count, err);
  pd_thread_close(thread);
  return code;
}

pd_code talk_ours(const char *dir, uint32_t turn_count, bool is_synced, talk_result *out, pd_error *err)
{
  char uri[BENCH_PATH_SIZE + 8];
  pd_options options = {.flush_ms = is_synced ? 0 : FLUSH_MS};
  pd_store *store = NULL;
  snprintf(uri, sizeof(uri), "sqlite:%s", dir);
  TRY(pd_store_open(uri, "bench", &options, &store, err));
  pd_code code = talk_to(store, turn_count, out, err);
  pd_code close_code = pd_store_close(store, code ? NULL : err);
  if (code || close_code) return code ? code : close_code;
  return bench_folder_size(dir, &out->bytes, err);
}

/* ---- the peer ------------------------------------------------------------------------------------------------------ */

static const char *peer_folder(void)
{
  const char *folder = getenv("PERDURE_BENCH_NPM");
  return folder ? folder : BENCH_BUILD_DIR "/npm";
}

bool talk_peer_is_there(void)
{
  char path[BENCH_PATH_SIZE];
  return bench_path(peer_folder(), "installed", path, NULL) == PD_OK && access(path, R_OK) == 0;
}

static pd_code write_talk(const char *dir, uint32_t turn_count, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char path[BENCH_PATH_SIZE];
  TRY(bench_path(dir, "talk.jsonl", path, err));
  for (uint32_t turn = 0; turn < turn_count; turn++) {
    field fields[TALK_FIELD_COUNT];
    uint32_t count = changed_fields(turn, fields);
    pd_json_writer w = {.out = &text, .err = err};
    pd_json_open(&w, '{');
    pd_json_key(&w, "messages");
    add_messages(&w, turn);
    pd_json_key(&w, "fields");
    pd_json_open(&w, '{');
    for (uint32_t i = 0; i < count; i++) pd_json_put_text(&w, fields[i].name, fields[i].value);
    pd_json_close(&w, '}');
    pd_json_close(&w, '}');
    TRY(w.code);
    TRY(pd_buf_byte(&text, '\n', err));
  }
  return pd_file_write(path, pd_buf_bytes(&text), true, err);
}

static void exec_node(const char *script, const char *dir, uint32_t turn_count, bool is_synced, const char *result)
  __attribute__((noreturn));
static void exec_node(const char *script, const char *dir, uint32_t turn_count, bool is_synced, const char *result)
{
  char turns[16];
  int fd = open(result, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  snprintf(turns, sizeof(turns), "%u", turn_count);
  if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0) execlp("node", "node", script, dir, is_synced ? "FULL" : "OFF", turns, (char *)NULL);
  _exit(127);
}

static pd_code run_node(const char *dir, uint32_t turn_count, bool is_synced, const char *result, pd_error *err)
{
  char script[BENCH_PATH_SIZE];
  int status = 0;
  TRY(bench_path(peer_folder(), "conversation.mjs", script, err));
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) exec_node(script, dir, turn_count, is_synced, result);
  if (pid < 0) return pd_error_set(err, PD_STORAGE, "fork: %s", strerror(errno));
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "node %s failed (status %d)", script, status);
}

static pd_code read_result(const char *path, uint32_t turn_count, talk_result *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json result, item;
  TRY(pd_file_read(path, (size_t)1 << 20, &text, err));
  TRY(pd_json_parse(pd_buf_bytes(&text), &result, err));
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(result, "seconds"));
  for (out->count = 0, out->seconds_all = 0; out->count < turn_count && pd_json_walk_next(&walk, NULL, &item); out->count++)
    out->seconds_all += out->seconds[out->count] = strtod(item.raw.data, NULL);
  if (out->count == turn_count && pd_json_u64(pd_json_member(result, "bytes"), &out->bytes)) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "'%s' is not what the peer's script prints", path);
}

pd_code talk_langgraph(const char *dir, uint32_t turn_count, bool is_synced, talk_result *out, pd_error *err)
{
  char path[BENCH_PATH_SIZE];
  TRY(bench_path(dir, "result.json", path, err));
  TRY(write_talk(dir, turn_count, err));
  TRY(run_node(dir, turn_count, is_synced, path, err));
  return read_result(path, turn_count, out, err);
}

double talk_seconds_at(const talk_result *result, uint32_t turn)
{
  uint32_t reach = turn / 10 + 1, first = turn > reach ? turn - reach : 0, end = turn + reach;
  if (end > result->count) end = result->count;
  static bench_series around;
  around.count = 0;
  for (uint32_t i = first; i < end; i++) bench_series_add(&around, result->seconds[i]);
  return bench_series_median(&around);
}
