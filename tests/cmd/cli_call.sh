#!/bin/sh
# cli_call.sh: call, capabilities, the shorthands, the holder of sessions, and calls in a batch.
. "$(dirname "$0")/tap.sh"

export XDG_RUNTIME_DIR="$tmp/run" PERDURE_STORE="$tmp/home"
mkdir -m 700 "$XDG_RUNTIME_DIR"
holders() { find "$XDG_RUNTIME_DIR" -name '*.sock' | wc -l; }

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

t call__a_field_may_be_called_version
run call state.persistent.set --key aged --value 1
run call state.persistent.set --key aged --value 2
run call state.persistent.get --key aged --version 1
want_out_like '^\{"value":1,"version":1,"found":true'
run persistent get aged --version=1
want_line 1
run call --version
want_code 2

t call__a_version_conflict_exits_3_and_names_both
run shared set mode 1 0
want_code 3
want_err_like 'is at version 1, expected 0'
run --json shared set mode 1 0
want_code 3
want_err_like '"code":"VersionConflict".*"actual":1.*"action":"retry"'

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
want_err_like 'there are: get set'
run call state.shared.get '{"key":"a"}' --key b
want_code 2

t session__without_one_there_is_none
run session get draft
want_code 1
want_true [ "$(holders)" = 0 ]

t session__state_is_there_for_the_next_command
run session begin
want_out_like '^s-[0-9a-f]+$'
PERDURE_SESSION=$(cat "$out")
export PERDURE_SESSION
want_true [ "$(holders)" = 1 ]
run session set draft '{"a":1}'
want_code 0
run session get draft
want_line '{"a":1}'
run session list
want_line draft

t session__another_agent_does_not_get_in
run --agent other session get draft
want_code 1

t session__one_holder_keeps_several
run session begin
second=$(cat "$out")
run session sessions
want_count 2
want_true [ "$(holders)" = 1 ]
run session end "$second"
want_code 0

t session__after_the_end_there_is_nothing_and_the_holder_leaves
run session end "$PERDURE_SESSION"
want_code 0
run session get draft
want_code 1
want_err_like 'new session'
for _ in $(seq 200); do [ "$(holders)" != 0 ] || break; sleep 0.1; done
want_true [ "$(holders)" = 0 ]
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
