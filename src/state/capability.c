/* capability.c: finding capabilities in the generated table. */
#include "state/capability.h"

#include "base/base.h"
#include "base/distance.h"
#include "base/error.h"

#include <stdlib.h>

static int compare_name(const void *name, const void *capability)
{
  return strcmp(name, ((const pd_capability *)capability)->name);
}

const pd_capability *pd_capability_get(const char *name)
{
  return bsearch(name, pd_capabilities, pd_capability_count, sizeof pd_capabilities[0], compare_name);
}

static const pd_cap_error *find_error(const pd_cap_error *errors, const char *code)
{
  for (; errors->code; errors++)
    if (strcmp(errors->code, code) == 0) return errors;
  return NULL;
}

const pd_cap_error *pd_capability_error(const pd_capability *capability, const char *code)
{
  const pd_cap_error *found = capability ? find_error(capability->errors, code) : NULL;
  return found ? found : find_error(pd_common_errors, code);
}

/* How unlike `name` is: slips of the pen, and a beginning that was left out (session.get for state.session.get). */
static unsigned unlikeness(const char *name, const char *known)
{
  size_t size = strlen(name), known_size = strlen(known);
  if (size && known_size > size && known[known_size - size - 1] == '.' && strcmp(known + known_size - size, name) == 0) return 1;
  return pd_text_distance(name, known);
}

static pd_capability_info info_of(const pd_capability *c)
{
  return (pd_capability_info){c->name, c->summary, c->version, c->permission, c->document, &c->handling, c->shorthand};
}

pd_code pd_capability_find(const char *name, pd_capability_info *out, pd_error *err)
{
  const pd_capability *found = pd_capability_get(name);
  if (found) {
    *out = info_of(found);
    return PD_OK;
  }
  size_t best = 0;
  unsigned best_distance = (unsigned)strlen(name) / 4 + 2; /* more than so many slips are another name */
  bool is_near = false;
  for (size_t i = 0; i < pd_capability_count; i++) {
    unsigned distance = unlikeness(name, pd_capabilities[i].name);
    if (distance < best_distance) best = i, best_distance = distance, is_near = true;
  }
  if (!is_near) return pd_error_named(err, PD_NOT_FOUND, "UnknownCapability", "there is no capability '%.128s'", name);
  return pd_error_named(err, PD_NOT_FOUND, "UnknownCapability", "there is no capability '%.128s'; did you mean '%s'?", name,
                        pd_capabilities[best].name);
}

static int compare_tool(const void *name, const void *tool)
{
  return strcmp(name, ((const pd_tool *)tool)->name);
}

bool pd_capability_find_tool(const char *name, pd_capability_info *out)
{
  const pd_capability *found = pd_capability_get(name);
  const pd_tool *tool = found ? NULL : bsearch(name, pd_tools, pd_capability_count, sizeof pd_tools[0], compare_tool);
  if (tool) found = tool->capability;
  if (found) *out = info_of(found);
  return found != NULL;
}

pd_code pd_capability_at(size_t index, pd_capability_info *out, pd_error *err)
{
  if (index >= pd_capability_count) return PD_NOT_FOUND;
  (void)err;
  *out = info_of(&pd_capabilities[index]);
  return PD_OK;
}

const char *pd_permission_name(pd_permission permission)
{
  static const char *const names[] = {"autonomous", "notify", "approval", "operator", "blocked"};
  return (unsigned)permission < COUNT_OF(names) ? names[permission] : "blocked";
}
