#!/bin/sh
# cli_story.sh PERDURE: tag, pin, link, resolve, messages, blame, bisect.
. "$(dirname "$0")/tap.sh"

t cli__tags_name_commits_for_good
run put k 1
one=$(cat "$out")
run tag v1 --reason 'it works' --author ada
want_code 0
want_line "$one"
want_err_like "^tag 'v1' at [0-9a-f]{12}$"
run put k 2
run get k --at v1
want_out 1
run tag v1
want_failure 3 "tag 'v1'"
run get k --at v1
want_out 1
run tag v1 --force
want_code 0
run get k --at v1
want_out 2
run tag early main~1 -q
want_no_err
run tag
want_count 2
want_out_like '^early +[0-9a-f]{12}  20.*Z  main$'
run --json tag
want_out_like '^\{"tags":\[\{"tag":"early","commit":"[0-9a-f]{64}","seq":[0-9]+,"time":"20.*Z","author":"main","reason":""\},\{"tag":"v1",'
run --json tag third main
want_out_like '^\{"tag":"third","commit":"[0-9a-f]{64}","seq":[0-9]+\}$'
want_no_err
run fork again --at early
want_line "$one"
run diff early v1
want_code 1
run tag -d v1
want_code 0
want_no_out
run tag -d v1
want_failure 1 "there is no tag 'v1'"
run get k --at v1
want_failure 1 "'v1'"
run refs
want_count 2
run verify
want_code 0

t cli__tags_refuse_bad_names_and_places
run put k 1
run tag 'a b'
want_failure 2 "no name for a tag"
run tag main
want_failure 3 "ref 'main'"
run tag v1 nowhere
want_failure 1 nowhere
run tag v1 main~9
want_failure 1 'main~9'
run tag -d x y
want_failure 2 'tag: -d'
run tag a b c
want_code 2
run tag
want_code 0
want_no_out
run --json tag
want_line '{"tags":[]}'

t cli__pins_list_who_and_why
run put k 1
run put k 2
run pin main~1 --reason 'case 4711'
want_id
run pin
want_count 1
want_out_like '^[0-9a-f]{12}  20.*Z  main  case 4711$'
run --json pin
want_out_like '^\{"pins":\[\{"commit":"[0-9a-f]{64}","seq":[0-9]+,"time":"20.*Z","author":"main","reason":"case 4711"\}\]\}$'
run pin -d main
want_failure 1 'is not pinned'
run pin -d main~1
want_code 0
run pin
want_no_out
run pin nowhere
want_failure 1 nowhere

t cli__a_message_leads_to_the_state_at_its_point
run put todos '["buy milk"]'
one=$(cat "$out")
run link msg-1 --session ses-1 --submission sub-1 --author platform --reason 'turn 1'
want_code 0
want_line "$one"
run put todos '[]'
run put notes 'x y'
run link msg-2 --session ses-1 --parent msg-1
want_code 0
run link other main~1 --session ses-2
want_code 0
run get todos --at message:msg-1
want_out '["buy milk"]'
run diff message:msg-1 message:msg-2
want_code 1
want_count 2
run resolve msg-1
want_out_like '^Message: +msg-1$'
want_out_like "^Commit: +$one\$"
want_out_like '^Session: +ses-1$'
want_out_like '^Author: +platform$'
want_out_unlike 'Parent'
run resolve msg-2 --keys
want_out_like '^    notes$'
run resolve msg-2 -p
want_out_like '^    notes = x y$'
run --json resolve msg-1 --values
want_out_like '^\{"message":"msg-1","agent":"main","session":"ses-1","submission":"sub-1","parent":"","commit":"[0-9a-f]{64}","seq":[0-9]+,"time":"20.*Z","author":"platform","reason":"turn 1","entries":\[\{"key":"todos",.*"value":\["buy milk"\]\}\]\}$'
run messages
want_count 3
run messages --session ses-1
want_count 2
want_out_like '^msg-2 +[0-9a-f]{12}  20.*Z  ses-1  after msg-1$'
run messages --before msg-2
want_count 2
want_true [ "$(head -n 1 "$out" | cut -c1-5)" = msg-1 ]
run --json messages --session ses-2
want_out_like '^\{"messages":\[\{"message":"other",.*\}\]\}$'
run fork retry --from-message msg-1
want_code 0
want_line "$one"
run get todos --at retry
want_out '["buy milk"]'
run verify
want_code 0

t cli__links_are_made_once_and_never_changed
run put k 1
run link m --session s
run put k 2
run link m main~1 --session s
want_code 0
run link m --session s
want_failure 3 'another commit'
run link m main~1 --session t
want_failure 3 'another session'
run link n --parent nobody
want_failure 1 "parent 'nobody'"
run link m --parent m
want_failure 2 'own parent'
run link 'a b'
want_failure 2 "'a b'"
run link ''
want_failure 2 empty
run link
want_failure 2 'needs the id'
run link "$(printf %0300d 0)"
want_failure 5 longer
run resolve nobody
want_failure 1 "no message 'nobody'"
run get k --at message:nobody
want_failure 1 "no message 'nobody'"
run fork f --from-message nobody
want_failure 1 "no message 'nobody'"
run fork f --from-message m --at main
want_failure 2 exclude
run messages --session s --before m
want_failure 2 exclude
run link c --parent m
run link -d m
want_code 0
run link -d m
want_failure 1 "no message 'm'"
run messages --before c
want_count 1
run --json link -d c
want_line '{"message":"c","deleted":true}'
run messages
want_no_out

t cli__many_processes_link_and_tag_at_once
run put k 1
for i in 1 2 3 4 5 6; do
  "$perdure" link "m$i" --session all -q >/dev/null 2>>errors &
  "$perdure" link same --session all -q >/dev/null 2>>errors &
  "$perdure" tag "t$i" -q >/dev/null 2>>errors &
done
wait
want_true [ ! -s errors ]
run messages
want_count 7
run tag
want_count 6
run verify
want_code 0

t cli__blame_tells_who_changed_each_path
run put plan '{"step":1,"goal":{"name":"x"}}' --author ada --run r1 --reason start
one=$(cat "$out")
run put plan '{"step":2,"goal":{"name":"x"}}' --author bob --reason 'go on'
run blame plan
want_count 2
want_out_like '^[0-9a-f]{12}  20.*Z  bob  /step = 2  go on$'
want_out_like "^$(printf %.12s "$one")  20.*Z  ada in r1  /goal/name = \"x\"  start\$"
run blame plan --path /goal
want_count 1
want_out_has /goal/name
run blame plan --path /go
want_failure 1 "no path '/go'"
run blame plan --path goal
want_failure 2 'JSON Pointer'
run --json blame plan --at main~1
want_out_like '^\{"key":"plan","paths":\[\{"path":"/step","value":1,"is_known":true,"commit":"[0-9a-f]{64}","seq":[0-9]+,"version":1,"time":"20.*Z","author":"ada","run":"r1","reason":"start"\},\{"path":"/goal/name","value":"x",'
run put text 'no json'
run blame text
want_out_like '  main  = no json$'
run blame nokey
want_failure 1 nokey
run --json blame nokey
want_code 1
want_no_out
want_err_like '^\{"error":\{"code":"NotFound"'
run blame plan --at nowhere
want_failure 1 nowhere

# twelve values of k, 1 … 12, with other commits between them
make_line() {
  for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    run put k "$i" --reason "k is $i"
    run put other "$i"
  done
}

t cli__bisect_finds_the_first_commit_that_fails
make_line
for first in 2 3 6 7 11 12; do
  run bisect k --good main~23 --bad main -- sh -c "read n; echo noise; [ \"\$n\" -lt $first ]"
  want_code 0
  want_out_like "^    k is $first\$"
  want_out_like '^[0-9a-f]{64}$'
  want_out_unlike noise
  want_true [ "$(grep -c 'good$\|bad$' "$err")" -le 7 ]
done
want_err_like '^11 commits changed .k.; about 4 steps$'
run bisect k --good main~23 --bad main -q -- sh -c 'read n; [ $n -lt 4 ]'
want_no_err
run --json bisect k --good main~23 --bad main -- sh -c 'read n; [ $n -lt 4 ]'
want_no_err
want_out_like '^\{"key":"k","good":"[0-9a-f]{64}","bad":"[0-9a-f]{64}","candidates":11,"runs":[0-9]+,"skipped":0,"is_found":true,"first_bad":\{.*"reason":"k is 4"'

t cli__bisect_gives_the_command_key_commit_and_value
run put k one
run put k two
two=$(cat "$out")
run bisect k --good main~1 --bad main -- sh -c 'echo "$PERDURE_KEY $PERDURE_COMMIT $PERDURE_FOUND $(cat)" >>seen; grep -q one seen && ! grep -q two seen'
want_code 0
want_true [ "$(sed -n 2p seen)" = "k $two 1 two" ]
run del k
run bisect k --good main~1 --bad main -- sh -c '[ $PERDURE_FOUND = 1 ]'
want_code 0
want_out_like '^    - k  \(was v2\)$'
head -c 3000000 /dev/zero | "$perdure" put big - >/dev/null
run put big small
run bisect big --good main~1 --bad main -- sh -c 'exec <&-; [ "$PERDURE_COMMIT" != '"$(cat "$out")"' ]'
want_code 0

t cli__bisect_steps_around_what_cannot_be_tried
make_line
run bisect k --good main~23 --bad main -- sh -c 'read n; [ $n = 6 ] && exit 125; [ $n -lt 4 ]'
want_code 0
want_out_like '^    k is 4$'
run bisect k --good main~23 --bad main -- sh -c 'read n; [ $n -gt 4 ] && [ $n -lt 9 ] && exit 125; [ $n -lt 7 ]'
want_code 1
want_count 5
want_err_like 'one of these 5'
run --json bisect k --good main~23 --bad main -- sh -c 'read n; [ $n -gt 4 ] && [ $n -lt 9 ] && exit 125; [ $n -lt 7 ]'
want_code 1
want_out_like '"skipped":4,"is_found":false,"suspects":\["[0-9a-f]{64}"(,"[0-9a-f]{64}"){4}\]\}$'

t cli__bisect_refuses_what_makes_no_sense
make_line
run fork side --at main~3
run put k side --ref side
run bisect k --good side --bad main -- true
want_failure 2 'no ancestor'
run bisect k --good main --bad main~3 -- true
want_failure 2 'no ancestor'
run bisect k --good main --bad main -- true
want_failure 2 'same commit'
run bisect k --good main~1 --bad main -- true
want_failure 1 'does not change'
run bisect k --good main~9 --bad main -q -- false
want_failure 2 '--good main~9 is not good: it is bad'
run bisect k --good main~9 --bad main -q -- true
want_failure 2 '--bad main is not bad: it is good'
run bisect k --good main~9 --bad main -q -- sh -c 'exit 125'
want_failure 2 'is not good: it is skipped'
run bisect k --good main~9 --bad main -q -- sh -c 'exit 126'
want_failure 2 'exit code 126'
run bisect k --good main~9 --bad main -q -- sh -c 'kill -9 $$'
want_failure 2 'signal 9'
run bisect k --good main~9 --bad main -q -- ./no-such-command
want_failure 2 'no-such-command'
run bisect k --good main~9 --bad main
want_failure 2 'needs a command'
run bisect k --good main~9 -- true
want_failure 2 '--bad'
run bisect k --good nowhere --bad main -- true
want_failure 1 nowhere
run bisect
want_code 2

finish
