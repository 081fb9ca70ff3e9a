/*
 * agent.c: a small agent that may be killed at any moment, kill -9 included.
 *
 *     PERDURE_STORAGE=file:./data PERDURE_AGENT=counter ./agent TASKS OUT
 *     perdure run --agent counter -- ./agent TASKS OUT                       # sets both, and starts it again
 *
 * It counts through the lines of TASKS. For each it does something to the outside world (it appends a line to OUT/effects), remembers that
 * it did, and replies (a line in OUT/replies). However often it is killed, in the end each line is there once. agent.py and agent.sh are
 * the same over the command line.
 *
 * What makes it so:
 *   - an effect is written down before it is done; one that may have happened is looked for, and not simply done again;
 *   - a step is one save: count, history and reply change together;
 *   - the reply leaves after the save; after a crash the replies that may not have left are handed out again.
 */
#include <errno.h>
#include <fcntl.h>
#include <perdure/agent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH 5       /* tasks that are taken from the list at once */
#define LINE_MAX_ 512 /* of the list */

typedef struct worker {
  pd_agent *agent;
  const char *tasks, *out;
  pd_error err;
} worker;

static void must(const worker *w, pd_code code, const char *what)
{
  if (code == PD_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, pd_error_name(&w->err), w->err.message);
  exit(1);
}

/* ---- the outside world: lines `ID <tab> TEXT` in files ---- */

static void path_of(const worker *w, const char *name, char out[4096])
{
  snprintf(out, 4096, "%s/%s", w->out, name);
}

/* Is there a whole line of this id? A line that a crash left unfinished is cut off: it has not happened. */
static bool is_there(const worker *w, const char *name, const char *id)
{
  char path[4096], line[LINE_MAX_ * 2];
  bool is_found = false;
  long end = 0;
  path_of(w, name, path);
  FILE *f = fopen(path, "r+");
  if (!f) return false;
  while (fgets(line, sizeof line, f)) {
    if (!strchr(line, '\n')) {
      if (ftruncate(fileno(f), end)) exit(1);
      break;
    }
    is_found = is_found || (strncmp(line, id, strlen(id)) == 0 && line[strlen(id)] == '\t');
    end = ftell(f);
  }
  fclose(f);
  return is_found;
}

static void append(const worker *w, const char *name, const char *id, const char *text)
{
  char path[4096], line[LINE_MAX_ * 2];
  path_of(w, name, path);
  int size = snprintf(line, sizeof line, "%s\t%s\n", id, text);
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, line, (size_t)size) != size || fsync(fd) || close(fd)) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
  }
}

/* ---- one step ---- */

/* Do it once, whatever became of those who tried before. */
static void do_effect(worker *w, const char *id, const char *task)
{
  pd_effect_state state;
  must(w, pd_agent_effect_intend(w->agent, id, (pd_bytes){0}, &state, &w->err), "intend");
  if (state == PD_EFFECT_DONE) return;
  if (state == PD_EFFECT_INTENDED || !is_there(w, "effects", id)) append(w, "effects", id, task); /* unknown: look */
  must(w, pd_agent_effect_done(w->agent, id, pd_text("true"), &w->err), "done");
}

static void work(worker *w)
{
  pd_buf task = {0};
  char id[PD_AGENT_ID_MAX + 1], text[LINE_MAX_ + 64];
  int64_t count = pd_agent_number(w->agent, "count", 0) + 1;
  snprintf(id, sizeof id, "%s", pd_agent_step_event_id(w->agent));
  must(w, pd_agent_step_event_get(w->agent, "task", &task, &w->err), "event");
  snprintf(text, sizeof text, "%.*s", (int)task.size, (const char *)task.data);
  pd_buf_done(&task);
  do_effect(w, id, text);
  must(w, pd_agent_step_say(w->agent, "user", text, &w->err), "say");
  must(w, pd_agent_step_set_number(w->agent, "count", count, &w->err), "set");
  snprintf(text, sizeof text, "number %lld is done", (long long)count);
  must(w, pd_agent_step_reply_text(w->agent, text, &w->err), "reply");
  must(w, pd_agent_step_commit(w->agent, &w->err), "commit");
}

/* Only here does a reply leave. One that may have left before is looked for: whoever gets it wants it once. */
static void send_reply(worker *w, bool is_again)
{
  const char *id = pd_agent_step_event_id(w->agent);
  if (is_again && is_there(w, "replies", id)) return;
  append(w, "replies", id, pd_agent_reply_text(w->agent));
}

/* ---- the list ---- */

/* Put the next tasks into the queue; false if there are none. The queue is empty, so what was taken before is finished: it is `count`. */
static bool take_tasks(worker *w)
{
  char line[LINE_MAX_], event[LINE_MAX_ * 2 + 64];
  int64_t number = 0, count = pd_agent_number(w->agent, "count", 0);
  FILE *f = fopen(w->tasks, "r");
  while (f && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n\"\\")] = 0; /* tasks are plain words here: nothing to escape */
    if (number++ < count || number > count + BATCH) continue;
    snprintf(event, sizeof event, "{\"id\":\"task-%lld\",\"source\":\"list\",\"type\":\"task\",\"task\":\"%s\"}", (long long)number, line);
    must(w, pd_agent_event_push(w->agent, pd_text(event), NULL, &w->err), "push");
  }
  if (!f) fprintf(stderr, "%s: %s\n", w->tasks, strerror(errno)), exit(1);
  fclose(f);
  return number > count;
}

int main(int argc, char **argv)
{
  const char *storage = getenv("PERDURE_STORAGE"), *id = getenv("PERDURE_AGENT");
  if (argc != 3 || !storage || !id) {
    fprintf(stderr, "usage: PERDURE_STORAGE=URI PERDURE_AGENT=NAME agent TASKS OUT\n");
    return 2;
  }
  worker w = {.tasks = argv[1], .out = argv[2]};
  pd_step step = PD_STEP_NONE;
  must(&w, pd_agent_open(storage, id, NULL, &w.agent, &w.err), "open");
  for (;;) {
    must(&w, pd_agent_step_begin(w.agent, PD_NEXT_EVENT, &step, &w.err), "next");
    if (step == PD_STEP_NONE) {
      if (!take_tasks(&w)) break;
      continue;
    }
    if (step == PD_STEP_NEW) work(&w);
    send_reply(&w, step == PD_STEP_SEEN);
  }
  printf("%lld tasks are done\n", (long long)pd_agent_number(w.agent, "count", 0));
  pd_agent_close(w.agent);
  return 0;
}
