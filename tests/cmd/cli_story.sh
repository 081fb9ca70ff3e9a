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

finish
