#!/bin/sh
# cli_history.sh PERDURE: log, history, show, diff, fork, refs, switch, undo, redo, reset.
. "$(dirname "$0")/tap.sh"

t cli__log_says_who_when_and_why
run put plan one --author ada --run r7 --reason 'first try'
run put plan two
run log
want_code 0
want_out_like '^commit [0-9a-f]{12} \(\*main\)$'
want_out_like '^Author: ada$'
want_out_like '^Run:    r7$'
want_out_like '^Date:   20.*Z$'
want_out_like '^    first try$'
want_out_like '^    ~ plan  v2, 3 bytes$'
want_out_like '^    \+ plan  v1, 3 bytes$'
run log -n 1
want_out_unlike 'first try'
run log --oneline
want_count 2

t cli__log_of_a_key_shows_only_its_commits
run put a 1
run put b 1
run put a 2
run log a --oneline
want_count 2
run log b --oneline
want_count 1
want_out_has 'put b'
run log nokey --oneline
want_no_out

t cli__json_log_has_whole_records
run put k 1 --reason why
run --json log
want_count 1
want_out_like '^\{"records":\[\{"seq":[0-9]+,"kind":"commit","ref":"main","commit":"[0-9a-f]{64}","tree":"[0-9a-f]{64}","parents":\["[0-9a-f]{64}"\]'
want_out_has '"author":"main","run":"","reason":"why","time":"20'
want_out_like '"changes":\[\{"key":"k","op":"put","version":1,"value_id":"[0-9a-f]{64}","size":1\}\],"audit":"[0-9a-f]{64}"\}\]\}$'

t cli__history_lists_the_versions_of_a_key
run put k a
run put k bb --reason second --author ada
run put other 1
run history k
want_count 2
want_out_like '^v2 +[0-9a-f]{12}  20.*Z +2 B  ada  second$'
run history k -n 1
want_count 1
run --json history k
want_out_like '^\{"key":"k","versions":\[\{"version":2,.*\},\{"version":1,.*\}\]\}$'
run history nokey
want_failure 1 nokey

t cli__show_tells_one_commit
run put a 1
run put b 22 --reason 'the second'
id=$(cat "$out")
run show
want_out_like '^commit [0-9a-f]{12} \(\*main\)$'
want_out_like 'the second'
run show "$(printf %.10s "$id")" -p
want_out_like '^    b = 22$'
run show main~1
want_out_like '^    \+ a  v1, 1 byte$'
run --json show "$id"
want_out_has "\"commit\":\"$id\""
run show root
want_code 0
want_out_like 'root'

t cli__diff_tells_what_differs_and_exits_1
run put same 1
run put changed old
run put gone x
run fork other
run put changed newer --ref other
run put added y --ref other
run del gone --ref other
run diff main other
want_code 1
want_out '+ added  v3, 1 bytes: y
~ changed  v1 -> v2, 3 -> 5 bytes: old -> newer
- gone  v1, 1 bytes: x
'
run diff main other -p
want_code 1
want_out_like '^    - old$'
want_out_like '^    \+ newer$'
run --json diff main other -p
want_code 1
want_out_like '^\{"before":"[0-9a-f]{64}","after":"[0-9a-f]{64}","differences":\[\{"key":"added","change":"added","after":\{"version":3'
want_out_has '"text":"newer"'
run diff main main
want_code 0
want_no_out
run diff other
want_code 1
run --json diff main
want_code 0
want_out_has '"differences":[]'

t cli__diff_shows_small_values_of_a_few_keys
run put json '{"step":1}'
run put edge "$(printf %064d 1)"
run put large "$(printf %065d 1)"
run put control "$(printf 'a\033[31m')"
run diff root
want_code 1
want_out_like '^\+ json  v1, 10 bytes: \{"step":1\}$'
want_out_like '^\+ edge  v1, 64 bytes: 0+1$'
want_out_like '^\+ large  v1, 65 bytes$'
want_out_unlike "$(printf '\033')"
i=0
while [ $i -lt 97 ]; do echo "{\"op\":\"put\",\"key\":\"k$i\",\"value\":$i}"; i=$((i + 1)); done | "$perdure" batch >/dev/null
run diff root
want_code 1
want_count 101
want_out_like '^\+ json  v1, 10 bytes$'
want_out_unlike ': '

t cli__forks_go_their_own_way
run put k base
run fork exp
want_code 0
want_id
want_err_like "new ref 'exp'"
run put k changed --ref exp
run get k
want_out base
run get k --at exp
want_out changed
run switch exp
want_code 0
want_no_out
run get k
want_out changed
run refs
want_out_like '^\* exp '
want_out_like '^  main '
run --json refs
want_out_like '^\{"refs":\[\{"ref":"exp","commit":"[0-9a-f]{64}",.*"is_current":true,'
run fork exp
want_failure 3 exp
run refs -d exp
want_failure 2 exp
run switch main -q
run refs -d exp --reason over
want_code 0
run refs
want_count 1
run switch exp
want_failure 1 exp
run log --ref exp --oneline
want_code 0
want_out_like 'fork|put k'

t cli__forks_begin_anywhere
run put k 1
run put k 2
run fork past --at main~1
run get k --at past
want_out 1
run fork nowhere --at main~9
want_code 1

t cli__undo_and_redo_move_back_and_forth
run put k 1
one=$(cat "$out")
run put k 2
run put k 3
three=$(cat "$out")
run undo
want_code 0
want_id
run get k
want_out 2
run undo 1 --reason 'too far'
want_line "$one"
run refs
want_out_like 'can redo'
run redo 2
want_line "$three"
run redo
want_code 1
want_no_out
run undo 99
want_code 1
want_no_out
run get k
want_out 3
run undo 3
run has k
want_code 1
run redo 3 --json
want_out_like '^\{"ref":"main","commit":"[0-9a-f]{64}"'
run get k
want_out 3

t cli__a_commit_after_undo_ends_redo_but_loses_nothing
run put k 1
run put k 2
two=$(cat "$out")
run undo
run put k other
run redo
want_code 1
run get k --at "$two"
want_out 2
run log --ref main --oneline
want_out_like 'undo main'
run verify
want_code 0

t cli__reset_points_anywhere
run put k 1
run put k 2
run put k 3
run reset main~2
want_code 0
want_id
run get k
want_out 1
run reset '#4'
run get k
want_out 3
run reset root
run ls
want_no_out
run reset nowhere
want_failure 1 nowhere

t cli__graph_draws_a_lane_for_each_fork
run put k 1 --reason one
run put k 2 --reason two
run fork exp
run put k 3 --reason three
run put k x --ref exp --reason ex
run log --graph
want_code 0
sed 's/[0-9a-f]\{12\}/ID/' "$out" >shape
cat >want <<'END'
* ID (exp) ex
| * ID (*main) three
|/
* ID two
* ID one
* ID root
END
cmp -s shape want || bad "the graph is not as drawn: $(cat shape)"
run log --graph -n 2
want_count 2

t cli__graph_shows_what_was_undone_only_with_all
run put k 1 --reason one
run put k 2 --reason two
run undo
run put k 3 --reason three
run log --graph
want_out_unlike two
run log --graph --all
want_out_like '\* [0-9a-f]{12} two'
want_out_like '\* [0-9a-f]{12} \(\*main\) three'
want_out_like '^\|/'

t cli__graph_draws_a_commit_that_was_made_twice_once
run put k 1
run put k 2
run put k 3
run undo 2
run put k 2
run log --graph --all
sed 's/[0-9a-f]\{12\}/ID/' "$out" >shape
cat >want <<'END'
* ID history
| * ID put k
| * ID (*main) put k
| * ID put k
|/
* ID root
END
cmp -s shape want || bad "the graph is not as drawn: $(cat shape)"

# Each as a line of commands, then the key is deleted for good, and no point of the past shows it.
t cli__what_moves_left_behind_is_erased_when_the_key_is_deleted
while IFS= read -r moves; do
  rm -rf .perdure
  run persistent set first 0
  printf '%s\n' "$moves" | tr ';' '\n' >moves
  while IFS= read -r move; do
    eval "run $move"
    want_code 0
  done <moves
  run persistent delete k
  want_out_has 'deleted: true'
  for seq in $(seq 1 16); do
    run get k --at "#$seq"
    want_out_unlike SECRET
  done
done <<'END'
persistent set k 1; persistent set k '"SECRET"'; undo
persistent set k '"SECRET"'; undo
persistent set k '"SECRET"'; persistent set k 1; undo
persistent set k '"SECRET"'; persistent set k 1; undo 2; redo
persistent set k 1; persistent set k '"SECRET"'; reset main~1
persistent set k '"SECRET"'; del k; persistent set k 2
persistent set k '"SECRET"'; del k first; undo
persistent set k '"SECRET"'; revert main; persistent set k 1
fork fork/try; put k '"SECRET"' --ref fork/try; refs -d fork/try; persistent set k 1
END
printf '%s\n' '{"op":"put","key":"j","value":"SECRET"}' '{"op":"delete","key":"j"}' '{"op":"put","key":"j","value":1}' >ops
"$perdure" batch <ops >"$out" 2>"$err"
want_true [ "$(grep -c '"ok":true' "$out")" = 3 ]
run persistent delete j
for seq in $(seq 1 20); do
  run get j --at "#$seq"
  want_out_unlike SECRET
done
run verify
want_code 0

t cli__log_all_shows_every_kind_of_record
run put k 1
run fork f
run undo
run log --all --oneline
want_out_like 'undo main'
want_out_like 'fork f'
want_out_like 'put k'
run --json log --all -n 1
want_out_like '^\{"records":\[\{"seq":[0-9]+'

finish
