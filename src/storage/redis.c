/*
 * redis.c: `redis:`, `rediss:` and `redis+unix:`: the key PREFIX<agent_id> holds the document.
 *
 * A save is acknowledged by the server's reply. What that is worth is for the server to say: durability() asks it. The document has its
 * seal behind it (seal.h). The key PREFIXepoch:<agent_id> holds the agent's epoch; no agent's name has a colon in it. Claims, saves under
 * an epoch, and removals are scripts, so that nothing comes between the look and the change: a save that was stuck on the way finds
 * another mark than the one that it follows, and changes nothing; one that arrives twice finds its own.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "storage/builtin.h"
#include "storage/redis_conn.h"
#include "storage/seal.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOKS_MAX 3 /* at a value that seems to be empty */
#define EPOCH_PREFIX "epoch:"

typedef struct redis_key {
  char text[PD_REDIS_TEXT_MAX + sizeof EPOCH_PREFIX + PD_NAME_SIZE_MAX];
} redis_key;

static redis_key key_of(const pd_redis *r, const char *agent)
{
  redis_key key;
  snprintf(key.text, sizeof key.text, "%s%s", pd_redis_where(r)->prefix, agent);
  return key;
}

static redis_key epoch_key_of(const pd_redis *r, const char *agent)
{
  redis_key key;
  snprintf(key.text, sizeof key.text, "%s" EPOCH_PREFIX "%s", pd_redis_where(r)->prefix, agent);
  return key;
}

static pd_code open_way(pd_redis_way way, const char *argument, void **out, pd_error *err)
{
  pd_redis_address address;
  pd_redis *redis = NULL;
  TRY(pd_redis_uri_parse(way, argument, &address, err));
  pd_code code = pd_redis_open(&address, &redis, err);
  explicit_bzero(&address, sizeof address);
  if (!code) *out = redis;
  return code;
}

static pd_code open_tcp(const char *argument, void **out, pd_error *err)
{
  return open_way(PD_REDIS_TCP, argument, out, err);
}

static pd_code open_tls(const char *argument, void **out, pd_error *err)
{
  return open_way(PD_REDIS_TLS, argument, out, err);
}

static pd_code open_unix(const char *argument, void **out, pd_error *err)
{
  return open_way(PD_REDIS_UNIX, argument, out, err);
}

static void close_redis(void *handle)
{
  pd_redis_close(handle);
}

static pd_code unexpected(const pd_redis *r, const char *command, pd_error *err)
{
  return pd_error_set(err, PD_STORAGE, "Redis at %.200s gave %s an answer that it cannot have", pd_redis_where(r)->shown, command);
}

static pd_code no_snapshot(const pd_redis *r, const char *agent, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in Redis at %.200s", agent, pd_redis_where(r)->shown);
}

/* ---- epochs -------------------------------------------------------------------------------------------------------- */

static pd_code not_an_epoch(const pd_redis *r, const redis_key *key, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "the key '%.200s' of Redis at %.200s holds no epoch", key->text, pd_redis_where(r)->shown);
}

static bool parse_epoch(const redisReply *reply, uint64_t *out)
{
  char *end;
  if (reply->type != REDIS_REPLY_STRING || !reply->len || strspn(reply->str, "0123456789") != (size_t)reply->len) return false;
  *out = strtoull(reply->str, &end, 10);
  return *out <= PD_SNAPSHOT_NUMBER_MAX;
}

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  redis_key key = epoch_key_of(handle, agent);
  const pd_bytes words[] = {pd_text("GET"), pd_text(key.text)};
  TRY(pd_redis_command(handle, words, COUNT_OF(words), &reply, err));
  *out = 0;
  return reply->type == REDIS_REPLY_NIL || parse_epoch(reply, out) ? PD_OK : not_an_epoch(handle, &key, err);
}

/* ARGV[1] is the time in ms: see pd_epoch_after. */
static const char claim_script[] = "local last = tonumber(redis.call('GET', KEYS[1]) or '0') "
                                   "local epoch = string.format('%.0f', math.max(last + 1, tonumber(ARGV[1]))) "
                                   "redis.call('SET', KEYS[1], epoch) "
                                   "return epoch";

/* Run twice (N2), it skips a number: that is no harm. */
static pd_code claim(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  redis_key key = epoch_key_of(handle, agent);
  uint64_t before, epoch = 0;
  char least[24];
  TRY(epoch_now(handle, agent, &before, err)); /* else the script would take a number that is none of ours */
  snprintf(least, sizeof least, "%llu", (unsigned long long)pd_epoch_after(0));
  const pd_bytes words[] = {pd_text("EVAL"), pd_text(claim_script), pd_text("1"), pd_text(key.text), pd_text(least)};
  TRY(pd_redis_command(handle, words, COUNT_OF(words), &reply, err));
  if (!parse_epoch(reply, &epoch) || !epoch) return unexpected(handle, "a claim", err);
  *out = epoch;
  return PD_OK;
}

/* ---- snapshots ----------------------------------------------------------------------------------------------------- */

static pd_code save_any(pd_redis *r, const char *agent, pd_bytes sealed, pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  redis_key key = key_of(r, agent);
  const pd_bytes words[] = {pd_text("SET"), pd_text(key.text), sealed};
  TRY(pd_redis_command(r, words, COUNT_OF(words), &reply, err));
  return reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0 ? PD_OK : unexpected(r, "SET", err);
}

/* ARGV: the epoch; the mark that is to be there ("": none), or "*"; the value. The numbers are those of seal.h. Answers OK, or the epoch
 * that holds the agent, or that epoch and a '!' if the mark is another. pcall: so that what SET says comes back as it is (out of memory,
 * read-only). */
static const char save_script[] = "local now = redis.call('GET', KEYS[2]) or '0' "
                                  "if now ~= ARGV[1] then return now end "
                                  "if ARGV[2] ~= '*' then "
                                  "  local tail = redis.pcall('GETRANGE', KEYS[1], -258, -1) "
                                  "  if type(tail) == 'table' then return tail end "
                                  "  local is_sealed = #tail == 258 and string.find(tail, '^\\n[ \\t]+\\n$') "
                                  "  local mark = is_sealed and string.sub(tail, 2, 193) or '' "
                                  "  if mark == string.sub(ARGV[3], -257, -66) then return redis.status_reply('OK') end "
                                  "  if mark ~= ARGV[2] then return now .. '!' end "
                                  "end "
                                  "return redis.pcall('SET', KEYS[1], ARGV[3])";
_Static_assert(PD_SEAL_SIZE == 258 && PD_SEAL_MARK_AT == 1 && PD_SEAL_MARK_SIZE == 192, "as save_script says");

static pd_code judge_save(pd_redis *r, const char *agent, const pd_storage_mark *next, redisReply *reply, pd_error *err)
{
  uint64_t now = 0;
  redis_key key = epoch_key_of(r, agent);
  if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0) return PD_OK;
  bool has_changed = reply->type == REDIS_REPLY_STRING && reply->len && reply->str[reply->len - 1] == '!';
  if (has_changed) return pd_mark_conflict(next, &(pd_storage_mark){.epoch = next->epoch}, err);
  if (!parse_epoch(reply, &now)) return not_an_epoch(r, &key, err);
  return pd_epoch_conflict(next->epoch, now, err);
}

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  static const pd_storage_mark none;
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  CLEANUP(pd_buf_done) pd_buf sealed = {0};
  redis_key key = key_of(handle, agent), epoch_key = epoch_key_of(handle, agent);
  char epoch[24], text[PD_SEAL_MARK_SIZE];
  TRY(pd_seal_write(snapshot, next, &sealed, err));
  if (!next->epoch) return save_any(handle, agent, pd_buf_bytes(&sealed), err);
  snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)next->epoch);
  if (last) pd_seal_mark_text(last, text);
  pd_bytes wanted = !last ? pd_text("*") : pd_mark_is(last, &none) ? pd_text("") : (pd_bytes){text, sizeof text};
  const pd_bytes words[] = {pd_text("EVAL"),         pd_text(save_script), pd_text("2"), pd_text(key.text),
                            pd_text(epoch_key.text), pd_text(epoch),       wanted,       pd_buf_bytes(&sealed)};
  TRY(pd_redis_command(handle, words, COUNT_OF(words), &reply, err));
  return judge_save(handle, agent, next, reply, err);
}

/* A number as the answer to COMMAND key. */
static pd_code ask_number(pd_redis *r, const char *command, const char *agent, long long *out, pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  redis_key key = key_of(r, agent);
  const pd_bytes words[] = {pd_text(command), pd_text(key.text)};
  TRY(pd_redis_command(r, words, COUNT_OF(words), &reply, err));
  if (reply->type != REDIS_REPLY_INTEGER) return unexpected(r, command, err);
  *out = reply->integer;
  return PD_OK;
}

/* GETRANGE, so that a value that is no snapshot of ours cannot be larger than memory. */
static pd_code read_value(pd_redis *r, const char *agent, redisReply **out, pd_error *err)
{
  redis_key key = key_of(r, agent);
  char last[24];
  snprintf(last, sizeof last, "%zu", PD_SNAPSHOT_SIZE_MAX + PD_SEAL_SIZE); /* one byte more than a snapshot can have */
  const pd_bytes words[] = {pd_text("GETRANGE"), pd_text(key.text), pd_text("0"), pd_text(last)};
  TRY(pd_redis_command(r, words, COUNT_OF(words), out, err));
  return (*out)->type == REDIS_REPLY_STRING ? PD_OK : unexpected(r, "GETRANGE", err);
}

static pd_code take_value(pd_redis *r, const char *agent, pd_bytes stored, pd_storage_take take, void *ctx, pd_storage_mark *out_mark,
                          pd_error *err)
{
  pd_bytes document;
  redis_key key = key_of(r, agent);
  pd_code code = pd_seal_read(stored, &document, out_mark, err);
  if (!code) return take(ctx, document, err);
  return pd_error_set(err, code, "the key '%.120s' of Redis at %.120s is damaged: its checksum does not match", key.text,
                      pd_redis_where(r)->shown);
}

/* GETRANGE does not tell an empty value from none, and EXISTS comes later: somebody may have saved, or deleted, in between. */
static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  for (int looks = 0; looks < LOOKS_MAX; looks++) {
    CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
    long long is_there;
    TRY(read_value(handle, agent, &reply, err));
    if (reply->len) return take_value(handle, agent, (pd_bytes){reply->str, (size_t)reply->len}, take, ctx, out_mark, err);
    TRY(ask_number(handle, "EXISTS", agent, &is_there, err));
    if (!is_there) return no_snapshot(handle, agent, err);
  }
  return take(ctx, pd_text(""), err);
}

static const char remove_script[] = "local gone = redis.pcall('DEL', KEYS[1]) "
                                    "if gone == 1 and redis.call('EXISTS', KEYS[2]) == 1 then redis.call('INCR', KEYS[2]) end "
                                    "return gone";

/* Answered twice (N2), the second time says that nothing is there: so it is asked before. */
static pd_code remove_key(void *handle, const char *agent, pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  redis_key key = key_of(handle, agent), epoch_key = epoch_key_of(handle, agent);
  long long is_there;
  TRY(ask_number(handle, "EXISTS", agent, &is_there, err));
  if (!is_there) return no_snapshot(handle, agent, err);
  const pd_bytes words[] = {pd_text("EVAL"), pd_text(remove_script), pd_text("2"), pd_text(key.text), pd_text(epoch_key.text)};
  TRY(pd_redis_command(handle, words, COUNT_OF(words), &reply, err));
  return reply->type == REDIS_REPLY_INTEGER ? PD_OK : unexpected(handle, "DEL", err);
}

/* ---- list ---------------------------------------------------------------------------------------------------------- */

/* The prefix, with what SCAN takes for a wildcard escaped, and a '*'. */
static pd_code pattern_of(const pd_redis *r, pd_buf *out, pd_error *err)
{
  for (const char *p = pd_redis_where(r)->prefix; *p; p++) {
    if (strchr("*?[]\\", *p)) TRY(pd_buf_byte(out, '\\', err));
    TRY(pd_buf_byte(out, (uint8_t)*p, err));
  }
  return pd_buf_byte(out, '*', err);
}

static pd_code visit_keys(const pd_redis *r, const redisReply *keys, pd_storage_visit visit, void *ctx, pd_error *err)
{
  size_t prefix = strlen(pd_redis_where(r)->prefix);
  for (size_t i = 0; i < keys->elements; i++) {
    const redisReply *key = keys->element[i];
    if (key->type != REDIS_REPLY_STRING || (size_t)key->len <= prefix || strlen(key->str) != (size_t)key->len) continue;
    if (pd_agent_check(key->str + prefix, NULL) == PD_OK) TRY(visit(ctx, key->str + prefix, err));
  }
  return PD_OK;
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pattern = {0};
  char cursor[32] = "0";
  TRY(pattern_of(handle, &pattern, err));
  do {
    CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
    const pd_bytes words[] = {pd_text("SCAN"),        pd_text(cursor),  pd_text("MATCH"),
                              pd_buf_bytes(&pattern), pd_text("COUNT"), pd_text("1000")};
    TRY(pd_redis_command(handle, words, COUNT_OF(words), &reply, err));
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_ARRAY)
      return unexpected(handle, "SCAN", err);
    TRY(visit_keys(handle, reply->element[1], visit, ctx, err));
    snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
  } while (strcmp(cursor, "0") != 0);
  return PD_OK;
}

/* ---- durability ---------------------------------------------------------------------------------------------------- */

#define SETTING_MAX 96

static pd_code ask_setting(pd_redis *r, const char *name, char out[SETTING_MAX], pd_error *err)
{
  CLEANUP(pd_redis_reply_done) redisReply *reply = NULL;
  const pd_bytes words[] = {pd_text("CONFIG"), pd_text("GET"), pd_text(name)};
  TRY(pd_redis_command(r, words, COUNT_OF(words), &reply, err));
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[1]->type != REDIS_REPLY_STRING)
    return unexpected(r, "CONFIG GET", err);
  snprintf(out, SETTING_MAX, "%s", reply->element[1]->str);
  return PD_OK;
}

static pd_lasting judge(const char *appendonly, const char *appendfsync, const char *save_points)
{
  if (strcmp(appendonly, "yes") == 0) return strcmp(appendfsync, "always") == 0 ? PD_LASTS_POWER : PD_LASTS_MOSTLY;
  return *save_points ? PD_LASTS_MOSTLY : PD_LASTS_MEMORY;
}

/* A server that refuses CONFIG GET, or does not know it, is one whose durability nobody knows; one that does not answer is an error. */
static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  char appendonly[SETTING_MAX], appendfsync[SETTING_MAX], save_points[SETTING_MAX];
  pd_code code = ask_setting(handle, "appendonly", appendonly, err);
  if (!code) code = ask_setting(handle, "appendfsync", appendfsync, err);
  if (!code) code = ask_setting(handle, "save", save_points, err);
  if (code == PD_DENIED || (code == PD_STORAGE && strstr(err->message, "refuses"))) {
    out->lasting = PD_LASTS_UNKNOWN;
    snprintf(out->detail, sizeof out->detail, "the server does not tell its settings: %.200s", err->message);
    return PD_OK;
  }
  if (code) return code;
  out->lasting = judge(appendonly, appendfsync, save_points);
  snprintf(out->detail, sizeof out->detail, "Redis: appendonly=%.8s appendfsync=%.16s save='%.90s'", appendonly, appendfsync, save_points);
  return PD_OK;
}

#define REDIS_OPS(scheme, open_it)                                                                                                         \
  {                                                                                                                                        \
    .abi = PD_STORAGE_ABI, .name = scheme, .open = open_it, .close = close_redis, .remove = remove_key, .list = list,                      \
    .durability = durability, .claim = claim, .epoch = epoch_now, .save_next = save_next, .load_marked = load_marked,                      \
  }

const pd_storage_ops pd_storage_redis = REDIS_OPS("redis", open_tcp);
const pd_storage_ops pd_storage_rediss = REDIS_OPS("rediss", open_tls);
const pd_storage_ops pd_storage_redis_unix = REDIS_OPS("redis+unix", open_unix);
