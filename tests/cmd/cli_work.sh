#!/bin/sh
# cli_work.sh PERDURE: `work` and `statestore`: what they print and how they exit.
. "$(dirname "$0")/tap.sh"

json_text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$out"; }

t cli__work_goes_from_create_to_complete
run work create 'look at disk 3' '{"disk":3}'
want_code 0
want_out_like '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
id=$(cat "$out")
run --json work claim --owner w1
want_code 0
token=$(json_text token)
want_out_has '"status":"investigating"'
run work complete "$id" wrong-token
want_failure 3 'under another token'
run --json work complete "$id" "$token" '{"found":0}'
want_code 0
want_out_has '"result":{"found":0}'
run work list
want_no_out
run work list completed
want_out_has "$id"

t cli__work_in_a_pipe_has_the_same_columns_always
run work create first '{"disk":3}'
run work list
want_out_like '	pending	first	\{"disk":3\}							'
want_true [ "$(awk -F '\t' '{ print NF }' "$out")" = 16 ]
run work create second
run work claim --owner w1
run work list
want_true [ "$(awk -F '\t' '{ print NF }' "$out" | sort -u)" = 16 ]
want_true [ "$(awk -F '\t' '$3 == "first" { print $5, $6 }' "$out")" = 'w1 1' ]
want_true [ "$(awk -F '\t' '$3 == "second" { print $5 $6 }' "$out")" = '' ]

t cli__work_claim_exits_1_when_nothing_waits
run work create a
run work claim
want_code 0
want_out_has 'token: '
run --json work claim
want_code 1
want_out_has '{"claimed":false,"resumed":0,"run":null}'
run --json work claim --resume
want_code 0
want_out_has '"resumed":1'

t cli__work_fails_is_cancelled_and_pruned
run work create a --run-id one
run work create b --run-id two
run work create c --run-id three
run work fail one --error '{"why":"no"}'
want_code 0
run work cancel two 'not wanted'
want_code 0
want_out_has 'reason: not wanted'
run work cancel one
want_failure 3 'is failed'
run --json work prune --keep 0 --dry-run
want_out_has '"pruned":2'
run --json work prune --keep 0
want_out_has '"pruned":2'
run --json work list all
want_out_has '"count":1'
run work get one
want_failure 1 "no work item 'one'"

t cli__work_of_a_killed_worker_is_offered_again
run work create a --run-id r
"$perdure" work claim --owner w1 >/dev/null 2>&1
run work claim r --owner w2
want_failure 3 "'w1'"
run work claim --owner w1 --resume
want_code 0
want_out_has 'attempts: 2'

t cli__statestore_is_the_agents_own_store_unless_told_otherwise
run work create a --run-id r
run statestore get run:index
want_line '["r"]'
run statestore set my-plugin:count '{ "n": 1 }'
want_code 0
want_no_out
run statestore set my-plugin:count 2
run statestore get my-plugin:count
want_line 2
run statestore get my-plugin:count --at state~1
want_line '{"n":1}'
run statestore get my-plugin:count --at nowhere
want_failure 1 nowhere
run statestore get absent
want_failure 1 "no key 'absent'"
run statestore has absent
want_code 1
run statestore has run:index
want_code 0

t cli__statestore_writes_the_file_of_the_seed
run statestore --path data/s.json set key1 value1
want_code 0
run statestore --path data/s.json set key2 '{"nested":true}'
want_true [ "$(head -n 1 data/s.json)" = '{"version":1,"entries":[["key1","value1"],["key2",{"nested":true}]]}' ]
run --json statestore --path data/s.json list key
want_line '{"entries":[{"key":"key1","value":"value1"},{"key":"key2","value":{"nested":true}}],"count":2}'
run statestore --path data/s.json delete key1
want_code 0
run statestore --path data/s.json delete key1
want_failure 1 "no key 'key1'"
run statestore --path data/s.json list
want_line "$(printf 'key2\t{"nested":true}')"

t cli__statestore_writes_the_table_of_the_seed
run statestore --database zup.db --table agent_state set a '[1]'
want_code 0
run statestore --config '{"enabled":true,"type":"database","config":{"database":"zup.db","tableName":"agent_state"}}' get a
want_line '[1]'
run --json statestore --database zup.db --table agent_state stats
want_out_has '"type":"database","where":"zup.db","table_name":"agent_state"'
want_out_has '"keys":1'
run statestore --database zup.db --table 'x;y' get a
want_failure 2 table_name

t cli__statestore_moves_no_file_that_it_cannot_use
echo '{"name":"my-precious-app"}' > package.json
cp package.json before.json
for verb in list 'get a' 'has a' stats 'set a 1' 'delete a'; do
  run statestore --path package.json $verb
  want_failure 4 package.json
  want_true cmp package.json before.json
done
want_true test -z "$(ls | grep corrupt)"

t cli__statestore_reports_a_file_that_was_damaged
run statestore --path sum.json set a 1
want_code 0
sed 's/\["a",1\]/["a",7]/' sum.json > damaged.json
run statestore --path damaged.json get a
want_failure 4 checksum
want_true test -e damaged.json

t cli__statestore_clear_asks_for_a_prefix_and_can_be_tried
for k in a:1 a:2 b:1; do "$perdure" statestore --path s.json set $k 1; done
run statestore --path s.json clear
want_failure 2 prefix
run --json statestore --path s.json clear a: --dry-run
want_line '{"would_delete":2}'
run --json statestore --path s.json clear a:
want_line '{"deleted":2}'
run statestore --path s.json list
want_line "$(printf 'b:1\t1')"
run --json statestore --path s.json clear --all
want_line '{"deleted":1}'

t cli__statestore_reading_makes_nothing
run statestore --path x/s.json list
want_code 0
want_true test ! -e x
run statestore --database z.db get a
want_failure 1 "no key 'a'"
want_true test ! -e z.db
run statestore get a
want_code 4
run put a 1
run statestore list
want_code 0
run refs
want_out_unlike '^state|[^a-z]state'

t cli__statestore_says_what_cannot_be_kept
run statestore --type memory set a 1
want_failure 2 memory
run statestore --config '{"type":"file"}' set a 1
want_failure 2 memory
run statestore --config '{"typ":"file"}' set a 1
want_failure 2 typ
run statestore --type disk get a
want_failure 2 disk
run statestore --database . set a 1
want_code 4
run statestore --path s.json set a
want_failure 2 'KEY and VALUE'
run statestore --path s.json nod
want_failure 2 nod

t cli__statestore_file_of_another_process_is_told
run statestore --path s.json set a 1
( exec 9>>s.json.lock; flock 9; "$perdure" statestore --path s.json set a 2 >"$out" 2>"$err"; echo $? >code )
code=$(cat code)
want_failure 3 's.json'
run statestore --path s.json get a
want_line 1

finish
