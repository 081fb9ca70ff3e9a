/*
 * example_world.h: the examples of capabilities (capabilities/NAME.json), set up and ready to be called. "${x}" in an input stands for what
 * a set-up step saved as x.
 */
#ifndef TESTS_STATE_EXAMPLE_WORLD_H
#define TESTS_STATE_EXAMPLE_WORLD_H

#include "base/json.h"
#include "state/world.h"

#define EXAMPLE_VARIABLES_MAX 8

typedef struct example_variable {
  char name[32], text[256];
} example_variable;

typedef struct example_stage {
  world w; /* with a session */
  example_variable variables[EXAMPLE_VARIABLES_MAX];
  size_t count;
} example_stage;

/* Visit each example of each capability in a world of its own, its set-up done. */
void example_each(void (*visit)(example_stage *stage, const pd_capability_info *info, pd_json example));
/* The input of a step with its variables filled in; to be freed. */
char *example_input(const example_stage *stage, pd_json step);
/* Call `capability` as a step of the example says: as the operator, or as the agent. */
pd_code example_call(example_stage *stage, const char *capability, pd_json step);
/* A string's text, or JSON as it is; to be freed. */
char *example_text(pd_json value);

#endif
