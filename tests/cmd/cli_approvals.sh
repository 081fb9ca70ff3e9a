#!/bin/sh
# cli_approvals.sh PERDURE: approvals and policy, as the operator meets them.
. "$(dirname "$0")/tap.sh"

policy() { printf '%s\n' "$@" >.perdure/policy.toml; }
# a home where sending messages needs approval
home() {
  run init
  policy '[[rule]]' 'capability = "queue.send"' 'permission = "approval"' 'reason = "mail is checked"'
}
send() { run call queue.send '{"to":"other","body":"'"${1:-hello}"'"}'; }
id_of() { sed -n 's/.*\(apr-[0-9A-Za-z-]*\).*/\1/p' "$1" | head -n 1; }

t cli__approvals_a_call_runs_once_after_it_was_approved
home
send
want_code 6
want_err_like 'needs approval'
id=$(id_of "$err")
run approvals
want_code 0
want_out_like "^$id +pending +main +queue.send"
run approvals show "$id"
want_code 0
want_out_like '^capability +queue.send$'
want_out_like '^input +\{"to":"other","body":"hello"\}$'
want_out_like '^policy +mail is checked$'
run approvals approve "$id" --reason 'fine with me'
want_code 0
want_out_like "^$id +approved"
run approvals show "$id"
want_out_like '^reason +fine with me$'
want_out_like "^decided_by +$(id -un)\$"
send
want_code 0
send
want_code 6
want_true [ "$(id_of "$err")" != "$id" ]
run approvals list --status approved --json
want_code 0
want_out_has '"used_at":'
want_out_has "\"approval_id\":\"$id\",\"id\":\"$id\""

t cli__approvals_other_inputs_need_another
home
send
run approvals approve "$(id_of "$err")"
send bye
want_code 6
run --agent another call queue.send '{"to":"other","body":"hello"}'
want_code 6
send
want_code 0

t cli__approvals_denied_says_why_and_deciding_twice_is_a_conflict
home
send
id=$(id_of "$err")
run approvals deny "$id" --reason 'not on a Friday' --by anna --json
want_code 0
want_out_has '"decided_by":"anna"'
run approvals approve "$id"
want_failure 3 'is denied since'
run approvals approve "$id" --json
want_code 3
want_err_like '"code":"AlreadyDecided"'
run call queue.send '{"to":"other","body":"hello"}' --json
want_true [ "$code" != 0 ]
want_err_like '"code":"ApprovalDenied".*not on a Friday'
run queue receive --json
want_out_like '"kind":"approval".*"status":"denied"'

t cli__approvals_mistakes_are_told
run approvals
want_code 4
want_err_like 'no home'
home
run approvals
want_code 0
want_no_out
want_err_like 'nothing waits'
run approvals approve
want_failure 2 'which one'
run approvals approve apr-none
want_failure 1 "no approval 'apr-none'"
run approvals frobnicate
want_failure 2 'list, show, approve, deny'
run approvals list extra
want_failure 2 extra
run approvals list --reason x
want_failure 2 'go with approve and deny'
run approvals list --status nonsense
want_failure 2 'must be one of'
run approvals show ../x
want_failure 2 'is no id'

t cli__policy_shows_rules_and_says_what_they_would_do
run init
run policy
want_code 0
want_no_out
want_err_like 'no rules'
policy '# hands off' '[[rule]]' 'capability = "state.shared.*"' 'agent = "intern-*"' 'prefix = "billing/"' 'permission = "blocked"' 'reason = "money"'
run policy
want_out_like '^line 2 +blocked +state.shared.\* +intern-\* +billing/ +money$'
run policy --json
want_out_has '"permission":"blocked"'
run policy check intern-7 state.shared.get billing/rates
want_out_like '^blocked: nobody may call it$'
want_out_like 'line 2 of policy.toml; reason: money; by itself it is autonomous'
run policy check intern-7 state.shared.get other
want_out_like '^autonomous: it runs$'
run policy check main state.shared.get billing/rates --json
want_out_has '"permission":"autonomous"'
run policy check main state.nothing
want_code 1
run policy chekc
want_failure 2 'check AGENT CAPABILITY'
run --agent intern-7 call state.shared.get --key billing/rates
want_true [ "$code" != 0 ]
want_err_like 'blocked by policy: money'

t cli__policy_that_is_wrong_stops_everything_with_its_line
run init
policy '[[rule]]' 'capability = "audit.verify"' 'permission = "notify"'
run policy
want_failure 2 'policy.toml:1: .notify. would loosen audit.verify'
run call state.shared.get --key a
want_failure 2 'policy.toml:1'
policy '[[rule]]' 'capability = "*"' 'permission = "notify"' 'colour = "red"'
run policy
want_failure 2 "policy.toml:4: there is no 'colour'"

finish
