/*
 * audit.h: every call as a line of a hash chain.
 *
 * Calls leave their lines in memory (audit.c); a thread writes them as batches to the ref `audit` of the system store within
 * audit.flush ms (audit_write.c); readers walk the batches back from the newest (audit_read.c), and audit_verify.c recomputes the chain.
 * docs/formats.md has the bytes.
 *
 * A1  A line's chain is SHA-256(chain of the line before || the line's JSON); the first line's predecessor is 32 zero bytes.
 * A2  A batch is one key, `batch/` and its first line's number in 20 digits; batch and `head` change in one commit, bound to the
 *     version of `head`: whoever loses the race chains its lines to the winner's.
 * A3  Calls that changed nothing and needed nobody or were refused share a line within a batch if they are alike in all but their time; it
 *     counts them. What strangers ask for shares one within a minute (audit_access.c).
 * A4  No value, and no other content of an input than the key or id it is about, is ever in a line.
 * A5  Adding never fails a call. A slow disk slows callers down; a failing one makes lines wait in bounded memory, then counts them
 *     as lost, and the first line that can be written again says how many.
 */
#ifndef PD_STATE_AUDIT_H
#define PD_STATE_AUDIT_H

#include "base/json.h"
#include "base/map64.h"
#include "state/call.h"
#include "state/home.h"

#define PD_AUDIT_REF "audit"
#define PD_AUDIT_HEAD "head"
#define PD_AUDIT_BATCH "batch/"
#define PD_AUDIT_KEY_SIZE 32
#define PD_AUDIT_LINES_MAX 32768                     /* of one batch */
#define PD_AUDIT_TEXTS_MAX ((size_t)4 * 1024 * 1024) /* bytes of their texts */

/* A line as it waits in memory. Its texts lie one after the other in the batch's `texts`:
 * agent, session, approval, subject, name, token. */
typedef struct pd_audit_line {
  int64_t first_ms, last_ms;
  const char *capability; /* static storage; NULL: the name is in the texts */
  const char *outcome;    /* static storage */
  pd_id input_hash, commit;
  uint64_t count;
  uint32_t text_at;
  uint16_t sizes[6];
  uint8_t permission;
  bool is_operator, has_commit;
} pd_audit_line;

enum { PD_AUDIT_AGENT = 0, PD_AUDIT_SESSION, PD_AUDIT_APPROVAL, PD_AUDIT_SUBJECT, PD_AUDIT_NAME, PD_AUDIT_TOKEN, PD_AUDIT_TEXT_COUNT };

/* What will be one batch. */
typedef struct pd_audit_batch {
  pd_audit_line *lines;
  size_t count, capacity;
  pd_buf texts;
  pd_map64 alike;   /* fingerprint -> index of the line + 1 */
  uint64_t lost;    /* lines that found no room */
  uint64_t tickets; /* calls that were added when it was closed */
} pd_audit_batch;

pd_bytes pd_audit_text(const pd_audit_batch *batch, const pd_audit_line *line, int which);

/* ---- the chain's ends, as `head` tells them ---- */

typedef struct pd_audit_head {
  uint64_t seq;                    /* of the last line; 0: none */
  pd_id chain;                     /* of the last line */
  uint64_t batch;                  /* first line of the last batch; 0: none */
  int64_t written_ms;              /* when it was written; not part of its text */
  int64_t until_ms;                /* no line is younger */
  uint64_t start_seq, start_batch; /* the first line that is still there (or will be the next), and its batch */
  pd_id start_chain;               /* of the line before it */
} pd_audit_head;

/* The first line of a batch's text. */
typedef struct pd_audit_top {
  uint64_t first, count, before; /* before: the first line of the batch before; 0: none */
  pd_id chain;                   /* of the line before `first` */
  int64_t until_ms;
} pd_audit_top;

char *pd_audit_key(uint64_t first, char out[PD_AUDIT_KEY_SIZE]);
pd_id pd_audit_link(const pd_id *before, pd_bytes line);
PD_MUST_USE pd_code pd_audit_head_text(const pd_audit_head *head, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_audit_top_text(const pd_audit_top *top, pd_buf *out, pd_error *err);
/* PD_CORRUPT for anything that the functions above do not write. */
PD_MUST_USE pd_code pd_audit_head_parse(pd_bytes text, pd_audit_head *out, pd_error *err);
/* `out_rest` is what follows. */
PD_MUST_USE pd_code pd_audit_top_parse(pd_bytes batch, pd_audit_top *out, pd_bytes *out_rest, pd_error *err);
/* The next of a batch's lines: `rest` moves behind it; false at the end. PD_CORRUPT. */
PD_MUST_USE pd_code pd_audit_next(pd_bytes *rest, pd_id *out_chain, pd_bytes *out_line, bool *out_is_end, pd_error *err);
/* When the last of the calls that a line tells of was made; 0 for what is no line. */
int64_t pd_audit_time(pd_json line);
/* `head` and its version (0: there is none yet, and *out is a chain's beginning). PD_NOT_FOUND if there is no ref `audit`. */
PD_MUST_USE pd_code pd_audit_head_read(pd_view *view, pd_audit_head *out, uint64_t *out_version, pd_error *err);

/* Write one batch, whatever others write meanwhile; durable when it returns. */
PD_MUST_USE pd_code pd_audit_write(pd_home *home, const pd_audit_batch *batch, pd_error *err);

/* ---- for the neighbours ---- */

/* audit_access.c: what waits to be told with others that are alike. */
typedef struct pd_audit_joined pd_audit_joined;
PD_MUST_USE pd_code pd_audit_joined_new(pd_audit_joined **out, pd_error *err);
void pd_audit_joined_free(pd_audit_joined *joined); /* takes NULL */
pd_audit_joined *pd_audit_joined_of(pd_home *home);
/* Count a line that found no room. */
void pd_audit_lose(pd_home *home);
/* Add the lines that are owed, as far as there is room. */
void pd_audit_joined_tell(pd_home *home);

/* Write what waits in memory. */
PD_MUST_USE pd_code pd_audit_flush(pd_home *home, pd_error *err);

typedef struct pd_audit_status {
  uint64_t waiting;  /* lines in memory */
  uint64_t lost;     /* since the home was opened */
  bool is_failing;   /* the last write failed */
  char message[256]; /* why */
} pd_audit_status;

/* Would a call that is concluded now wait for the disk? True if lines are written before the answer (audit.flush = 0), or there is little
 * room left. A caller that must not wait has the call done by another thread then. */
bool pd_audit_must_wait(pd_home *home);

/* For system.health. */
void pd_audit_status_get(pd_home *home, pd_audit_status *out);

/* For CLEANUP. */
static inline void pd_audit_view_close(pd_view **view)
{
  pd_view_close(*view);
}

#endif
