#!/bin/sh
# cli_audit.sh PERDURE: the audit on the command line.
. "$(dirname "$0")/tap.sh"

t cli__audit_lists_calls_of_all_agents_newest_first
run init
run call state.shared.get --key first
run --agent helper call state.shared.get --key second
run call no.such.capability '{}'
run audit
want_code 0
want_true [ "$(sed -n 1p "$out" | grep -c second)" = 1 ]
want_out_like '^20[0-9-]*T[0-9:.]*Z helper +state.shared.get +ok +second$'
want_out_like '^20[0-9-]*T[0-9:.]*Z main +state.shared.get +ok +first$'
run audit --agent main
want_out_has first
want_out_unlike second
run audit -c 'audit.*'
want_count 2
run audit -n 1
want_count 1
run audit --since 2999-01-01
want_no_out
run audit --json -n 2
want_code 0
want_out_like '^\{"lines":\[\{"seq":.*"has_more":true\}$'

t cli__audit_verify_prints_an_anchor_that_holds
run init
run call state.shared.get --key a
run audit --verify
want_code 0
want_out_like '^ok$'
anchor=$(sed -n 's/^anchor *//p' "$out")
run call state.shared.get --key b
run audit --verify --anchor "$anchor"
want_code 0
run audit --verify --anchor "1:$(printf %064d 0)" --json
want_code 4
want_out_has '"valid":false'
want_out_has 'line 1 is not the one of the anchor'

t cli__audit_verify_finds_what_was_changed_in_the_database
run init
run call state.shared.get --key innocent-looking
run call state.shared.get --key other
run audit --verify
want_code 0
cp .perdure/system.db kept
sed -i 's/innocent-looking/innocent-lookinG/g' .perdure/system.db
want_true sh -c '! cmp -s kept .perdure/system.db'
want_true [ "$(wc -c <kept)" = "$(wc -c <.perdure/system.db)" ]
run audit --verify
want_code 4

t cli__audit_verify_finds_what_was_changed_through_perdure
run init
run call state.shared.get --key innocent-looking
run --agent system get batch/00000000000000000001 --at audit
sed 's/innocent-looking/innocent-lookinG/' "$out" >changed
run --agent system put batch/00000000000000000001 @changed --ref audit
want_code 0
run audit --verify
want_code 4
want_out_like '^changed: batch/00000000000000000001: line 1 does not fit the chain$'
want_out_like 'not as it was written'

t cli__audit_feed_is_what_the_operator_should_know
run init
run call state.shared.get --key quiet
run call state.shared.set '{"key":"loud","value":1,"expected_version":0}'
run audit --feed
want_code 0
want_count 1
want_out_like 'state.shared.set +ok +loud$'

t cli__audit_mistakes_are_told
run audit
want_code 4
want_err_like 'no home'
run init
run audit --since yesterday-ish
want_failure 2 "'since' is no time"
run audit --verify --feed
want_failure 2 'looks at everything'
run audit --feed --agent main
want_failure 2 'since and -n only'
run audit --anchor 1:2
want_failure 2 'goes with --verify'
run audit -n 0
want_code 2

finish
