/*
 * team.h: one piece of work shared by a few threads: the caller and helpers that sleep otherwise. For work that keeps a processor busy and
 * falls into many like pieces, as sending one text to a thousand sockets. (pool.h is for work that waits.)
 *
 * T1  pd_team_run returns when every piece was done, each by one thread, and no helper looks at the work any more.
 * T2  One work at a time: whoever comes while the helpers are busy does its work alone, and waits for nobody.
 */
#ifndef PD_WIRE_TEAM_H
#define PD_WIRE_TEAM_H

#include <perdure/perdure.h>

typedef struct pd_team pd_team;

/* Do the pieces begin … end - 1. */
typedef void (*pd_team_act)(void *ctx, size_t begin, size_t end);

/* As many threads as there are processors, up to `threads_max`, whoever calls included. They are started with the first work. */
PD_MUST_USE pd_code pd_team_new(unsigned threads_max, pd_team **out, pd_error *err);
/* When nobody runs anything. Takes NULL. */
void pd_team_free(pd_team *team);
/* Do `count` pieces, `grain` of them at a time. Helpers see what the caller wrote before, and the caller what they wrote. */
void pd_team_run(pd_team *team, size_t count, size_t grain, pd_team_act act, void *ctx);

#endif
