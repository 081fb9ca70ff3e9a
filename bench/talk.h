/*
 * talk.h: one conversation, kept checkpoint by checkpoint as a thread of ours, and by LangGraph's SQLite checkpointer.
 *
 * A turn is two messages of 500 bytes and three of the 20 fields of the state, of 40 bytes each: text that hardly compresses. Both sides
 * get the same bytes, and one checkpoint a turn; both are read back at the end.
 */
#ifndef BENCH_TALK_H
#define BENCH_TALK_H

#include <perdure/perdure.h>

#define TALK_TURN_COUNT_MAX 500
#define TALK_MESSAGE_SIZE 500
#define TALK_FIELD_COUNT 20

typedef struct talk_result {
  double seconds[TALK_TURN_COUNT_MAX]; /* of each checkpoint */
  double seconds_all;                  /* of all, and of what had to be flushed behind them */
  uint32_t count;
  uint64_t bytes; /* of the files, when closed */
} talk_result;

/* `dir` is an empty folder. With sync on each checkpoint is on stable storage before it returns. Off: ours is buffered and flushed within
 * the time that counts. */
PD_MUST_USE pd_code talk_ours(const char *dir, uint32_t turn_count, bool is_synced, talk_result *out, pd_error *err);

/* Is the peer installed (bench/langgraph/install)? */
bool talk_peer_is_there(void);
/* The same; PRAGMA synchronous=FULL or OFF. PD_STORAGE if node fails. */
PD_MUST_USE pd_code talk_langgraph(const char *dir, uint32_t turn_count, bool is_synced, talk_result *out, pd_error *err);

/* The median of the checkpoints around a turn (a tenth of them to each side). */
double talk_seconds_at(const talk_result *result, uint32_t turn);

#endif
