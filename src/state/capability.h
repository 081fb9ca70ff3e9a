/*
 * capability.h: a capability as data. The table is made from capabilities/NAME.json by tools/capgen.c when the house is built; the
 * function that runs NAME is pd_cap_NAME with dots as underscores, and lives in the file of its tier (session.c, shared.c…).
 */
#ifndef PD_STATE_CAPABILITY_H
#define PD_STATE_CAPABILITY_H

#include <perdure/state.h>

#define PD_FIELD_COUNT_MAX 16 /* of one input; capgen refuses more */

typedef enum pd_field_type {
  PD_FIELD_ANY = 0, /* any JSON value */
  PD_FIELD_STRING,
  PD_FIELD_INTEGER, /* without fraction and exponent */
  PD_FIELD_BOOLEAN,
  PD_FIELD_OBJECT,
  PD_FIELD_ARRAY
} pd_field_type;

typedef enum pd_field_format {
  PD_FORMAT_NONE = 0,
  PD_FORMAT_KEY,    /* "key": what pd_key_check accepts, and no control characters */
  PD_FORMAT_PREFIX, /* "prefix": the beginning of a key, may be empty */
  PD_FORMAT_AGENT,  /* "agent": what pd_agent_check accepts */
  PD_FORMAT_NAME    /* "name": an id that perdure made: letters, digits, - _ . : */
} pd_field_format;

typedef struct pd_field {
  const char *name;
  pd_field_type type;
  pd_field_format format;
  bool is_required;
  int64_t min, max;           /* of an integer */
  size_t size_min, size_max;  /* of a string, bytes; of an array, items */
  const char *const *choices; /* of a string, ended by NULL; NULL: any */
  const char *otherwise;      /* JSON text of the default, NULL: none */
  const char *about;
} pd_field;

typedef struct pd_cap_error {
  const char *code, *about;
  const pd_recovery *recovery; /* ended by {NULL, NULL} */
} pd_cap_error;

typedef struct pd_frame pd_frame;
typedef pd_code (*pd_cap_run)(pd_frame *frame, pd_error *err);

typedef struct pd_capability {
  const char *name, *summary, *when_to_use, *version;
  pd_permission permission;
  bool needs_agent; /* false: the operator may call it without one */
  const pd_field *fields;
  size_t field_count;
  const pd_cap_error *errors; /* ended by {0} */
  const char *document;
  pd_handling handling;
  const pd_shorthand *shorthand; /* NULL: none */
} pd_capability;

/* A capability by the name that MCP has for it, with underscores. */
typedef struct pd_tool {
  const char *name;
  const pd_capability *capability;
} pd_tool;

extern const pd_capability pd_capabilities[]; /* by name */
extern const pd_tool pd_tools[];              /* by name; as many */
extern const size_t pd_capability_count;
extern const pd_cap_error pd_common_errors[]; /* of all capabilities; capabilities/common.json; ended by {0} */

/* Run frame->capability. The functions are known to the generated table alone. PD_DENIED if frame->grant is not for this call. */
PD_MUST_USE pd_code pd_capability_run(pd_frame *frame, pd_error *err);
/* NULL if there is none. */
const pd_capability *pd_capability_get(const char *name);
/* What the capability's file, or else common.json, says about an error; NULL if neither knows it. */
const pd_cap_error *pd_capability_error(const pd_capability *capability, const char *code);

#endif
