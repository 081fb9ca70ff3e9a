#!/bin/sh
# cli_batch.sh PERDURE: JSON lines in, JSON lines out.
. "$(dirname "$0")/tap.sh"

t cli__batch_answers_each_line_in_order
run_with '{"op":"put","key":"k","value":{"n": 1.50}}
{"op":"get","key":"k"}
{"op":"put","key":"k","text":"two"}
{"op":"has","key":"k"}
{"op":"get","key":"k","version":1}
{"op":"get","key":"k","at":"main~1"}
{"op":"delete","key":"k"}
{"op":"get","key":"k"}
{"op":"delete","key":"k"}
{"op":"has","key":"k"}' batch
want_code 0
want_no_err
want_count 10
sed -n 1p "$out" | grep -Eq '^\{"line":1,"ok":true,"version":1,"commit":"[0-9a-f]{64}","tree":"[0-9a-f]{64}","seq":[0-9]+,"durability":"synced"\}$' || bad line 1
sed -n 2p "$out" | grep -Eq '^\{"line":2,"ok":true,"found":true,"version":1,"size":11,.*"value":\{"n":1.50\}\}$' || bad line 2
sed -n 3p "$out" | grep -Eq '"version":2' || bad line 3
sed -n 4p "$out" | grep -Eq '^\{"line":4,"ok":true,"has":true\}$' || bad line 4
sed -n 5p "$out" | grep -Eq '"version":1,.*"value":\{"n":1.50\}' || bad line 5
sed -n 6p "$out" | grep -Eq '"value":\{"n":1.50\}' || bad line 6
sed -n 7p "$out" | grep -Eq '"deleted":true,"commit":"' || bad line 7
sed -n 8p "$out" | grep -Eq '^\{"line":8,"ok":true,"found":false\}$' || bad line 8
sed -n 9p "$out" | grep -Eq '^\{"line":9,"ok":true,"deleted":false\}$' || bad line 9
sed -n 10p "$out" | grep -Eq '"has":false' || bad line 10

t cli__batch_keeps_the_bytes_of_a_value
run_with '{"op":"put","key":"k","value": {"big":12345678901234567890.10,  "s":"\u00e9"} }' batch
run get k
want_out '{"big":12345678901234567890.10,  "s":"\u00e9"}'
run_with '{"op":"put","key":"k","text":"\u00e9\n"}' batch
run get k
want_out 'é
'
run_with '{"op":"put","key":"k","base64":"AAH/"}' batch
"$perdure" get k | od -An -tx1 >"$out"
want_line ' 00 01 ff'

t cli__batch_goes_on_after_bad_lines
printf '%s\n' '{"op":"put","key":"a","value":1}' 'not json' '' '{"op":"put"}' '{"op":"nope"}' '[1]' \
  '{"op":"put","key":"b","value":2,"bogus":1}' '{"op":"put","key":"b","key":"c","value":2}' \
  '{"op":"put","key":"a","value":2,"expect":7}' '{"op":"put","key":"","value":1}' '{"op":"put","key":"x\u0000y","value":1}' \
  '{"op":"put","key":"b","value":01}' '{"op":"get","key":"a","at":"nowhere"}' '{"op":"put","key":"z","value":3}' >input
"$perdure" batch <input >"$out" 2>"$err"
code=$?
want_code 2
want_count 13
want_no_err
sed -n 2p "$out" | grep -Eq '^\{"line":2,"ok":false,"error":\{"code":"InvalidArgument","message":"JSON is malformed at byte 0.*","details":\{.*\},"recovery":\[' || bad line 2
sed -n 3p "$out" | grep -Eq '^\{"line":4,"ok":false' || bad line 4
sed -n 8p "$out" | grep -Eq '^\{"line":9,"ok":false,"error":\{"code":"VersionConflict".*"expected":7,"actual":1' || bad line 9
sed -n 12p "$out" | grep -Eq '^\{"line":13,"ok":false,"error":\{"code":"NotFound"' || bad line 13
sed -n 13p "$out" | grep -Eq '^\{"line":14,"ok":true' || bad line 14
run ls
want_out 'a
z
'

t cli__batch_exits_with_the_code_of_the_first_error
run_with '{"op":"put","key":"a","value":1,"expect":5}
nonsense' batch
want_code 3
run_with '{"op":"get","key":"a","at":"nowhere"}
{"op":"put","key":"a","value":1,"expect":5}' batch
want_code 1

t cli__batch_commits_all_or_nothing
run_with '{"op":"commit","ops":[{"op":"put","key":"a","value":1},{"op":"put","key":"b","text":"x"}],"reason":"both","id":7}
{"op":"commit","ops":[{"op":"put","key":"c","value":1},{"op":"put","key":"a","value":2,"expect":9}]}
{"op":"commit","ops":[{"op":"put","key":"c","value":1},{"op":"get","key":"a"}]}
{"op":"commit","ops":[{"op":"delete","key":"a"},{"op":"put","key":"d","value":4,"expect":0}]}' batch
want_code 3
want_count 4
sed -n 1p "$out" | grep -Eq '^\{"line":1,"id":7,"ok":true,"ops":2,"commit":"[0-9a-f]{64}"' || bad line 1
sed -n 2p "$out" | grep -Eq '"code":"VersionConflict"' || bad line 2
sed -n 3p "$out" | grep -Eq 'op 2 of the commit: unknown op' || bad line 3
run ls
want_out 'b
d
'
run log --oneline
want_count 2
want_out_has both

t cli__batch_notes_go_into_the_record
run_with '{"op":"put","key":"a","value":1,"reason":"r1","run":"u1","author":"w1"}
{"op":"put","key":"a","value":2}' batch --author deflt --reason dr
run --json log
want_out_has '"author":"w1","run":"u1","reason":"r1"'
want_out_has '"author":"deflt","run":"","reason":"dr"'

t cli__batch_writes_to_a_named_ref
run put a 1
run fork f
run_with '{"op":"put","key":"a","value":2,"ref":"f"}
{"op":"put","key":"a","value":3,"ref":"nope"}' batch
want_code 1
run get a
want_out 1
run get a --at f
want_out 2

t cli__batch_skips_an_over_long_line
{
  printf '{"op":"put","key":"a","text":"'
  head -c 136000000 /dev/zero | tr '\0' x
  printf '"}\n{"op":"put","key":"b","value":1}\n'
} | "$perdure" batch >"$out" 2>"$err"
code=$?
want_code 5
want_count 2
sed -n 1p "$out" | grep -Eq '^\{"line":1,"ok":false,"error":\{"code":"LimitExceeded"' || bad line 1
sed -n 2p "$out" | grep -Eq '^\{"line":2,"ok":true' || bad line 2

t cli__batch_works_in_memory
run_with '{"op":"put","key":"a","value":1}
{"op":"get","key":"a"}' --store memory: batch
want_code 0
want_out_has '"value":1'
want_true test ! -e .perdure

t cli__batch_answers_before_the_next_line_comes
mkfifo in answers
"$perdure" batch <in >answers 2>"$err" &
child=$!
exec 8>in 9<answers
for i in 1 2 3; do
  echo "{\"op\":\"put\",\"key\":\"k\",\"value\":$i}" >&8
  line=$(timeout 60 head -n 1 <&9)
  case $line in *"\"version\":$i,"*) ;; *) : >"$out"; bad "no answer to $i: $line" ;; esac
  run get k
  want_out "$i"
done
exec 8>&- 9<&-
wait $child || bad "batch failed"

t cli__nested_values_have_a_limit
deep=$(i=0; while [ $i -lt 200 ]; do printf '['; i=$((i + 1)); done; i=0; while [ $i -lt 200 ]; do printf ']'; i=$((i + 1)); done)
run_with "{\"op\":\"put\",\"key\":\"a\",\"value\":$deep}" batch
want_code 5
want_out_has '"code":"LimitExceeded"'

finish
