/*
 * storage_plugin.c: a storage for snapshots that is no part of perdure: one file that is only ever appended to.
 *
 *     cc -shared -fPIC -o journal.so storage_plugin.c          # links nothing of perdure
 *     plugin:./journal.so?/var/lib/agents/journal              # the storage's URI
 *
 * Each record is a line `AGENT SIZE EPOCH SAVE TOKEN`, the document, and a newline; the last three are the mark of the save. A line
 * `AGENT -` says that the agent's snapshot was deleted, `AGENT =N` that it was claimed by epoch N. The last record of an agent counts. A
 * record that a crash left unfinished is cut off by the next writer, under a lock; under the same lock epoch and mark are looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <perdure/storage_plugin.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX (PD_NAME_SIZE_MAX + 96)

typedef struct journal {
  int fd;
  char path[1024];
} journal;

/* A record, as it is found in the file. */
typedef struct record {
  char agent[PD_NAME_SIZE_MAX + 1];
  bool is_delete, is_claim;
  uint64_t epoch;       /* of a claim */
  pd_storage_mark mark; /* of a save */
  off_t document_at, end;
  size_t size;
} record;

static pd_code refused(const journal *j, const char *what, pd_error *err)
{
  pd_code code = errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? PD_FULL : PD_STORAGE;
  return pd_storage_fail(err, code, "cannot %s %.300s: %s", what, j->path, strerror(errno));
}

/* The record at `at`: 1, 0 at the end or at an unfinished record, -1 if there is something else. */
static int read_record(const journal *j, off_t at, off_t file_end, record *out)
{
  char head[HEAD_MAX] = {0}, size[24], end;
  unsigned long long epoch = 0, save = 0, token = 0;
  int head_size = 0, mark_size = 0;
  ssize_t n = pread(j->fd, head, sizeof head - 1, at);
  char *line_end = n > 0 ? memchr(head, '\n', (size_t)n) : NULL;
  if (!line_end) return n == (ssize_t)sizeof head - 1 ? -1 : 0;
  *line_end = '\0';
  if (sscanf(head, "%64[A-Za-z0-9._-] %23[0-9=-]%n", out->agent, size, &head_size) != 2) return -1;
  bool is_marked = sscanf(head + head_size, " %llu %llu %llx%n", &epoch, &save, &token, &mark_size) == 3;
  if (is_marked) head_size += mark_size;
  if (head_size != line_end - head) return -1;
  out->mark = (pd_storage_mark){epoch, save, token};
  out->is_delete = strcmp(size, "-") == 0;
  out->is_claim = size[0] == '=';
  out->epoch = out->is_claim ? strtoull(size + 1, NULL, 10) : 0;
  out->size = out->is_delete || out->is_claim ? 0 : strtoul(size, NULL, 10);
  out->document_at = at + head_size + 1;
  out->end = out->document_at + (off_t)out->size + 1;
  if (out->end > file_end) return 0;
  return pread(j->fd, &end, 1, out->end - 1) == 1 && end == '\n' ? 1 : -1;
}

typedef pd_code (*record_visit)(void *ctx, const record *r, pd_error *err);

/* Visit all finished records; *out_end is where they end. */
static pd_code scan(const journal *j, record_visit visit, void *ctx, off_t *out_end, pd_error *err)
{
  off_t at = 0, file_end = lseek(j->fd, 0, SEEK_END);
  record r;
  int found = 0;
  while (at < file_end && (found = read_record(j, at, file_end, &r)) == 1) {
    pd_code code = visit ? visit(ctx, &r, err) : PD_OK;
    if (code) return code;
    at = r.end;
  }
  *out_end = at;
  return found < 0 ? pd_storage_fail(err, PD_CORRUPT, "%.300s has no sound record at byte %lld", j->path, (long long)at) : PD_OK;
}

/* Else the file may be gone after a loss of power, with all that was acknowledged. */
static void sync_folder(const char *path)
{
  char folder[1024];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) fsync(fd), close(fd);
}

static pd_code open_journal(const char *argument, void **out, pd_error *err)
{
  journal *j = calloc(1, sizeof *j);
  if (!j) return pd_storage_fail(err, PD_NO_MEMORY, "no memory for a journal");
  if (!*argument || strlen(argument) >= sizeof j->path) {
    free(j);
    return pd_storage_fail(err, PD_INVALID, "the journal needs a path: plugin:PATH.so?FILE");
  }
  strcpy(j->path, argument);
  j->fd = open(argument, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (j->fd < 0) {
    pd_code code = refused(j, "open", err);
    free(j);
    return code;
  }
  sync_folder(j->path);
  *out = j;
  return PD_OK;
}

static void close_journal(void *handle)
{
  journal *j = handle;
  close(j->fd);
  free(j);
}

static bool write_all(int fd, const char *data, size_t size, off_t at)
{
  while (size) {
    ssize_t n = pwrite(fd, data, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n, at += n, size -= (size_t)n;
  }
  return true;
}

/* What the journal says of an agent. */
typedef struct search {
  const char *agent;
  record last; /* of its snapshots */
  bool is_found;
  uint64_t epoch;
} search;

static pd_code look(void *ctx, const record *r, pd_error *err)
{
  search *s = ctx;
  (void)err;
  if (strcmp(s->agent, r->agent) != 0) return PD_OK;
  if (r->is_claim) {
    s->epoch = r->epoch;
    return PD_OK;
  }
  if (r->is_delete && s->epoch) s->epoch++; /* who held the agent does not any more */
  s->last = *r;
  s->is_found = !r->is_delete;
  return PD_OK;
}

/* Write a record at `end`, and cut off what came of it if that fails. */
static pd_code write_record(journal *j, const char *head, pd_bytes document, off_t end, pd_error *err)
{
  size_t size = strlen(head);
  if (ftruncate(j->fd, end) != 0) return refused(j, "write", err);
  bool is_written = write_all(j->fd, head, size, end) && write_all(j->fd, document.data, document.size, end + (off_t)size) &&
                    write_all(j->fd, "\n", 1, end + (off_t)(size + document.size)) && fdatasync(j->fd) == 0;
  if (is_written) return PD_OK;
  pd_code code = refused(j, "write", err);
  return ftruncate(j->fd, end) != 0 ? refused(j, "cut", err) : code;
}

typedef enum change { SAVE, DELETE, CLAIM } change;

/* What is to be written, and on what condition. */
typedef struct order {
  change what;
  const pd_storage_mark *last, *next; /* of a save; `last` may be NULL */
  pd_bytes document;
  uint64_t claimed; /* by a claim: its epoch */
} order;

static pd_code conflict(const char *agent, const search *now, pd_error *err)
{
  pd_storage_fail(err, PD_CONFLICT, "another process saved or claimed agent '%s'", agent);
  err->actual = now->epoch;
  return PD_CONFLICT;
}

static bool is_same(const pd_storage_mark *a, const pd_storage_mark *b)
{
  return a->epoch == b->epoch && a->save == b->save && a->token == b->token;
}

/* S10, S12. *out_is_there: this save is stored already. */
static pd_code check_order(const char *agent, const order *o, const search *now, bool *out_is_there, pd_error *err)
{
  pd_storage_mark none = {0};
  const pd_storage_mark *mark = now->is_found ? &now->last.mark : &none;
  if (o->what != SAVE) return PD_OK;
  if (o->next->epoch && o->next->epoch != now->epoch) return conflict(agent, now, err);
  *out_is_there = o->last && is_same(mark, o->next);
  return !o->last || *out_is_there || is_same(mark, o->last) ? PD_OK : conflict(agent, now, err);
}

/* Never one that was given out before, not even if the file was put back to an earlier state (S9). */
static uint64_t epoch_after(uint64_t last)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  return now_ms > last ? now_ms : last + 1;
}

static void write_head(const char *agent, const order *o, char out[HEAD_MAX])
{
  const pd_storage_mark *m = o->next;
  if (o->what == SAVE)
    snprintf(out, HEAD_MAX, "%s %zu %llu %llu %llx\n", agent, o->document.size, (unsigned long long)m->epoch, (unsigned long long)m->save,
             (unsigned long long)m->token);
  if (o->what == DELETE) snprintf(out, HEAD_MAX, "%s -\n", agent);
  if (o->what == CLAIM) snprintf(out, HEAD_MAX, "%s =%llu\n", agent, (unsigned long long)o->claimed);
}

static pd_code append(journal *j, const char *agent, order *o, pd_error *err)
{
  char head[HEAD_MAX];
  off_t end = 0;
  bool is_there = false;
  search now = {.agent = agent};
  if (flock(j->fd, LOCK_EX) != 0) return refused(j, "lock", err);
  pd_code code = scan(j, look, &now, &end, err);
  if (!code) code = check_order(agent, o, &now, &is_there, err);
  o->claimed = epoch_after(now.epoch);
  write_head(agent, o, head);
  if (!code && !is_there) code = write_record(j, head, o->document, end, err);
  flock(j->fd, LOCK_UN);
  return code;
}

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  order save = {.what = SAVE, .last = last, .next = next, .document = snapshot};
  return append(handle, agent, &save, err);
}

static pd_code claim(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err)
{
  order claim = {.what = CLAIM, .document = pd_text("")};
  pd_code code = append(handle, agent, &claim, err);
  if (!code) *out_epoch = claim.claimed;
  return code;
}

static pd_code find(journal *j, search *s, pd_error *err)
{
  off_t end;
  if (flock(j->fd, LOCK_SH) != 0) return refused(j, "lock", err);
  pd_code code = scan(j, look, s, &end, err);
  flock(j->fd, LOCK_UN);
  return code;
}

static pd_code find_snapshot(journal *j, search *s, pd_error *err)
{
  pd_code code = find(j, s, err);
  if (!code && !s->is_found) return pd_storage_fail(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", s->agent, j->path);
  return code;
}

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err)
{
  search s = {.agent = agent};
  pd_code code = find(handle, &s, err);
  if (!code) *out_epoch = s.epoch;
  return code;
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  journal *j = handle;
  search s = {.agent = agent};
  pd_code code = find_snapshot(j, &s, err);
  if (code) return code;
  char *document = malloc(s.last.size + 1);
  if (!document) return pd_storage_fail(err, PD_NO_MEMORY, "no memory for a snapshot");
  for (size_t done = 0; !code && done < s.last.size;) { /* what is written is never changed, so no lock */
    ssize_t n = pread(j->fd, document + done, s.last.size - done, s.last.document_at + (off_t)done);
    if (n <= 0) code = refused(j, "read", err);
    done += n > 0 ? (size_t)n : 0;
  }
  *out_mark = s.last.mark;
  if (!code) code = take(ctx, (pd_bytes){document, s.last.size}, err);
  free(document);
  return code;
}

static pd_code remove_agent(void *handle, const char *agent, pd_error *err)
{
  search s = {.agent = agent};
  pd_code code = find_snapshot(handle, &s, err);
  order gone = {.what = DELETE, .document = pd_text("")};
  return code ? code : append(handle, agent, &gone, err);
}

typedef struct listing {
  journal *journal;
  pd_storage_visit visit;
  void *ctx;
} listing;

/* Tell an agent where its last record is. Reads the file once for each record: a journal of a few agents is meant. */
static pd_code tell(void *ctx, const record *r, pd_error *err)
{
  listing *l = ctx;
  search s = {.agent = r->agent};
  off_t end;
  pd_code code = scan(l->journal, look, &s, &end, err);
  bool is_last = !code && s.is_found && !r->is_claim && s.last.end == r->end;
  return code ? code : is_last ? l->visit(l->ctx, r->agent, err) : PD_OK;
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  journal *j = handle;
  listing l = {j, visit, ctx};
  off_t end;
  if (flock(j->fd, LOCK_SH) != 0) return refused(j, "lock", err);
  pd_code code = scan(j, tell, &l, &end, err);
  flock(j->fd, LOCK_UN);
  return code;
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  (void)handle, (void)err;
  out->lasting = PD_LASTS_POWER;
  snprintf(out->detail, sizeof out->detail, "each save is appended to the journal and synced");
  return PD_OK;
}

PD_STORAGE_EXPORT const pd_storage_ops pd_storage_plugin = {
  .abi = PD_STORAGE_ABI,
  .name = "journal",
  .open = open_journal,
  .close = close_journal,
  .remove = remove_agent,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
  .save_next = save_next,
  .load_marked = load_marked,
};
