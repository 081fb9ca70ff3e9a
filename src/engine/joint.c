/* joint.c: joint commits (joint.h) by backends that have them; and the backend of a store that takes part in one. */
#include <perdure/joint.h>

#include "base/base.h"
#include "base/error.h"
#include "engine/store.h"

#include <stdlib.h>

struct pd_joint {
  const pd_backend_ops *ops;
  char *uri;
  void *inner;
};

static void free_joint(pd_joint *joint)
{
  free(joint->uri);
  free(joint);
}

pd_code pd_joint_begin(const char *uri, const char *const *stores, size_t count, const char *purpose, pd_joint **out, pd_error *err)
{
  const pd_backend_ops *ops;
  const char *rest;
  TRY(pd_backend_find(uri, &ops, &rest, err));
  char place[PD_PLACE_SIZE];
  for (size_t i = 0; i < count; i++)
    if (pd_store_placed(uri, stores[i], place, NULL) == PD_OK)
      return pd_error_set(err, PD_INVALID, "the store of '%s' is in %.300s, not in this home: it is restored where it is", stores[i],
                          place);
  if (!ops->joint_begin) return pd_error_set(err, PD_UNSUPPORTED, "stores of '%s:' cannot be changed together", ops->scheme);
  pd_joint *joint = calloc(1, sizeof *joint);
  if (!joint) return pd_error_memory(err, "a joint commit");
  joint->ops = ops;
  joint->uri = strdup(uri);
  pd_code code = joint->uri ? ops->joint_begin(rest, stores, count, purpose, &joint->inner, err) : pd_error_memory(err, "a joint commit");
  if (code)
    free_joint(joint);
  else
    *out = joint;
  return code;
}

pd_code pd_joint_backend(pd_joint *joint, const char *uri, const char *agent, unsigned flags, pd_backend **out, pd_error *err)
{
  if (strcmp(uri, joint->uri) != 0) return pd_error_set(err, PD_INVALID, "the joint commit is of %.200s, not of %.200s", joint->uri, uri);
  return joint->ops->joint_open(joint->inner, agent, flags, out, err);
}

pd_code pd_joint_commit(pd_joint *joint, pd_error *err)
{
  pd_code code = joint->ops->joint_commit(joint->inner, err);
  free_joint(joint);
  return code;
}

void pd_joint_abort(pd_joint *joint)
{
  if (!joint) return;
  joint->ops->joint_abort(joint->inner);
  free_joint(joint);
}
