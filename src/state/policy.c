/* policy.c: the rules in force, and what they say about a call. Invariants R1 to R4 are in policy.h. */
#include "state/policy.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/glob.h"
#include "state/tiers.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MS 1000 /* the file is looked at this often, at most */

/* Which file, as far as can be told without reading it; all zero: none. */
typedef struct stamp {
  struct timespec time;
  off_t size;
  ino_t file;
} stamp;

struct pd_policy {
  pd_home *home;
  char *path, *kept;     /* NULL: the home has no folder */
  pthread_rwlock_t lock; /* of the rules, the problem and the stamp */
  pd_rules rules;
  char problem[PD_ERROR_MESSAGE_MAX];
  stamp seen, awaited; /* of the file that was judged last; of one that is looked at once more before it is taken (R6) */
  atomic_bool has_rules;
  atomic_ullong epoch;
  atomic_llong looked_ms;
};

/* ---- rules ---- */

void pd_rules_done(pd_rules *rules)
{
  for (size_t i = 0; i < rules->count; i++) {
    pd_buf_done(&rules->items[i].prefix);
    free(rules->items[i].fits);
  }
  free(rules->items);
  *rules = (pd_rules){0};
}

static bool has_keys(const pd_capability *capability)
{
  for (size_t i = 0; i < capability->field_count; i++)
    if (strcmp(capability->fields[i].name, "key") == 0 || strcmp(capability->fields[i].name, "prefix") == 0) return true;
  return false;
}

pd_code pd_rule_check(pd_rule *rule, pd_error *err)
{
  const pd_capability *looser = NULL;
  size_t fitting = 0, tighter = 0, keyed = 0;
  rule->fits = calloc(pd_capability_count, 1);
  if (!rule->fits) return pd_error_memory(err, "a policy");
  for (size_t i = 0; i < pd_capability_count; i++) {
    const pd_capability *c = &pd_capabilities[i];
    if (!pd_glob_match(pd_text(rule->capability), pd_text(c->name))) continue;
    rule->fits[i] = 1;
    fitting++;
    keyed += has_keys(c);
    tighter += rule->permission > c->permission;
    if (rule->permission < c->permission) looser = c;
  }
  if (!fitting) return pd_error_set(err, PD_INVALID, "no capability fits '%s'", rule->capability);
  if (looser && !tighter)
    return pd_error_set(err, PD_INVALID, "'%s' would loosen %s, which is %s; a policy may only tighten",
                        pd_permission_name(rule->permission), looser->name, pd_permission_name(looser->permission));
  if (rule->prefix.size && !keyed) return pd_error_set(err, PD_INVALID, "'%s' has no keys, so a prefix never fits", rule->capability);
  return PD_OK;
}

/* ---- judging ---- */

/* What a call is about; NULL: it has no such input. */
typedef struct subject {
  const pd_bytes *key, *prefix;
} subject;

/* R4. */
static bool fits_subject(const pd_rule *rule, const subject *about)
{
  pd_bytes own = pd_buf_bytes(&rule->prefix);
  if (!own.size) return true;
  if (about->key && pd_bytes_starts(*about->key, own)) return true;
  return about->prefix && (pd_bytes_starts(*about->prefix, own) || pd_bytes_starts(own, *about->prefix));
}

/* Under the lock. */
static void judge(const pd_policy *policy, const pd_capability *capability, pd_bytes agent, const subject *about, pd_verdict *out)
{
  size_t index = (size_t)(capability - pd_capabilities);
  for (size_t i = 0; i < policy->rules.count; i++) {
    const pd_rule *rule = &policy->rules.items[i];
    if (!rule->fits[index] || rule->permission <= out->permission) continue;
    if (*rule->agent && !pd_glob_match(pd_text(rule->agent), agent)) continue;
    if (!fits_subject(rule, about)) continue;
    out->permission = rule->permission;
    out->line = rule->line;
    out->ttl_ms = rule->has_ttl ? rule->ttl_ms : policy->home->config.approval_ttl_ms;
    memcpy(out->reason, rule->reason, sizeof out->reason);
  }
}

static void begin_verdict(const pd_home *home, const pd_capability *capability, pd_verdict *out)
{
  out->permission = capability->permission;
  out->ttl_ms = home->config.approval_ttl_ms;
  out->line = 0;
  out->reason[0] = 0;
}

/* ---- the file ---- */

static stamp stamp_of(const char *path)
{
  struct stat is;
  return stat(path, &is) ? (stamp){0} : (stamp){is.st_mtim, is.st_size, is.st_ino};
}

static bool is_same_stamp(const stamp *a, const stamp *b)
{
  return a->size == b->size && a->file == b->file && a->time.tv_sec == b->time.tv_sec && a->time.tv_nsec == b->time.tv_nsec;
}

static bool is_same_rule(const pd_rule *a, const pd_rule *b)
{
  return a->permission == b->permission && a->has_ttl == b->has_ttl && a->ttl_ms == b->ttl_ms &&
         strcmp(a->capability, b->capability) == 0 && strcmp(a->agent, b->agent) == 0 &&
         pd_bytes_equal(pd_buf_bytes(&a->prefix), pd_buf_bytes(&b->prefix));
}

/* Does `after` lack a rule that `before` has? */
static bool lacks_some(const pd_rules *after, const pd_rules *before)
{
  for (size_t i = 0; i < before->count; i++) {
    size_t k = 0;
    while (k < after->count && !is_same_rule(&before->items[i], &after->items[k])) k++;
    if (k == after->count) return true;
  }
  return false;
}

/* R5: PD_INVALID if there is nothing in the file though there were rules. */
static pd_code check_none(const char *path, const pd_rules *rules, bool had_rules, pd_error *err)
{
  if (rules->count || rules->is_none || !had_rules) return PD_OK;
  return pd_error_set(err, PD_INVALID,
                      "%s %s, and this home had rules: put it back; if there are to be none any more, write `no_rules = true` into it",
                      path, rules->is_absent ? "is missing" : "has no rules in it");
}

/* R5. A folder that cannot be written to forgets it, and nothing else. */
static void remember(const pd_policy *policy)
{
  if (policy->rules.is_none) (void)!unlink(policy->kept);
  if (policy->rules.count && access(policy->kept, F_OK) != 0)
    (void)!pd_file_write(policy->kept,
                         pd_text("This home had rules in policy.toml; without them it does not open, unless that says no_rules = true\n"),
                         true, NULL);
}

/* Under the lock: what the file says takes the place of the rules in force, if it is to be trusted; `rules` are then those that go. */
static pd_code take_rules(pd_policy *policy, const stamp *is, bool must, pd_rules *rules, pd_error *err)
{
  bool had_rules = policy->rules.count || (policy->kept && access(policy->kept, F_OK) == 0);
  TRY(check_none(policy->path, rules, had_rules, err));
  if (!must && lacks_some(rules, &policy->rules) && !is_same_stamp(is, &policy->awaited)) { /* R6 */
    policy->awaited = *is;
    return pd_error_set(err, PD_CONFLICT, "%s lacks rules that are in force; it is taken if it does not change within a second",
                        policy->path);
  }
  pd_rules before = policy->rules;
  policy->rules = *rules;
  *rules = before;
  atomic_store(&policy->has_rules, policy->rules.count > 0);
  atomic_fetch_add(&policy->epoch, 1);
  remember(policy);
  return PD_OK;
}

/* Read the file, if it is another one than the last time, or `must`. The lock is taken for writing. */
static pd_code reload(pd_policy *policy, bool must, pd_error *err)
{
  pd_rules rules = {0};
  pd_error why = {0};
  if (!policy->path) return PD_OK;
  pthread_rwlock_wrlock(&policy->lock);
  stamp is = stamp_of(policy->path);
  pd_code code = PD_OK;
  if (must || !is_same_stamp(&is, &policy->seen)) {
    code = pd_rules_load(policy->path, &rules, &why);
    bool is_whole = code == PD_OK;
    if (is_whole) code = take_rules(policy, &is, must, &rules, &why);
    bool is_awaited = code && is_whole && is_same_stamp(&is, &policy->awaited) && !must;
    if (!is_awaited) policy->seen = is;
    snprintf(policy->problem, sizeof policy->problem, "%s", code ? why.message : "");
  }
  pthread_rwlock_unlock(&policy->lock);
  pd_rules_done(&rules);
  if (code && err) *err = why;
  return code;
}

/* Once a second somebody who calls anyway has a look. */
static void look(pd_policy *policy, int64_t now_ms)
{
  long long before = atomic_load_explicit(&policy->looked_ms, memory_order_relaxed);
  if (now_ms - before < LOOK_MS && now_ms >= before) return;
  if (!atomic_compare_exchange_strong(&policy->looked_ms, &before, now_ms)) return;
  if (reload(policy, false, NULL)) return; /* R3: `problem` tells */
}

/* ---- the front ---- */

void pd_policy_judge(const pd_frame *frame, pd_verdict *out)
{
  pd_policy *policy = frame->home->policy;
  begin_verdict(frame->home, frame->capability, out);
  if (policy->path) look(policy, frame->now_ms);
  if (!atomic_load_explicit(&policy->has_rules, memory_order_relaxed)) return;
  static const pd_bytes any = {"", 0};
  subject about = {0};
  for (size_t i = 0; i < frame->capability->field_count; i++) {
    const char *name = frame->capability->fields[i].name;
    bool is_given = frame->input->fields[i].kind == PD_JSON_STRING;
    if (strcmp(name, "key") == 0 && is_given) about.key = &frame->input->texts[i];
    if (strcmp(name, "prefix") == 0) about.prefix = is_given ? &frame->input->texts[i] : &any;
  }
  pthread_rwlock_rdlock(&policy->lock);
  judge(policy, frame->capability, pd_text(frame->agent), &about, out);
  pthread_rwlock_unlock(&policy->lock);
}

void pd_policy_ask(pd_home *home, const pd_capability *capability, pd_bytes agent, const pd_bytes *key, pd_verdict *out)
{
  static const pd_bytes any = {"", 0};
  subject about = {.key = key, .prefix = key ? key : &any};
  begin_verdict(home, capability, out);
  pthread_rwlock_rdlock(&home->policy->lock);
  judge(home->policy, capability, agent, &about, out);
  pthread_rwlock_unlock(&home->policy->lock);
}

pd_permission pd_policy_permission(pd_home *home, const char *agent, const char *capability, pd_bytes key)
{
  const pd_capability *found = pd_capability_get(capability);
  pd_verdict verdict;
  if (!found) return PD_PERMIT_BLOCKED;
  if (home->policy->path) look(home->policy, pd_home_now(home));
  pd_policy_ask(home, found, pd_text(agent), key.data ? &key : NULL, &verdict);
  return verdict.permission;
}

pd_permission pd_policy_at_best(pd_home *home, const char *agent, const char *capability)
{
  const pd_capability *found = pd_capability_get(capability);
  subject none = {0};
  pd_verdict verdict;
  if (!found) return PD_PERMIT_BLOCKED;
  if (home->policy->path) look(home->policy, pd_home_now(home));
  begin_verdict(home, found, &verdict);
  if (!atomic_load_explicit(&home->policy->has_rules, memory_order_relaxed)) return verdict.permission;
  pthread_rwlock_rdlock(&home->policy->lock);
  judge(home->policy, found, pd_text(agent), &none, &verdict);
  pthread_rwlock_unlock(&home->policy->lock);
  return verdict.permission;
}

void pd_policy_visit(pd_home *home, void (*visit)(void *ctx, const pd_rule *rule), void *ctx, char problem[PD_ERROR_MESSAGE_MAX])
{
  pd_policy *policy = home->policy;
  pthread_rwlock_rdlock(&policy->lock);
  for (size_t i = 0; i < policy->rules.count; i++) visit(ctx, &policy->rules.items[i]);
  memcpy(problem, policy->problem, sizeof policy->problem);
  pthread_rwlock_unlock(&policy->lock);
}

uint64_t pd_policy_epoch(const pd_home *home)
{
  return atomic_load(&home->policy->epoch);
}

void pd_policy_look(pd_home *home, char problem[PD_ERROR_MESSAGE_MAX])
{
  pd_policy *policy = home->policy;
  if (policy->path) look(policy, pd_home_now(home));
  pthread_rwlock_rdlock(&policy->lock);
  memcpy(problem, policy->problem, sizeof policy->problem);
  pthread_rwlock_unlock(&policy->lock);
}

pd_code pd_policy_check(const char *folder, pd_error *err)
{
  char path[PATH_MAX], kept[PATH_MAX];
  pd_rules rules = {0};
  snprintf(path, sizeof path, "%s/" PD_POLICY_FILE, folder);
  snprintf(kept, sizeof kept, "%s/" PD_POLICY_KEPT, folder);
  pd_code code = pd_rules_load(path, &rules, err);
  if (!code) code = check_none(path, &rules, access(kept, F_OK) == 0, err);
  pd_rules_done(&rules);
  return code;
}

pd_code pd_home_reload(pd_home *home, pd_error *err)
{
  return reload(home->policy, true, err);
}

pd_code pd_policy_new(pd_home *home, pd_policy **out, pd_error *err)
{
  pd_policy *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a policy");
  made->home = home;
  pthread_rwlock_init(&made->lock, NULL);
  atomic_store(&made->looked_ms, pd_home_now(home));
  pd_code code = PD_OK;
  if (home->folder && asprintf(&made->path, "%s/" PD_POLICY_FILE, home->folder) < 0) made->path = NULL;
  if (home->folder && asprintf(&made->kept, "%s/" PD_POLICY_KEPT, home->folder) < 0) made->kept = NULL;
  if (home->folder && (!made->path || !made->kept)) code = pd_error_memory(err, "a policy");
  if (code == PD_OK) code = reload(made, true, err);
  if (code) {
    pd_policy_free(made);
    return code;
  }
  *out = made;
  return PD_OK;
}

void pd_policy_free(pd_policy *policy)
{
  if (!policy) return;
  pd_rules_done(&policy->rules);
  pthread_rwlock_destroy(&policy->lock);
  free(policy->path);
  free(policy->kept);
  free(policy);
}
