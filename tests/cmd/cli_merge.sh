#!/bin/sh
# cli_merge.sh PERDURE: merge, cherry-pick, revert, settings.
. "$(dirname "$0")/tap.sh"

# main and side have {"a":0} in common; each changed it
diverge() { # OURS THEIRS
  run put plan '{"a":0}'
  run fork side
  run put plan "$1"
  run put plan "$2" --ref side
  run put extra 1 --ref side
}
head_of() { "$perdure" --json refs | tr '{' '\n' | grep "\"ref\":\"$1\""; }

t cli__merge_brings_in_what_the_other_changed
run put a 1
run fork side
run put b 2
run put c 3 --ref side
run merge side
want_code 0
want_id
run get c
want_out 3
run get b
want_out 2
run log --oneline
want_out_has 'merge side'
run --json show
want_out_like '"parents":\["[0-9a-f]{64}","[0-9a-f]{64}"\]'
run merge side
want_code 0
want_id
want_err_like 'has all of it already'
run --json merge side
want_out_like '^\{"outcome":"up-to-date","ref":"main","dry_run":false,.*"changes":\[\],"conflict_total":0,"conflicts":\[\]\}$'
run verify
want_code 0

t cli__merge_moves_a_ref_that_is_behind
run put a 1
run fork side
run put b 2 --ref side
run merge side
want_err_like 'moved forward'
run --json log
want_count 1
run put c 1 --ref side
run merge side --no-ff
want_code 0
run --json show
want_out_like '"parents":\["[0-9a-f]{64}","[0-9a-f]{64}"\]'

t cli__conflicts_are_printed_and_nothing_is_changed
diverge '{"a":1}' '{"a":2}'
before=$(head_of main)
run merge side
want_code 3
want_out_like '^! plan: changed by both$'
want_out_like '^    base    \{"a":0\}$'
want_out_like '^    ours    \{"a":1\}$'
want_out_like '^    theirs  \{"a":2\}$'
want_err_like '^1 conflict, nothing was changed'
run merge side --policy json
want_code 3
want_out_like '^! plan at /a: changed by both$'
want_out_like '^    theirs  2$'
run --json merge side --policy json
want_code 3
want_no_err
want_out_like '^\{"outcome":"conflicts","ref":"main",'
want_out_has '"conflict_total":1,"conflicts":[{"key":"plan","path":"/a","rule":"json","why":"changed by both","base":{"value":0},"ours":{"value":1},"theirs":{"value":2}}]}'
want_true [ "$before" = "$(head_of main)" ]
run get extra
want_code 1

t cli__a_side_that_is_absent_is_told_as_absent
run put k 1
run fork side
run del k
run put k 2 --ref side
run merge side
want_code 3
want_out_like '^! k: deleted by ours, changed by theirs$'
want_out_like '^    ours    \(absent\)$'
run --json merge side
want_out_has '"ours":null,"theirs":{"value":2}'

t cli__resolve_settles_conflicts_by_value_and_by_side
diverge '{"a":1}' '{"a":2}'
for how in 'ours {"a":1}' 'theirs {"a":2}' 'base {"a":0}'; do
  run fork "try-${how%% *}" --at main
  run merge side --ref "try-${how%% *}" --resolve "plan=@${how%% *}"
  want_id
  run get plan --at "try-${how%% *}"
  want_out "${how#* }"
done
run fork try-delete
run merge side --ref try-delete --resolve plan=@delete
want_code 0
run has plan --at try-delete
want_code 1
printf 'from a file' >file
run merge side --resolve plan=@file --dry-run
want_line '+ extra  1 bytes
~ plan  11 bytes  resolved'
run merge side --resolve 'plan=a=b'
want_id
run get plan
want_out 'a=b'
run get extra
want_out 1

t cli__resolutions_come_from_a_file_too
diverge '{"a":1,"b":[1]}' '{"a":2,"b":[2]}'
printf '[{"key":"plan","path":"/a","value":{"n":1.50}},\n {"key":"pl\\u0061n","path":"/b","take":"theirs"}]' >settled.json
run merge side --policy json --resolutions settled.json
want_id
run get plan
want_out '{"a":{"n":1.50},"b":[2]}'

t cli__bad_resolutions_are_refused_and_named
diverge '{"a":1}' '{"a":2}'
before=$(head_of main)
run merge side --resolve plan
want_failure 2 'KEY=VALUE'
run merge side --resolve =x
want_failure 2 'KEY=VALUE'
run merge side --resolve plna=x
want_failure 2 "nothing to resolve at key 'plna'"
run merge side --resolve plan=x --resolve plan=y
want_failure 2 'resolved twice'
run merge side --resolve plan=@nofile
want_failure 2 'nofile'
run merge side --resolutions nofile.json
want_failure 2 'nofile.json'
for bad in '{' '{}' '[1]' '[{"key":"plan"}]' '[{"value":1}]' '[{"key":"plan","value":1,"text":"x"}]' '[{"key":"plan","take":"mine"}]' \
  '[{"key":"plan","base64":"%"}]' '[{"key":"plan","valeu":1}]' '[{"key":1,"value":1}]' '[{"key":"plan","path":"a","value":1}]'; do
  printf '%s' "$bad" >bad.json
  run merge side --resolutions bad.json
  want_code 2
  want_no_out
done
run merge side --policy sometimes
want_failure 2 "'sometimes' is no merge rule"
want_true [ "$before" = "$(head_of main)" ]

t cli__dry_run_says_what_would_change
run put gone 1
run put n 1
run settings merge.rule.n counter
run fork side
run put n 2
run put n 5 --ref side
run del gone --ref side
run put new x --ref side
run merge side --dry-run
want_code 0
want_line '- gone
~ n  1 bytes  merged by counter
+ new  1 bytes'
want_err_like 'would be committed, 3 keys'
run --json merge side -n
want_out_has '"dry_run":true'
want_out_has '"changes":[{"key":"gone","change":"deleted"},{"key":"n","change":"changed","size":1,"merged_by":"counter"},{"key":"new","change":"added","size":1}]'
run get n
want_out 2

t cli__unrelated_histories_need_permission
run put a 1
run fork side --at root
run put b 1 --ref side
run merge side
want_failure 2 'unrelated histories'
want_err_like '^hint: .*--allow-unrelated'
run merge side --allow-unrelated
want_id
run get b
want_out 1

t cli__cherry_pick_and_revert_work_on_one_commit
run put a 1
run fork side
run put b 1 --ref side
run put c 1 --ref side
run cherry-pick side
want_id
run get c
want_out 1
run has b
want_code 1
run log --oneline
want_out_like 'cherry-pick [0-9a-f]{12}'
run cherry-pick side
want_code 0
want_err_like 'has all of it already'
run put d 1
run revert main~1
want_id
run has c
want_code 1
run get d
want_out 1
run revert root
want_failure 2 'root commit'
run revert main -m 2
want_failure 2 'there is no parent 2'
run cherry-pick nowhere
want_failure 1 'nowhere'

t cli__settings_are_set_shown_and_removed
run put a 1
run settings
want_no_out
run settings merge.rule.n/ counter --reason 'they count'
want_code 0
run settings merge.rule.n/
want_line counter
run settings
want_line 'merge.rule.n/ = counter'
run --json settings
want_line '{"settings":{"merge.rule.n/":"counter"}}'
run --json settings merge.rule.n/
want_line '{"name":"merge.rule.n/","value":"counter"}'
run settings merge.rule.n/ count
want_failure 2 "'count' is no merge rule"
run settings merge.rule.n/ --unset
want_code 0
run settings merge.rule.n/
want_failure 1 "there is no setting 'merge.rule.n/'"
run settings --unset
want_failure 2 'one NAME'
run log --oneline
want_count 1

t cli__the_subagents_story
run put tasks '["a","b","c"]'
run put done '[]'
run put spent 0
run settings merge.rule.tasks set
run settings merge.rule.done append
run settings merge.rule.spent counter
for i in 1 2 3; do run fork agent-$i; done
run put tasks '["b","c"]' --ref agent-1
run put done '["a"]' --ref agent-1
run put spent 5 --ref agent-1
run put tasks '["a","c","d"]' --ref agent-2
run put done '["b"]' --ref agent-2
run put spent 5 --ref agent-2
run put spent 5 --ref agent-3
for i in 1 2 3; do
  run merge agent-$i
  want_id
done
run get tasks
want_out '["c","d"]'
run get done
want_out '["a","b"]'
run get spent
want_out 15
run verify
want_code 0

finish
