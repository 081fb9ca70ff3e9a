#!/bin/sh
# cli_gc.sh PERDURE: gc and erase.
. "$(dirname "$0")/tap.sh"

t cli__gc_retires_what_no_rule_keeps
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do run put plan "step $i"; done
run tag keep main~25
run gc --dry-run --keep-last 3
want_code 0
want_out_like 'commits would be retired'
run get plan --at main~20
want_out_has 'step 10'
run gc --keep-last 3 --author janitor
want_code 0
want_out_like 'commits retired'
want_out_like 'on disk: '
run get plan
want_out_has 'step 30'
run get plan --at keep
want_out_has 'step 5'
run get plan --at main~20
want_err_like 'retired by gc on .* by .janitor.'
run verify
want_code 0
run log --oneline
want_code 0
want_out_like 'older history was retired by gc on 20.* by janitor'
run log --json
want_out_like '"older_retired":{"time":"20.*","by":"janitor"}'
run log -n 2
want_code 0
want_true sh -c "! grep -q 'older history' '$out'"
run fork --at root fresh
run put --ref fresh first 1
run log --at fresh
want_true sh -c "! grep -q 'older history' '$out'"

t cli__gc_keeps_versions_and_speaks_json
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do run put a "a$i"; run put b "b$i"; done
run gc --keep-last 1 --keep-versions 4 --json
want_code 0
want_out_like '"retired":[1-9]'
want_out_like '"versions":[1-9]'
run get a --version 17
want_line a17
run history a --json
want_code 0
run gc --keep-last 0
want_code 2

t cli__erase_removes_the_bytes_and_says_who
run put person SECRETWORD
run put other fine
run put person SECRETWORD2
run erase person --dry-run
want_code 0
want_out_like 'would be erased'
run erase person --author officer --json
want_code 0
want_out_like '"versions":2'
want_true sh -c '! grep -raqF SECRETWORD .perdure'
run get person --at main~1
want_err_like "erased on .* by 'officer'"
run get person
want_code 1
run get other
want_line fine
run verify
want_code 0
run erase nobody
want_failure 1 'no value to erase'

t cli__erase_lazily_and_sparing_marks
run put k first
run tag keep
run put k second
run put k third
run erase k --lazy --spare-marks --dry-run
want_code 0
want_out_like 'would be erased'
run erase k --lazy --spare-marks --author officer --json
want_code 0
want_out_like '"versions":2'
want_out_like '"held_marks":1'
run get k --at keep
want_line first
run get k --at main~1
want_err_like "erased on .* by 'officer'"
run put k again
run history k
want_count 1
run erase k --lazy
want_code 0
run erase k --lazy
want_failure 1 'no value to erase'
run verify
want_code 0

t cli__gc_by_itself_when_the_settings_say_so
awk 'BEGIN { for (i = 1; i <= 4500; i++) printf "{\"op\":\"put\",\"key\":\"k/%d\",\"value\":%d}\n", i % 30, i }' | "$perdure" batch >/dev/null
run gc --auto
want_code 0
want_out_like 'gc.auto is off'
run settings gc.keep-versions many
want_failure 2 'gc.keep-versions'
run settings gc.sometimes on
want_failure 2 'there is no setting'
run settings gc.keep-last 50
run settings gc.auto on
run log --oneline
want_out_unlike 'retired'
run put one more
want_code 0
run log --oneline
want_out_like 'retired by gc'
want_count 52
run log --graph
want_out_like '^~ older history was retired by gc'
run gc --auto
want_code 0
want_line 'gc is not due'
run gc --auto --json
want_line '{"is_auto":true,"ran":false}'
run gc --auto --keep-last 3
want_code 2
run stats
want_code 0
want_out_like '^gc by itself +on$'
want_out_like '^retired before record +44'
run stats --json
want_out_like '"settings":2,"gc_cut":44[0-9]*,"gc_auto":true,"gc_auto_ms":[0-9]+}'
run du
want_out_like '^gc would free '
run verify
want_code 0

finish
