/* names.h: names that a visitor tells, kept until they are needed: what is visited must not be changed meanwhile. */
#ifndef PD_BASE_NAMES_H
#define PD_BASE_NAMES_H

#include <perdure/perdure.h>

/* Zero-initialise; pd_names_done. The first failure sticks in `code`, for visitors can return none. */
typedef struct pd_names {
  char **items;
  size_t count, capacity;
  pd_code code;
} pd_names;

void pd_names_done(pd_names *names);
void pd_names_add(pd_names *names, const char *name);
/* Visitors; `ctx` is the pd_names. */
void pd_names_take(void *ctx, const char *name);
void pd_names_take_ref(void *ctx, const pd_ref *ref);
/* PD_NO_MEMORY if a name was lost; `what` is for the error. */
PD_MUST_USE pd_code pd_names_check(const pd_names *names, const char *what, pd_error *err);
/* By strcmp, each name once. */
void pd_names_sort(pd_names *names);

#endif
