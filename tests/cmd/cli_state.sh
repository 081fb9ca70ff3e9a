#!/bin/sh
# cli_state.sh PERDURE: init, put, get, del, has, ls, agents, stats, verify: what they print and how they exit.
. "$(dirname "$0")/tap.sh"

t cli__put_prints_the_commit_id_and_makes_the_store
run put plan '{"step":1}'
want_code 0
want_id
want_no_err
want_true test -f .perdure/main.db

t cli__get_prints_the_very_bytes
run put plan '{"step":1}'
run get plan
want_code 0
want_out '{"step":1}'
want_no_err

t cli__get_of_an_absent_key_exits_1_with_a_message
run put a 1
run get b
want_failure 1 "'?b'?"

t cli__values_come_from_standard_input
head -c 100000 /dev/urandom >input
"$perdure" put blob - <input >"$out" 2>"$err"
code=$?
want_code 0
want_id
run get blob
want_true cmp -s "$out" input

t cli__values_come_from_files
printf 'a\000b\n\377' >input
run put blob @input
want_code 0
run get blob
want_true cmp -s "$out" input

t cli__values_may_be_empty
run put empty ''
want_code 0
run get empty
want_code 0
want_no_out
run_with '' put empty2 -
want_code 0
run --json get empty2
want_out_has '"size":0'

t cli__text_is_taken_as_it_is
run put a --text @home
want_code 0
run get a
want_out '@home'
run put a --text=-
run get a
want_out '-'
run put a -- -x
run get a
want_out '-x'
run put a -5
run get a
want_out '-5'

t cli__value_ids_are_what_sha256sum_prints
run put k 'hello'
run --json get k
want_out_has '"value_id":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"'

t cli__json_get_has_version_size_and_times
run put k '{"a": [1, 2.50]}'
run put k '{"a": [1, 2.50, 3]}'
run --json get k
want_code 0
want_out_has '"key":"k","version":2,"size":19,"value_id":"'
want_out_like '"created_at":"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"'
want_out_like '"updated_at":"20'
want_out_has '"value":{"a":[1,2.50,3]}}'
want_count 1

t cli__json_shows_text_and_bytes_each_in_its_field
run put t 'no "json"'
run --json get t
want_out_has '"text":"no \"json\""'
printf '\377\000' | "$perdure" put b - >/dev/null
run get b --json
want_out_has '"base64":"/wA="'

t cli__json_put_tells_version_and_durability
run put k 1
run --json put k 2
want_out_like '^\{"key":"k","version":2,"ref":"main","commit":"[0-9a-f]{64}","tree":"[0-9a-f]{64}","seq":[0-9]+,"durability":"synced"\}$'

t cli__expect_is_compare_and_swap
run put k a --expect 0
want_code 0
run put k b --expect 0
want_failure 3 "k"
run put k b --expect 1
want_code 0
run put k c --expect 1
want_code 3
run get k
want_out b
run put --expect 3 k d --json
want_code 3
want_no_out
want_err_like '^\{"error":\{"code":"VersionConflict","message":".*k.*","details":\{.*"expected":3,"actual":2.*\},"recovery":\[\{"action":"retry"'

t cli__text_that_begins_like_json_has_to_be_json
for broken in '{"a":1,}' '[1,2' '"open' ' {' '{a:1}' '[draft] hello'; do
  run put k "$broken"
  want_failure 2 'begins like JSON, but is not valid JSON: .*; to store it as text: perdure put KEY --text VALUE'
  run persistent set k "$broken"
  want_failure 2 'begins like JSON, but is not valid JSON: .*; to store it as text, write it as a JSON string'
  run statestore set k "$broken"
  want_failure 2 'begins like JSON, but is not valid JSON'
done
"$perdure" get k >/dev/null 2>&1 && bad "broken JSON was stored"
for good in '{"a":1}' '[]' ' "x" ' 'hello {' '-' '1,' 'true story' '(a)' "it's \"so\""; do
  if [ "$good" = - ]; then printf '{"a":1,}' | "$perdure" put k - >/dev/null || bad "put -"; else run put k "$good"; want_code 0; fi
done
run put k --text '{"a":1,}'
want_code 0
run get k
want_out '{"a":1,}'
run persistent set words 'plain words'
want_code 0
run persistent get words
want_line '"plain words"'
run persistent set words '"{\"a\":1,}"'
want_code 0
run call queue.send --to main --body '{"a":1,}'
want_failure 2 'begins like JSON'

t cli__numbers_have_one_spelling
run put k a
for number in 01 +1 ' 1' '1 ' 1.0 0x1 18446744073709551616; do
  run put k b --expect "$number"
  want_failure 2 '--expect: .* is not a whole number'
done
run get k --at '#01'
want_failure 2 "'#' takes the number of a record"
run get k --at 'main~00'
want_failure 2 "'~' takes a number"
run get k
want_out a

t cli__old_points_can_be_read
run put k one
first=$(cat "$out")
run put k two
run put k three
run get k --at main~1
want_out two
run get k --at main~2
want_out one
run get k --at "$first"
want_out one
run get k --at "$(printf %.8s "$first")"
want_out one
run get k --version 2
want_out two
run get k --version 9
want_code 1
run get k --at root
want_code 1
run get k --at '#2'
want_out one
run get k --at @2001-01-01
want_code 1
run get k --at @2901-01-01
want_out three

t cli__del_removes_keys_in_one_commit
run put a 1
run put b 2
run put c 3
run del a b --reason 'done with'
want_code 0
want_id
run ls
want_line c
run get a --at main~1
want_out 1
run del c
want_code 0
want_id

t cli__del_of_an_absent_key_changes_nothing
run put a 1
run del a nope
want_failure 1 nope
run has a
want_code 0
run del nope
want_failure 1 nope
run log --oneline
want_count 1

t cli__del_honours_expect
run put a 1
run put a 2
run del a --expect 1
want_code 3
run del a --expect 2
want_code 0
run has a
want_code 1

t cli__has_answers_by_exit_code
run put a 1
run has a
want_code 0
want_no_out
want_no_err
run has b
want_code 1
want_no_out
want_no_err
run --json has b
want_code 1
want_line '{"key":"b","has":false}'
run has a --at root
want_code 1

t cli__ls_lists_in_byte_order
for k in b a/2 a/1 c a/10; do "$perdure" put "$k" "v$k" >/dev/null; done
run ls
want_out 'a/1
a/10
a/2
b
c
'
run ls a/
want_count 3
run ls zzz
want_code 0
want_no_out
run ls --tsv a/1
want_out 'a/1	va/1
a/10	va/10
'
run ls -l b
want_out_like '^ +1 +2  20.*Z  [0-9a-f]{12}  b$'
run ls --at root
want_no_out

t cli__ls_pages
for k in a b c d e; do "$perdure" put $k 1 >/dev/null; done
run ls -n 2
want_out 'a
b
'
want_err_like "after 'b'"
run ls -n 2 --after b --quiet
want_out 'c
d
'
want_no_err
run ls -n 2 --after d
want_line e
want_no_err
run --json ls -n 5
want_out_has '"has_more":false'
run --json ls -n 1 --after a --values
want_out_like '^\{"entries":\[\{"key":"b","version":1,.*"value":1\}\],"has_more":true,"next_after":"b"\}$'

t cli__ls_shows_control_characters_and_stays_on_one_line
run put "$(printf 'a\tb\033[31m')" "$(printf 'x\ty\nz')"
want_code 0
run ls
want_line 'a\tb\x1b[31m'
run ls --tsv
want_count 1
want_out_has 'x\ty\nz'

t cli__keys_may_be_any_utf8
run put 'schlüssel/日本' 1
want_code 0
run --json ls
want_out_has '"key":"schlüssel/日本"'

t cli__init_makes_a_store_once
run init
want_code 0
want_no_out
want_err_like 'new store'
run put a 1
run --json init
want_code 0
want_line '{"store":"sqlite:./.perdure","agent":"main","ref":"main","created":false}'
run get a
want_out 1

t cli__agents_have_stores_of_their_own
run --agent one put k 1
run --agent=two put k 2
run get k --agent one
want_out 1
PERDURE_AGENT=two "$perdure" get k >"$out" 2>"$err"
want_out 2
run agents --names
want_out 'one
two
'
run --json agents
want_out_like '^\{"agents":\[\{"agent":"one",.*\},\{"agent":"two",.*\}\]\}$'

t cli__a_plain_path_is_a_sqlite_store
run --store ./here put k 1
want_code 0
want_true test -f here/main.db
run --store sqlite:here get k
want_out 1
PERDURE_STORE=here "$perdure" get k >"$out" 2>"$err"
want_out 1

t cli__stats_and_verify_report
run put a 1
run put b 2
run stats
want_code 0
want_out_like '^keys +2$'
want_out_like '^survives power loss +yes$'
run --json stats
want_out_has '"keys":2'
want_out_has '"is_durable":true'
run verify
want_code 0
want_out_like '^ok$'
want_out_like '^commits +2$'
want_no_err
run --json verify
want_out_like '^\{"ok":true,"records":[0-9]+,"commits":2,.*"findings":\[\]\}$'
run verify --since main~1
want_code 0
want_out_like '^ok$'

finish
