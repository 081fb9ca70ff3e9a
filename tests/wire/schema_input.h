/* schema_input.h: an input for a capability, made of its schema, that names what is somebody else's. */
#ifndef TESTS_WIRE_SCHEMA_INPUT_H
#define TESTS_WIRE_SCHEMA_INPUT_H

#include "base/json.h"

/* What to say where. */
typedef struct schema_words {
  const char *agent;             /* where an agent is named */
  const char *session;           /* where a session is */
  const char *text;              /* where it is any text */
  const char *const (*named)[2]; /* of fields with these names: {name, value}, ended by {NULL}; may be NULL */
} schema_words;

/* All fields, or those that are needed; but for wait_ms. Freed by the caller. */
char *schema_input(const schema_words *words, pd_json inputs, bool has_all);

#endif
