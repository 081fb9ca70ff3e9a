/*
 * policy.h: FOLDER/policy.toml: rules that tighten what capabilities permit, per capability, agent and key prefix.
 *
 *     [[rule]]
 *     capability = "state.shared.*"      # * and ? are wildcards
 *     agent = "intern-*"                 # all, if absent
 *     prefix = "billing/"                # any key, if absent
 *     permission = "approval"            # notify, approval, operator or blocked
 *     reason = "money is involved"       # told to whoever is stopped
 *     ttl = "10 min"                     # of the request for approval; approval.ttl, if absent
 *
 * R1  What is in force is the strictest of the capability's own permission and of all rules that fit: no rule loosens.
 * R2  A rule that could only loosen, that fits no capability, or whose prefix none of them has a key for, is refused with its line: it
 *     would not do what its author thinks.
 * R3  A file that is wrong stops a home from opening. Later, the rules from before stay in force, and `policy.list`, `system.health` and
 *     the server's log tell.
 * R4  A rule with a prefix fits a call whose key begins with it, and a call over a prefix of keys if both have keys in common.
 * R5  No rules are in force in a home that had some only if the file says `no_rules = true`. A file that is missing or has nothing in it
 *     is a wrong one then, also after a restart: FOLDER/policy.kept remembers that there were rules (decision 068).
 * R6  A file without some of the rules in force is taken when it was the same at two looks, a second apart: one that is being written is
 *     not.
 */
#ifndef PD_STATE_POLICY_H
#define PD_STATE_POLICY_H

#include "state/call.h"
#include "state/home.h"

#define PD_POLICY_FILE "policy.toml"
#define PD_POLICY_KEPT "policy.kept"
#define PD_POLICY_RULES_MAX 1000
#define PD_POLICY_REASON_MAX 200

/* What is in force for a call. */
typedef struct pd_verdict {
  pd_permission permission;
  uint64_t ttl_ms; /* of a request for approval; 0: never expires */
  unsigned line;   /* of the rule in the file; 0: the capability's own permission */
  char reason[PD_POLICY_REASON_MAX + 1];
} pd_verdict;

typedef struct pd_rule {
  char capability[129], agent[65], reason[PD_POLICY_REASON_MAX + 1]; /* agent "": any */
  pd_buf prefix;
  pd_permission permission;
  uint64_t ttl_ms;
  bool has_ttl;
  unsigned line;
  uint8_t *fits; /* one for each capability of the table */
} pd_rule;

typedef struct pd_rules {
  pd_rule *items;
  size_t count, capacity;
  bool is_none;   /* the file says that there are to be none */
  bool is_absent; /* there is no file */
} pd_rules;

void pd_rules_done(pd_rules *rules);
/* R2; fills `fits`. PD_INVALID: the message says what is wrong with the rule, but not where. */
PD_MUST_USE pd_code pd_rule_check(pd_rule *rule, pd_error *err);
/* policy_load.c: PD_INVALID names the file and the line. No file: no rules. */
PD_MUST_USE pd_code pd_rules_load(const char *path, pd_rules *out, pd_error *err);

/* What is in force for this call. */
void pd_policy_judge(const pd_frame *frame, pd_verdict *out);
/* For those who ask without calling: `key` NULL stands for any key. */
void pd_policy_ask(pd_home *home, const pd_capability *capability, pd_bytes agent, const pd_bytes *key, pd_verdict *out);
/* The same of a capability by its name, for whoever knows no call: authorise.c decides with it, and the audit tells it. About `key`, or the
 * keys that begin with it; with key.data NULL, the strictest that any key could meet. PD_PERMIT_BLOCKED if there is no such capability. */
pd_permission pd_policy_permission(pd_home *home, const char *agent, const char *capability, pd_bytes key);
/* The mildest that any key could meet. */
pd_permission pd_policy_at_best(pd_home *home, const char *agent, const char *capability);
/* Visit the rules in force. `problem`: what is wrong with the file since; "". Takes the policy's lock while it visits. */
void pd_policy_visit(pd_home *home, void (*visit)(void *ctx, const pd_rule *rule), void *ctx, char problem[PD_ERROR_MESSAGE_MAX]);

#endif
