#!/bin/sh
# cli_output.sh PERDURE: help, suggestions, JSON errors, colours, pager, pipes and full disks.
. "$(dirname "$0")/tap.sh"
commands='put get del has ls batch log history show diff undo redo reset fork refs switch init agents stats verify version help'

t cli__every_command_has_help_with_an_example
for c in $commands; do
  run "$c" --help
  want_code 0
  want_out_like "^usage: perdure $c"
  want_out_like '^Examples?$'
  want_out_like '^  \$ '
  want_no_err
  run help "$c"
  want_code 0
  want_out_like "^usage: perdure $c"
done
want_true test ! -e .perdure

t cli__help_lists_every_command
run help
want_code 0
for c in $commands; do want_out_like "^  $c "; done
run --help
want_out_like '^  put '
run help at
want_out_like 'X~3'
run help nope
want_code 2

t cli__version_is_told
run version
want_code 0
want_out_like '^perdure [0-9]+\.[0-9]+\.[0-9]+$'
run --version
want_out_like '^perdure [0-9]'
run --json version
want_out_like '^\{"version":"[0-9.]+"\}$'

t cli__unknown_commands_and_options_are_refused_with_a_suggestion
run ptu k v
want_failure 2 "unknown command 'ptu'"
want_err_like "^hint: did you mean 'put'\?$"
run verfy
want_err_like "'verify'"
run delete k
want_err_like "'del'"
run xyzzyx
want_failure 2 xyzzyx
run get k --att main
want_failure 2 '--att'
want_err_like 'did you mean --at\?'
run get -z k
want_failure 2 '-z'
run
want_failure 2 'no command'
want_true test ! -e .perdure

t cli__wrong_numbers_of_arguments_are_usage_errors
for line in put 'put k' get 'get a b' del has 'has a b' history diff 'diff a b c' fork switch reset 'undo 1 2' 'init x' 'put k v w' 'log a b'; do
  # shellcheck disable=SC2086
  run $line
  want_failure 2 .
done
for line in 'undo 0' 'undo x' 'log -n 0' 'log -n' 'put k v --expect x' 'put k v --expect -1' 'get k --version 0' 'ls -n 1.5'; do
  # shellcheck disable=SC2086
  run $line
  want_failure 2 .
done
want_true test ! -e .perdure

t cli__errors_are_json_where_json_is_asked
run put k 1
run --json get nokey
want_code 1
want_no_out
want_err_like '^\{"error":\{"code":"NotFound","message":".*nokey.*","details":\{.*\},"recovery":\[\{"action":".*","hint":".*"\}\]\}\}$'
run nocommand --json
want_code 2
run --json nocommand
want_code 2
want_err_like '^\{"error":\{"code":"InvalidArgument","message":"unknown command .nocommand.'
run --json ls --at nowhere
want_code 1
want_no_out
run put --json "$(printf '\377')" 1
want_code 2
want_err_like '^\{"error":\{"code":"InvalidArgument"'

t cli__hints_of_what_is_not_there_fit
run put k 1
run statestore set a 1
while IFS='|' read -r line hint; do
  # shellcheck disable=SC2086 # the words of a command
  run $line
  want_code 1
  want_err_like "^hint: $hint"
done <<'LINES'
get nokey|keys are listed by `perdure ls`
log --at nowhere|keys are listed by `perdure ls`
resolve nobody|messages are listed by: perdure messages
agent show|agents with a snapshot are listed by: perdure agents
LINES
run --json agent show
want_err_like '"hint":"List what is there, and check the name in the message."'
run session get x --session s-00000000000000000000000000000000
want_err_like 'session begin'
run thread create t
run thread begin t --run-id r1
run --json thread begin t --run-id r1
want_code 3
grep -q 'pd_' "$err" && bad 'a C function in an error'

t cli__reading_does_not_make_a_store
for line in 'get k' 'has k' ls log 'history k' 'show x' 'diff a b' refs 'switch x' undo redo 'reset x' verify stats 'del k'; do
  # shellcheck disable=SC2086
  run $line
  want_failure 4 "no store for agent 'main' in sqlite:./.perdure"
  want_err_like '^hint: make one with: perdure init$'
done
run agents
want_failure 4 'no home at sqlite:./.perdure'
run agents --names
want_failure 4 'no stores in sqlite:./.perdure'
run put k 1 --ref other
want_failure 4 'no store'
run fork x --at y
want_failure 4 'no store'
want_true test ! -e .perdure

t cli__a_full_disk_behind_standard_output_is_an_error
run put k 1
"$perdure" get k >/dev/full 2>"$err"
code=$?
: >"$out"
want_failure 4 'standard output.*No space'
"$perdure" --json log >/dev/full 2>"$err"
code=$?
want_code 4
want_err_like '"code":"DiskFull"'
"$perdure" put k 2 >/dev/full 2>"$err"
code=$?
want_failure 4 'standard output'
run get k
want_out 2

t cli__a_closed_standard_output_is_an_error_and_harms_no_file
run put k 1
"$perdure" get k >&- 2>"$err"
code=$?
: >"$out"
want_failure 4 'standard output'
"$perdure" put k - 2>"$err" <&-
code=$?
want_failure 4 'standard input'
"$perdure" put k 2 >&- 2>"$err" <&-
"$perdure" put k 3 --expect 9 >&- 2>&- <&-
run verify
want_code 0
run get k
want_out 2

t cli__a_reader_that_goes_away_is_no_error
ops=$(i=0; while [ $i -lt 3000 ]; do printf '{"op":"put","key":"key-%s-a-long-name-so-that-it-fills-the-pipe-soon","text":"v"},' $i; i=$((i + 1)); done)
printf '{"op":"commit","ops":[%s]}\n' "${ops%,}" | "$perdure" batch >"$out" 2>"$err"
code=$?
want_code 0
{ "$perdure" ls 2>"$err"; echo $? >code; } | head -1 >"$out"
want_line 'key-0-a-long-name-so-that-it-fills-the-pipe-soon'
want_no_err
want_true test "$(cat code)" = 141
(trap '' PIPE; { "$perdure" ls 2>"$err"; echo $? >code; } | head -1 >"$out")
want_no_err

t cli__colours_and_pager_need_a_terminal
run put k 1
run log
want_out_unlike "$(printf '\033')"
if command -v script >/dev/null 2>&1; then
  TERM=xterm PERDURE_PAGER='sed s/^/paged:/' script -qec "$perdure log" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like "$(printf 'paged:\033\\[33mcommit')"
  TERM=xterm script -qec "$perdure --no-pager log" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like "^$(printf '\033\\[33mcommit')"
  NO_COLOR=1 TERM=xterm script -qec "$perdure --no-pager log" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like '^commit'
  TERM=dumb script -qec "$perdure --no-pager log" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like '^commit'
  TERM=xterm script -qec "$perdure --no-color --no-pager log" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like '^commit'
  TERM=xterm script -qec "$perdure get k" /dev/null >"$out" 2>"$err" </dev/null
  want_count 1
  TERM=xterm PERDURE_PAGER='head -c 0' script -qec "$perdure log; echo code \$?" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like '^code 0'
fi

t cli__verify_shows_its_progress_on_a_terminal
i=0
while [ $i -lt 1200 ]; do echo "{\"op\":\"put\",\"key\":\"k\",\"value\":$i}"; i=$((i + 1)); done | "$perdure" --store home batch >/dev/null
run --store home verify
want_no_err
if command -v script >/dev/null 2>&1; then
  TERM=xterm script -qec "$perdure --no-color --store home verify" /dev/null >"$out" 2>"$err" </dev/null
  want_out_like 'verify \[[#.]+\] +[0-9]+%'
  want_out_like '^ok'
fi

t cli__talk_is_silenced_by_quiet
run put k 1
run fork f --quiet
want_id
want_no_err
run undo -q
want_no_err

finish
