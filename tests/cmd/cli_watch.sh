#!/bin/sh
# cli_watch.sh PERDURE: following changes.
. "$(dirname "$0")/tap.sh"

# A watch in the background is at work when it has told the first record: that it was opened.
t cli__watch_tells_what_another_process_does
run put plan/a 1
"$perdure" watch --from 1 --no-color >lines 2>talk &
child=$!
until_true grep -q plan/a lines
run put plan/b 22 --author alice --reason 'because'
run put other x
run del plan/a
run undo
until_true grep -q undo lines
kill -INT $child
wait $child
code=$?
cp lines "$out"
cp talk "$err"
want_code 0
want_out_like '^20[0-9-]+T[0-9:.]+Z  #2  main  \+ plan/a  v1, 1 byte  main$'
want_out_like 'main  \+ plan/b  v1, 2 bytes  alice: because$'
want_out_like 'main  - plan/a  \(was v1\)'
want_out_like 'main  > undo  [0-9a-f]{12} -> [0-9a-f]{12}'
want_err_like '^to go on from here: --from [0-9]+$'

t cli__watch_by_prefix_and_ref
run put plan/a 1
run put other 1
run fork side
run put plan/b 1 --ref side
run watch plan/ --from 2 --timeout 0
want_code 0
want_count 3
want_out_like 'main  \+ plan/a'
want_out_like 'side  > fork'
want_out_like 'side  \+ plan/b'
run watch --ref side --from 1 --timeout 0
want_count 2
want_out_unlike 'main  '

t cli__watch_goes_on_where_it_ended
run put k0 0
run_with '{"op":"commit","ops":[{"op":"put","key":"k1","value":1},{"op":"put","key":"k2","value":2},{"op":"put","key":"k3","value":3}]}' batch
want_code 0
run --json watch --from 1 --timeout 0
cp "$out" whole
from=1
: >parts
for i in 1 2 3 4 5 6 7 8 9; do
  run --json watch --from $from --count 1 --timeout 0
  [ -s "$out" ] || break
  cat "$out" >>parts
  from=$(sed 's/.*"next":"\([0-9.]*\)".*/\1/' "$out")
done
cmp -s whole parts || bad "one by one is not the same as all at once"
want_true test "$(wc -l <whole)" = 5
want_true grep -q '"next":"3.2"' whole

t cli__watch_as_json_lines
run put plan '{"step":1}' --run r7 --reason why
run --json watch plan --from 2 --timeout 0 --values
want_count 1
want_out_like '^\{"event":"put","seq":2,"ref":"main","key":"plan","version":1,"value_id":"[0-9a-f]{64}","size":10,"commit":"[0-9a-f]{64}",.*"next":"3","value":\{"step":1\}\}$'
want_out_has '"run":"r7","reason":"why"'
want_no_err

t cli__watch_ends_after_so_many_or_so_long
run put k 1
run watch --from 1 --count 2
want_code 0
want_count 2
run watch --count 1 --timeout 0
want_code 1
want_no_out
run watch --timeout 1
want_code 0
want_no_out

t cli__watch_ends_when_its_reader_leaves
run put k 1
"$perdure" watch --from 1 2>/dev/null | head -n 1 >line
want_true test -s line

t cli__watch_refuses_what_makes_no_sense
run put k 1
run watch --from 99
want_failure 2 'ends at record 2'
run watch --from 1.x
want_failure 2 "neither a record's number"
run watch --count 0
want_failure 2 'count'
run watch --ref '@meta'
want_failure 2 '@meta'
run watch --timeout 99999999999
want_failure 2 'timeout'
mkdir empty
run --store empty watch
want_failure 4 'no store'
run watch --help
want_out_has '--from'

finish
