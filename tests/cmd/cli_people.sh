#!/bin/sh
# cli_people.sh PERDURE: what capabilities answer, as people see it on a terminal, and as scripts see it in a pipe.
. "$(dirname "$0")/tap.sh"
unset PERDURE_SESSION

# on_terminal COMMAND: run it on a terminal; its output is in $out, without carriage returns and the echo of the end of input
on_terminal() {
  NO_COLOR=1 TERM=xterm script -qec "$perdure --no-pager $1" /dev/null </dev/null 2>"$err" | tr -d '\r\b\000' | sed 's|\^[@D]||g' >"$out"
}

t list__is_tab_separated_in_a_pipe
run persistent set k 1
run persistent set a-longer-key '[1,2]'
run persistent list
want_out_like '^a-longer-key	1	5	[0-9-]+T[0-9:.]+Z$'
want_out_like '^k	1	1	'
want_count 2

t list__of_snapshots_and_backups_is_a_list
run snapshot create
want_code 0
id=$(cat "$out")
run snapshot list
want_out_like "^$id	[0-9-]+T[0-9:.]+Z	[0-9]+\$"
want_count 1
run backup list
want_code 0
want_no_out

t list__what_was_skipped_is_told_on_standard_error
run snapshot create
echo 'no JSON' >"$(find .perdure -name "$(cat "$out")*" -type f)"
run snapshot list
want_code 0
want_no_out
want_err_like '^skipped: '

t health__is_readable
run persistent set k 1
run health
want_out_like '^status: ok$'
want_out_like '^  free_bytes: [0-9.]+ [KMGTP]?i?B$'
want_out_like '^  name +kind +integrity'
want_out_like '^  main +agent +ok '
want_out_unlike '[{]"'

t snapshot__load_is_readable
run persistent set k 1
run snapshot create
run snapshot load "$(cat "$out")"
want_out_like '^timestamp: [0-9-]{10} [0-9:]{8} UTC$'
want_out_like '^agents:$'
want_out_like '^  main '
want_out_unlike '[{]"'

t briefing__what_others_wrote_does_not_steer_the_terminal
run briefing
run --agent other queue send main hello
run --agent other alerts send "$(printf 'red \302\233 alert')" 'all of it' --severity critical
run briefing generate
want_code 0
want_out_unlike "$(printf '\302\233')"

if command -v script >/dev/null 2>&1; then
  t list__has_aligned_columns_and_readable_sizes_on_a_terminal
  run persistent set k 1
  run persistent set a-longer-key "\"$(printf '%03000d' 7)\""
  on_terminal 'persistent list'
  want_out_like '^key           version  size_bytes  updated_at$'
  want_out_like '^k             1        1 B         [0-9-]{10} [0-9:]{8} UTC$'
  want_out_like '^a-longer-key  1        2.9 KiB     '
  want_out_unlike '	'

  t list__a_long_value_is_cut_on_a_terminal_only
  run persistent set k "\"$(printf '%0200d' 7)\""
  on_terminal 'persistent query k'
  want_out_like '^k    0{59}…  1 '
  run persistent query k
  want_out_like '^k	0{199}7	1	'

  t list__an_empty_one_says_so_on_a_terminal
  run init
  on_terminal 'shared list'
  want_line 'there are none'

  t list__what_looks_like_a_time_in_a_value_stays
  run persistent set k '"2026-01-01T00:00:00.000Z"'
  on_terminal 'persistent query k'
  want_out_like '^k    2026-01-01T00:00:00.000Z  1 '
fi

t token_list__shows_all_pages_as_one_list
i=0
while [ $i -lt 1100 ]; do
  i=$((i + 1))
  echo '{"op":"call","capability":"tokens.create","input":{"role":"auditor"}}'
done | "$perdure" batch --operator >"$out"
run token list
want_count 1100
run --json token list
want_out_like '"count":1100}$'

finish
