/*
 * briefing.h: state.briefing.generate: what happened since a time, in sections, and in a few sentences.
 *
 * Each section is written twice: brief (counts) and, if asked for, full (lists); and it may have a sentence. The answer takes of each
 * section what detail_level wants, and less of the least important ones if max_chars does not let it.
 */
#ifndef PD_STATE_BRIEFING_H
#define PD_STATE_BRIEFING_H

#include "state/call.h"
#include "state/home.h"

/* The most important first: that is the order of the sentences, and the end of the list is dropped first. */
typedef enum pd_section_kind {
  PD_BRIEF_HEALTH = 0,
  PD_BRIEF_ALERTS,
  PD_BRIEF_PENDING,
  PD_BRIEF_DECISIONS,
  PD_BRIEF_MESSAGES,
  PD_BRIEF_PROCESSES,
  PD_BRIEF_SHARED,
  PD_BRIEF_FILES,
  PD_BRIEF_OWN,
  PD_BRIEF_COUNT
} pd_section_kind;

#define PD_BRIEF_LIST_MAX 1000 /* items of a section's list; how many more there are is told */
#define PD_BRIEF_NAMED_MAX 3   /* things that a sentence names */

typedef struct pd_section {
  pd_buf brief, full; /* JSON; full is empty if it has no more than brief */
  pd_buf sentence;    /* without a full stop; empty: nothing to tell */
} pd_section;

typedef struct pd_briefing {
  pd_frame *frame;
  pd_home *home;
  const char *agent;
  int64_t since_ms; /* 0: the agent was never here before */
  bool is_detailed;
  pd_section sections[PD_BRIEF_COUNT];
} pd_briefing;

/* One function a section; each fills its own. */
PD_MUST_USE pd_code pd_brief_health(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_alerts(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_pending(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_decisions(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_messages(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_processes(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_shared(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_files(pd_briefing *b, pd_section *out, pd_error *err);
PD_MUST_USE pd_code pd_brief_own(pd_briefing *b, pd_section *out, pd_error *err);

/* "1 file", "3 files". */
PD_MUST_USE pd_code pd_brief_count(pd_buf *out, uint64_t count, const char *one, const char *many, pd_error *err);

#endif
