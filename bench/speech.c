/*
 * speech.c: what the clients of client.h say: HTTP/1.1 to perdure, RESP to Redis, gRPC over HTTP/2 to etcd, which is what its own clients
 * speak (its JSON gateway is a proxy before that).
 *
 * gRPC, as little of it as a unary call needs: the connection's preface, empty settings and a large window for it; each question
 * is HEADERS and DATA on a stream of its own; the answer is whole with the frame that ends the stream. HPACK without dynamic table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "client.h"

static pd_code is_wrong(const bench_client *c, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "a client was answered: %.200s", c->in);
}

/* ---- perdure ---- */

static pd_code ask_http(bench_client *c, const char *capability, const char *body, pd_error *err)
{
  char agent[48] = "";
  if (c->round) snprintf(agent, sizeof(agent), "Perdure-Agent: agent-%u\r\n", c->round);
  return pd_buf_printf(&c->out, err,
                       "POST /v1/call/%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       capability, agent, strlen(body), body);
}

static pd_code ask_shared(bench_client *c, uint32_t key, pd_error *err)
{
  char body[256];
  snprintf(body, sizeof(body), "{\"key\":\"task.%04u\",\"value\":" BENCH_WIRE_VALUE ",\"expected_version\":%llu}", key,
           (unsigned long long)(c->written / BENCH_KEYS_EACH));
  if (!c->is_writing) snprintf(body, sizeof(body), "{\"key\":\"task.%04u\"}", key);
  return ask_http(c, c->is_writing ? "state.shared.set" : "state.shared.get", body, err);
}

static pd_code ask_persistent(bench_client *c, uint32_t key, pd_error *err)
{
  char body[256];
  snprintf(body, sizeof(body), c->is_writing ? "{\"key\":\"task.%04u\",\"value\":" BENCH_WIRE_VALUE "}" : "{\"key\":\"task.%04u\"}", key);
  return ask_http(c, c->is_writing ? "state.persistent.set" : "state.persistent.get", body, err);
}

/* Clients begin at different agents and go on in steps of their number: no two are at the same one if there are enough. */
static pd_code ask_agents(bench_client *c, uint32_t key, pd_error *err)
{
  c->round = 1 + (uint32_t)((c->index + c->written * BENCH_CLIENT_COUNT) % c->agents);
  return ask_persistent(c, key, err);
}

/* An answer of 200 that has `text` in it; NULL: whatever it says. */
static pd_code hear_text(bench_client *c, const char *text, size_t *out_used, bool *out_is_whole, pd_error *err)
{
  const char *head_end = strstr(c->in, "\r\n\r\n"), *length = head_end ? strcasestr(c->in, "Content-Length:") : NULL;
  if (!head_end) return PD_OK;
  if (strncmp(c->in, "HTTP/1.1 200", 12) != 0 || !length) return is_wrong(c, err);
  size_t size = (size_t)(head_end + 4 - c->in) + strtoull(length + 15, NULL, 10);
  if (c->in_size < size) return PD_OK;
  if (text && !strstr(head_end, text)) return is_wrong(c, err);
  *out_used = size;
  *out_is_whole = true;
  return PD_OK;
}

static pd_code hear_http(bench_client *c, size_t *out_used, bool *out_is_whole, pd_error *err)
{
  return hear_text(c, c->is_writing ? "{\"version\":" : "{\"value\":" BENCH_WIRE_VALUE, out_used, out_is_whole, err);
}

const bench_speech bench_speech_shared = {.hello = "", .ask = ask_shared, .hear = hear_http};
const bench_speech bench_speech_persistent = {.hello = "", .ask = ask_persistent, .hear = hear_http};
const bench_speech bench_speech_agents = {.hello = "", .ask = ask_agents, .hear = hear_http};

/* ---- perdure: senders ---- */

static pd_code ask_queue(bench_client *c, uint32_t key, pd_error *err)
{
  char body[256];
  (void)key;
  snprintf(body, sizeof(body), "{\"to\":\"to-%u\",\"body\":" BENCH_WIRE_VALUE "}", c->round);
  return ask_http(c, "queue.send", body, err);
}

static pd_code ask_mailbox(bench_client *c, uint32_t key, pd_error *err)
{
  char body[256];
  (void)key;
  snprintf(body, sizeof(body), "{\"thread_id\":\"to-%u\",\"body\":" BENCH_WIRE_VALUE "}", c->round);
  return ask_http(c, "mailbox.send", body, err);
}

static pd_code ask_alerts(bench_client *c, uint32_t key, pd_error *err)
{
  (void)key;
  return ask_http(
    c, "alerts.send",
    "{\"severity\":\"info\",\"title\":\"the disk is nearly full\",\"message\":\"a text of some length\",\"details\":" BENCH_WIRE_VALUE "}",
    err);
}

static pd_code ask_new_thread(bench_client *c, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf body = {0};
  TRY(pd_buf_printf(&body, err, "{\"thread_id\":\"to-%u\",\"state\":{\"turns\":0", c->round));
  for (uint32_t i = 0; i < c->leaves; i++) TRY(pd_buf_printf(&body, err, ",\"leaf-%04u\":\"a leaf\"", i));
  TRY(pd_buf_append(&body, "}}", 3, err));
  return ask_http(c, "threads.create", (const char *)body.data, err);
}

static pd_code ask_threads(bench_client *c, uint32_t key, pd_error *err)
{
  char body[512];
  (void)key;
  if (!c->is_writing) return ask_new_thread(c, err);
  snprintf(body, sizeof(body),
           "{\"thread_id\":\"to-%u\",\"run_id\":\"r%u\",\"reason\":\"AssistantTurnCommitted\",\"messages\":[{\"id\":\"m%u-%llu\",\"role\":"
           "\"user\",\"content\":" BENCH_WIRE_VALUE "}],\"patches\":[{\"op\":\"increment\",\"path\":\"/turns\",\"by\":1}]}",
           c->round, c->index, c->index, (unsigned long long)c->written);
  return ask_http(c, "threads.append", body, err);
}

static pd_code ask_work(bench_client *c, uint32_t key, pd_error *err)
{
  char body[256];
  (void)key;
  snprintf(body, sizeof(body), "{\"title\":\"a work item\",\"input\":" BENCH_WIRE_VALUE "}");
  return ask_http(c, "work.create", body, err);
}

static pd_code hear_sent(bench_client *c, size_t *out_used, bool *out_is_whole, pd_error *err)
{
  return hear_text(c, NULL, out_used, out_is_whole, err);
}

const bench_speech bench_speech_queue = {.hello = "", .ask = ask_queue, .hear = hear_sent};
const bench_speech bench_speech_mailbox = {.hello = "", .ask = ask_mailbox, .hear = hear_sent};
const bench_speech bench_speech_alerts = {.hello = "", .ask = ask_alerts, .hear = hear_sent};
const bench_speech bench_speech_threads = {.hello = "", .ask = ask_threads, .hear = hear_sent};
const bench_speech bench_speech_work = {.hello = "", .ask = ask_work, .hear = hear_sent};

/* ---- Redis ---- */

static pd_code ask_redis(bench_client *c, uint32_t key, pd_error *err)
{
  if (!c->is_writing) return pd_buf_printf(&c->out, err, "*2\r\n$3\r\nGET\r\n$9\r\ntask.%04u\r\n", key);
  return pd_buf_printf(&c->out, err, "*3\r\n$3\r\nSET\r\n$9\r\ntask.%04u\r\n$%zu\r\n%s\r\n", key, strlen(BENCH_WIRE_VALUE),
                       BENCH_WIRE_VALUE);
}

static pd_code hear_redis(bench_client *c, size_t *out_used, bool *out_is_whole, pd_error *err)
{
  const char *line_end = strstr(c->in, "\r\n");
  if (!line_end) return PD_OK;
  size_t size = (size_t)(line_end + 2 - c->in) + (c->is_writing ? 0 : strlen(BENCH_WIRE_VALUE "\r\n"));
  if (strncmp(c->in, c->is_writing ? "+OK" : "$", c->is_writing ? 3 : 1) != 0) return is_wrong(c, err);
  if (c->in_size < size) return PD_OK;
  if (!c->is_writing && !strstr(line_end, BENCH_WIRE_VALUE)) return is_wrong(c, err);
  *out_used = size;
  *out_is_whole = true;
  return PD_OK;
}

const bench_speech bench_speech_redis = {.hello = "", .ask = ask_redis, .hear = hear_redis};

/* ---- etcd ---- */

enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RESET = 3, FRAME_SETTINGS = 4, FRAME_PING = 6, FRAME_GOAWAY = 7, FRAME_HEAD_SIZE = 9 };
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4 };

/* The preface; SETTINGS without any; WINDOW_UPDATE of the connection by nearly 2 GiB, so that it need not be done again. */
static const char etcd_hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                 "\0\0\0\4\0\0\0\0\0"
                                 "\0\0\4\10\0\0\0\0\0\x7f\0\0\0";

static pd_code add_frame(bench_client *c, uint8_t type, uint8_t flags, uint32_t stream, pd_bytes payload, pd_error *err)
{
  const uint8_t head[FRAME_HEAD_SIZE] = {
    (uint8_t)(payload.size >> 16), (uint8_t)(payload.size >> 8), (uint8_t)payload.size,  type,           flags,
    (uint8_t)(stream >> 24),       (uint8_t)(stream >> 16),      (uint8_t)(stream >> 8), (uint8_t)stream};
  TRY(pd_buf_append(&c->out, head, sizeof(head), err));
  return pd_buf_append(&c->out, payload.data, payload.size, err);
}

/* :method POST, :scheme http, :path, :authority localhost, content-type application/grpc, te trailers. */
#define ETCD_HEADERS(path_size, path)                                                                                                      \
  "\x83\x86\x04" path_size path "\x01\x09localhost\x0f\x10\x10"                                                                            \
  "application/grpc\x00\x02te\x08trailers"

static pd_code ask_etcd(bench_client *c, uint32_t key, pd_error *err)
{
  static const char put[] = ETCD_HEADERS("\x14", "/etcdserverpb.KV/Put"), range[] = ETCD_HEADERS("\x16", "/etcdserverpb.KV/Range");
  char message[256];
  const int value_size = (int)strlen(BENCH_WIRE_VALUE);
  /* key = 1, value = 2; the sizes are below 128, so a byte each */
  int size = snprintf(message + 5, sizeof(message) - 5, "\x0a\x09task.%04u\x12%c%s", key, value_size, BENCH_WIRE_VALUE);
  if (!c->is_writing) size = 2 + 9;
  memcpy(message, (const char[5]){0, 0, 0, 0, (char)size}, 5);
  c->stream += c->stream ? 2 : 1;
  c->has_message = false;
  pd_bytes headers = c->is_writing ? (pd_bytes){put, sizeof(put) - 1} : (pd_bytes){range, sizeof(range) - 1};
  TRY(add_frame(c, FRAME_HEADERS, FLAG_END_HEADERS, c->stream, headers, err));
  return add_frame(c, FRAME_DATA, FLAG_END_STREAM, c->stream, (pd_bytes){message, (size_t)size + 5}, err);
}

static pd_code hear_etcd(bench_client *c, size_t *out_used, bool *out_is_whole, pd_error *err)
{
  const uint8_t *in = (const uint8_t *)c->in, *payload = in + FRAME_HEAD_SIZE;
  size_t size = c->in_size < 3 ? 0 : (size_t)in[0] << 16 | (size_t)in[1] << 8 | in[2];
  if (c->in_size < FRAME_HEAD_SIZE || c->in_size < FRAME_HEAD_SIZE + size) return PD_OK;
  uint8_t type = in[3], flags = in[4];
  *out_used = FRAME_HEAD_SIZE + size;
  if (type == FRAME_RESET || type == FRAME_GOAWAY)
    return pd_error_set(err, PD_CORRUPT, "etcd ended a stream with a frame of type %d", type);
  if ((type == FRAME_SETTINGS || type == FRAME_PING) && !(flags & FLAG_ACK))
    return add_frame(c, type, FLAG_ACK, 0, (pd_bytes){payload, type == FRAME_PING ? size : 0}, err);
  if (type == FRAME_DATA) /* an error has none */
    c->has_message = c->is_writing ? size > 5 : memmem(payload, size, BENCH_WIRE_VALUE, strlen(BENCH_WIRE_VALUE)) != NULL;
  if ((type == FRAME_DATA || type == FRAME_HEADERS) && flags & FLAG_END_STREAM) {
    if (!c->has_message) return pd_error_set(err, PD_CORRUPT, "etcd answered a %s with an error", c->is_writing ? "Put" : "Range");
    *out_is_whole = true;
  }
  return PD_OK;
}

const bench_speech bench_speech_etcd = {.hello = etcd_hello, .hello_size = sizeof(etcd_hello) - 1, .ask = ask_etcd, .hear = hear_etcd};
