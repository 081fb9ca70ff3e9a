#!/bin/sh
# cli_call.sh: call, capabilities, the shorthands, the server that keeps sessions, and calls in a batch.
. "$(dirname "$0")/tap.sh"

unset PERDURE_SESSION
export XDG_RUNTIME_DIR="$tmp/run" PERDURE_STORE="$tmp/home"
mkdir -m 700 "$XDG_RUNTIME_DIR"
no_server() { [ "$(servers)" = 0 ]; }
servers() { find "$XDG_RUNTIME_DIR" -name '*.sock' | wc -l; }

t capabilities__are_listed_with_their_permission
run capabilities
want_code 0
want_out_like '^state\.session\.get +autonomous '
want_out_like '^state\.shared\.set +notify '

t capabilities__one_is_explained_with_its_errors
run capabilities state.session.set
want_out_like 'QuotaExceeded'
want_out_like 'delete_unused: '
run --json capabilities state.session.set
want_out_like '^\{"name":"state.session.set"'

t capabilities__an_unknown_one_suggests_the_nearest
run capabilities state.sesion.get
want_code 1
want_err_like "did you mean 'state.session.get'"
run call state.sesion.get
want_code 2

t call__who_only_looks_does_not_make_a_home
for look in health 'persistent get k' 'shared list' 'call state.session.list'; do
  # shellcheck disable=SC2086 # the words of a command
  run --store nowhere $look
  want_failure 4 'there is no home at'
done
run --json --store nowhere persistent get k
want_code 4
want_err_like '"hint":"make one with: perdure init"'
want_true [ ! -e nowhere ]

t folders__a_path_is_relative_to_where_the_person_is
mkdir watched
run --store here folders watch watched
want_out_like "^path: $PWD/watched\$"
run --store here folders unwatch ./watched
want_code 0
run --store here folders list
want_no_out

t call__fields_words_json_and_standard_input_become_the_input
run call state.shared.set --key mode --value '"x"' --expected-version 0
want_line '{"version":1}'
run call state.shared.get '{"key":"mode"}'
want_out_like '^\{"value":"x","version":1,"found":true,"owner_agent":"main"'
echo '{ "key" : "mode" }' | "$perdure" call state.shared.get - >"$out"
want_out_like '^\{"value":"x"'
run shared get mode
want_line '"x"'
run shared set text 'no JSON' 0
run shared get text
want_line '"no JSON"'

t call__a_version_conflict_exits_3_and_names_both
run shared set mode 1 0
want_code 3
want_err_like 'is at version 1, expected 0'
run --json shared set mode 1 0
want_code 3
want_err_like '"code":"VersionConflict".*"actual":1.*"action":"retry"'

t call__history_goes_back_forks_and_merges
run --agent historian call history.commit --changes '[{"key":"plan","value":{"step":1}}]' --reason 'first plan'
want_out_like '^\{"ref":"main","commit":"[0-9a-f]{64}","changed":1,"durability":"synced"\}$'
run --agent historian persistent set plan '{"step":2}'
run --agent historian call history.get --key plan --at main~1
want_out_has '"value":{"step":1},"version":1'
run --agent historian call history.fork --name plan-b
run --agent historian call history.commit --ref fork/plan-b --changes '[{"key":"via","value":"Rome"}]'
cp -r "$PERDURE_STORE" "$tmp/copy-of-home"
run --store "$tmp/copy-of-home" --agent historian merge fork/plan-b
want_id
merged=$(cat "$out")
run --agent historian call history.merge --from fork/plan-b
want_out_has '{"outcome":"fast-forward","ref":"main","commit":"'"$merged"'"' # as the command does
run --agent historian call history.undo --count 2
want_out_has '"changed":2,"can_redo":true'
run --agent historian persistent get plan
want_line '{"step":1}'
run --agent historian call history.undo --count 2
want_code 1
want_err_like 'further than history'
run --agent other call history.log
want_line '{"commits":[],"count":0,"next_cursor":null}'

t call__agents_share_what_is_shared
run --agent other shared get mode
want_line '"x"'

t call__a_missing_key_exits_1_and_prints_nothing
run shared get nothing
want_code 1
want_no_out

t call__bad_input_exits_2_and_names_the_field
run --json call state.shared.set '{"key":"mode"}'
want_code 2
want_err_like '"code":"InvalidInput".*value'
run call state.shared.get --kex a
want_code 2
want_err_like 'it has: key'
run call state.shared.get '{"key":'
want_code 2
want_err_like 'no JSON'
run shared frob
want_code 2
want_err_like 'there are: delete get list set'
run call state.shared.get '{"key":"a"}' --key b
want_code 2

t call__version_with_a_value_is_the_field_and_without_one_the_flag
run persistent set doc 1
run persistent set doc 2
run call state.persistent.get --key doc --version 1
want_out_like '^\{"value":1,"version":1,'
run call state.persistent.get --version=1 --key doc
want_out_like '^\{"value":1,"version":1,'
run persistent get doc --version 1
want_line 1
run persistent get doc --version 9
want_failure 1 'no version 9'
run persistent --version
want_out_like '^perdure [0-9]'
run --version persistent get doc
want_out_like '^perdure [0-9]'

t queue__ids_to_acknowledge_are_plain_words
for body in one two three; do run queue send main "$body"; done
run queue receive
want_count 3
run queue ack m1 m2
want_line 'acknowledged: 2'
run queue ack '["m3"]'
want_line 'acknowledged: 1'
run queue ack --message-ids m3
want_line 'acknowledged: 0'
run queue ack
want_failure 2 'message_ids'
run queue count now
want_failure 2 "unexpected argument 'now'"

t alerts__acknowledging_is_the_operators_without_a_flag
run alerts send 'disk is filling' '92 % used' --severity warning
want_code 0
run alerts acknowledge "$(cat "$out")"
want_code 0
want_out_like '^acknowledged: true$'
run call alerts.acknowledge --alert-id x
want_code 6

t alerts__the_operator_sends_one_for_all_by_naming_no_agent
run alerts send 'maintenance' 'at noon' --severity info --operator
want_code 0
want_out_like '^alert:[^m]'
run --agent bob --json alerts list
want_out_like '"title":"maintenance"'
want_out_unlike '"agent":'
run --agent bob alerts send 'mine' 'own' --severity info --operator
want_out_like '^alert:bob:'

t briefing__asked_twice_it_gives_the_same_answer
run --agent carol persistent set seen 1
run --agent dave shared set news '{"a":1}' 0
run --agent carol briefing
want_out_like '^While you were away .*dave changed 1 shared key \(news\)'
run --agent carol --json briefing generate --detail-level detailed
want_out_like '"shared_changes":\{"count":1,.*"key":"news"'
run --agent carol briefing --detail-level detailed
want_out_like '^While you were away .*news'
want_out_like '^shared_changes:$'
want_out_like '^ +news +set +1 +dave '

t briefing__a_damaged_store_takes_away_its_own_section_alone
mkdir damaged
run --store damaged shared set k 1 0
run --store damaged --agent erin persistent set own 1
for file in damaged/shared.db damaged/shared.db-wal; do
  [ ! -e $file ] || dd if=/dev/zero of=$file bs=4096 count=3 conv=notrunc 2>/dev/null
done
run --store damaged --agent erin --json briefing
want_code 0
want_out_like '"shared_changes":\{"status":"failing","problem":"[^"]+"\}'
want_out_like '"unread_messages":\{"count":0'
want_out_like '"health":\{"status":"failing"'
want_out_like '"own_changes":\{"count":1'
want_out_like '"summary":"[^"]*shared_changes cannot be read'

t shared__get_says_the_version_that_set_needs
run shared set versioned 1 0
run shared get versioned
want_line 1
want_err_like '^version: 1$'
run --quiet shared get versioned
want_no_err
run shared get not-there
want_code 1
run shared set versioned 2 1
want_code 0

t call__a_field_named_like_a_global_option_reaches_the_capability
run shared set s '"old"' 0
run shared set s '"new"' 1
run call history.get --key s --at main~1 --store shared
want_code 0
want_out_like '"value":"old"'
run --store "$PERDURE_STORE" call history.get --key s --store shared
want_out_like '"value":"new"'
run call state.shared.get --key s --store nowhere
want_failure 4 'there is no home at sqlite:nowhere'

# The same failures with a server of the home and without one: the same object, once, and the same exit code.
failures() { # FOLDER
  mkdir -p "$tmp/$1"
  i=0
  while read -r want arguments; do
    i=$((i + 1))
    # shellcheck disable=SC2086 # the words of a command
    PERDURE_PERSISTENT_QUOTA=2000 run --json $arguments
    want_code "$want"
    want_no_out
    [ "$(wc -l <"$err")" = 1 ] || bad "not one line of error: $arguments"
    sed -E 's/apr-[0-9A-Za-z-]+/APR/g; s/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g' "$err" >"$tmp/$1/$i"
  done <<'CALLS'
1 persistent history nothing
1 persistent get doc 99
3 shared set mode 1 7
5 call state.persistent.set @big
6 backup create
1 session get x --session s-00000000000000000000000000000000
2 call state.shared.get {}
2 call state.shared.get {"key":
6 call approvals.approve --approval-id x
CALLS
}

t call__a_failure_is_told_alike_with_a_server_of_the_home_and_without
printf '{"key":"big","value":"%03000d"}' 7 >big
failures here
cp "$tmp/here/4" "$err"
want_err_like '"code":"QuotaExceeded".*"(used|limit)[a-z_]*":[0-9]+.*"(used|limit)[a-z_]*":[0-9]+'
cp "$tmp/here/3" "$err"
want_err_like '"code":"VersionConflict".*"expected":7,"actual":1'
held=$(PERDURE_PERSISTENT_QUOTA=2000 "$perdure" session begin)
want_true [ "$(servers)" = 1 ]
failures held
want_true diff -r "$tmp/here" "$tmp/held"
run session end "$held"
until_true no_server

t session__without_one_there_is_none
run session get draft
want_code 1
want_err_like 'hint: a new session: export PERDURE_SESSION='
want_true [ "$(servers)" = 0 ]

t session__state_is_there_for_the_next_command
run session begin
want_out_like '^s-[0-9a-f]+$'
PERDURE_SESSION=$(cat "$out")
export PERDURE_SESSION
want_true [ "$(servers)" = 1 ]
run session set draft '{"a":1}'
want_code 0
run session get draft
want_line '{"a":1}'
run session list
want_line draft

t session__touch_takes_the_session_of_the_environment
run session touch
want_out_like "^session_id: $PERDURE_SESSION\$"

t session__another_agent_does_not_get_in
run --agent other session get draft
want_code 1

t session__one_server_keeps_several
run session begin
second=$(cat "$out")
run session sessions
want_count 2
want_true [ "$(servers)" = 1 ]
run session end "$second"
want_code 0

t session__the_server_leaves_no_lines_in_the_audit_by_itself
want_true [ "$(servers)" = 1 ]
sleep 1 # what was done before is on disk
run audit -n 1000
before=$(grep -vc audit.list "$out")
sleep 3 # it looks each second whether it still holds something
run audit -n 1000
want_code 0
want_true [ "$(grep -vc audit.list "$out")" = "$before" ]

t session__after_the_end_there_is_nothing_and_the_server_leaves
run session end
want_code 0
want_out_like '^ended: true$'
run session get draft
want_code 1
want_err_like 'new session'
until_true no_server
want_true [ "$(servers)" = 0 ]
unset PERDURE_SESSION

t session__a_runtime_folder_that_others_may_write_is_refused
mkdir -p "$tmp/open/perdure" && chmod 777 "$tmp/open/perdure"
XDG_RUNTIME_DIR="$tmp/open" run session begin
want_code 4
want_err_like 'yours alone'

t batch__calls_are_answered_in_order_and_the_stream_goes_on
printf '%s\n' '{"op":"call","id":7,"capability":"session.begin","input":{}}' \
  '{"op":"call","capability":"state.shared.set","input":{"key":"b","value":[1],"expected_version":0}}' \
  '{"op":"call","capability":"state.shared.set","input":{"key":"b","value":[2],"expected_version":0}}' \
  '{"op":"call","capability":"state.shared.get"}' '{"op":"call"}' '{"op":"call","capability":"state.shared.get","input":{"key":"b"},"key":"x"}' \
  '{"op":"get","key":"none"}' | "$perdure" batch >"$out"
code=$?
want_code 3
line() { sed -n "$1p" "$out" | grep -Eq -- "$2" || bad "line $1 is not like $2: $(sed -n "$1p" "$out")"; }
line 1 '"id":7,"ok":true,"output":\{"session_id"'
line 2 '"ok":true,"output":\{"version":1\}'
line 3 '"ok":false,"error":\{"code":"VersionConflict"'
line 4 '"code":"InvalidInput"'
line 5 'capability'
line 6 'does not belong'
line 7 '"found":false'

finish
