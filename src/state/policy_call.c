/* policy_call.c: `policy.list` and `policy.check`. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/policy.h"
#include "state/run.h"

#include <stdio.h>

static void rule_json(void *ctx, const pd_rule *rule)
{
  pd_json_writer *w = ctx;
  pd_json_open(w, '{');
  pd_json_put_number(w, "line", rule->line);
  pd_json_put_text(w, "capability", rule->capability);
  if (*rule->agent) pd_json_put_text(w, "agent", rule->agent);
  if (rule->prefix.size) pd_json_put_bytes(w, "prefix", pd_buf_bytes(&rule->prefix));
  pd_json_put_text(w, "permission", pd_permission_name(rule->permission));
  if (*rule->reason) pd_json_put_text(w, "reason", rule->reason);
  if (rule->has_ttl) pd_json_put_number(w, "ttl_ms", rule->ttl_ms);
  pd_json_close(w, '}');
}

pd_code pd_cap_policy_list(pd_frame *frame, pd_error *err)
{
  (void)err;
  char problem[PD_ERROR_MESSAGE_MAX];
  pd_json_key(&frame->out, "rules");
  pd_json_open(&frame->out, '[');
  pd_policy_visit(frame->home, rule_json, &frame->out, problem);
  pd_json_close(&frame->out, ']');
  pd_json_key(&frame->out, "problem");
  if (*problem)
    pd_json_text(&frame->out, pd_text(problem));
  else
    pd_json_null(&frame->out);
  return frame->out.code;
}

static const char *what_happens(pd_permission permission)
{
  static const char *const texts[] = {
    [PD_PERMIT_AUTONOMOUS] = "it runs",
    [PD_PERMIT_NOTIFY] = "it runs, and the operator's feed tells",
    [PD_PERMIT_APPROVAL] = "it waits for the operator's approval, and then runs once",
    [PD_PERMIT_OPERATOR] = "only the operator may call it",
    [PD_PERMIT_BLOCKED] = "nobody may call it",
  };
  return texts[permission];
}

pd_code pd_cap_policy_check(pd_frame *frame, pd_error *err)
{
  char name[129] = "";
  pd_capability_info info;
  pd_verdict verdict;
  pd_bytes key = pd_in_text(frame, "key");
  if (!pd_in_string(frame, "capability", name, sizeof name)) name[0] = 0;
  TRY(pd_capability_find(name, &info, err));
  pd_policy_ask(frame->home, pd_capability_get(name), pd_in_text(frame, "agent"), key.data ? &key : NULL, &verdict);
  pd_json_put_text(&frame->out, "permission", pd_permission_name(verdict.permission));
  pd_json_put_text(&frame->out, "own_permission", pd_permission_name(info.permission));
  pd_json_put_text(&frame->out, "effect", what_happens(verdict.permission));
  pd_json_key(&frame->out, "rule_line");
  if (verdict.line)
    pd_json_number(&frame->out, verdict.line);
  else
    pd_json_null(&frame->out);
  pd_json_key(&frame->out, "reason");
  if (*verdict.reason)
    pd_json_text(&frame->out, pd_text(verdict.reason));
  else
    pd_json_null(&frame->out);
  return frame->out.code;
}
