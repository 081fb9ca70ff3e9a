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

finish
