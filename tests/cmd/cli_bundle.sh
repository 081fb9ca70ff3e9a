#!/bin/sh
# cli_bundle.sh PERDURE: export, import, clone, push, pull.
. "$(dirname "$0")/tap.sh"

t cli__a_bundle_is_for_its_owner_alone
run put plan one
(umask 022 && "$perdure" export --all private.bundle) 2>/dev/null
want_true [ "$(stat -c %a private.bundle)" = 600 ]
(umask 022 && "$perdure" prove plan -o private.proof) >/dev/null 2>&1
want_true [ "$(stat -c %a private.proof)" = 600 ]
rm -rf .perdure

t cli__a_bundle_carries_history_to_another_home
run put plan one --author ada --reason first
run put plan two
run tag v1
head=$(cat .perdure/main.db >/dev/null && "$perdure" --json show main | grep -o '"commit":"[0-9a-f]*"' | head -n 1)
run export --all all.bundle
want_code 0
run --store other import all.bundle
want_code 0
want_out_like '^forwarded  [0-9a-f]{12}  main$'
run --store other get plan --at main~1
want_out one
run --store other --json show main
want_out_has "$head"
run --store other log
want_out_like '^Author: ada$'
run --store other verify
want_code 0
run --store other --json import all.bundle
want_out_like '"added":0,.*"refs":\[\{"ref":"main","commit":"[0-9a-f]{64}","fate":"unchanged"\}\]\}$'

t cli__an_increment_needs_what_it_builds_on
run put k 1
run put k 2
run --json export main --since main~1 inc.bundle
want_out_like '"commits":1,.*"needs":1,'
run --store other import inc.bundle
want_failure 3 'builds on commit [0-9a-f]{64}'
run export main whole.bundle
run --store other import whole.bundle
run --store other import inc.bundle
want_code 0

t cli__a_damaged_bundle_changes_nothing
run put k 1
run export main whole.bundle
head -c 100 whole.bundle >cut.bundle
run --store other init
run --store other import cut.bundle
want_failure 4 'cut off'
echo nonsense >no.bundle
run --store other import no.bundle
want_failure 4 'no bundle'
run --store other get k
want_code 1
run --store other import missing.bundle
want_failure 4 'missing.bundle'

t cli__bundles_go_through_pipes
run put k piped
"$perdure" -q export - | "$perdure" -q --store other import - >"$out" 2>"$err"
run --store other get k
want_out piped

t cli__a_dry_run_imports_nothing
run put k 1
run export main whole.bundle
run --store other init
run --store other import -n whole.bundle
want_code 0
want_err_like '1 of 1 commits .* would be new'
run --store other get k
want_code 1

t cli__a_diverged_ref_is_refused_unless_it_gets_another_name
run put k 1
run export main whole.bundle
run --store other put k else
run --store other import whole.bundle
want_failure 3 diverged
run --store other import whole.bundle --as theirs
want_code 0
run --store other get k --at theirs/main
want_out 1
run --store other get k
want_out else

t cli__two_homes_push_and_pull
run --store a put k 1
run clone a b
want_code 0
run --store b put k 2
run --store b push
want_code 0
run --store a get k
want_out 2
run --store a put k 3
run --store b pull
want_code 0
want_err_like "'main' moved forward"
run --store b get k
want_out 3
run --store a put x a
run --store b put y b
run --store b push
want_failure 3 diverged
run --store b pull
want_code 3
want_err_like 'perdure merge origin/main'
run --store b get y
want_out b
run --store b get x --at origin/main
want_out a
run --store b verify
want_code 0

t cli__a_clone_is_of_a_new_store_and_remembers_the_agent
run --store a --agent one put k 1
run --store b --agent two clone a --remote-agent one
want_code 0
run --store b --agent two get k
want_out 1
run --store b --agent two clone a --remote-agent one
want_failure 3 'has a history already'
run --store b --agent two put k 2
run --store b --agent two push
want_code 0
run --store a --agent one get k
want_out 2
run --store a --agent one push
want_failure 2 "no remote 'origin'"
run clone nowhere c
want_failure 4 "no store for agent 'main'"

t cli__what_was_erased_travels_as_erased
run put k secret
run put k two
run erase k --everywhere
run export --all all.bundle
want_code 0
run --store other import all.bundle
want_code 0
run --store other get k --at main~1
want_failure 1 'was erased on .* by'
run --store other verify
want_code 0

t cli__since_may_be_given_for_each_line
run put k 1
run fork side
run put k 2
run put s 1 --ref side
run export --all base.bundle
run --store other import base.bundle
run put k 3
run put s 2 --ref side
run --json export main side --since main~1 --since side~1 more.bundle
want_out_like '"commits":2,.*"needs":2,'
run --store other import more.bundle
want_code 0
run --store other get s --at side
want_out 2
run export main side --since main~1 --since nowhere no.bundle
want_failure 1 nowhere
want_true [ ! -e no.bundle ]

t cli__pull_all_moves_every_ref_that_can_move
run put k 1
run fork side
run clone sqlite:.perdure copy
run put k 2
run put s 2 --ref side
run fork fresh
run --store copy put mine 1 --ref side
run --store copy pull --all
want_code 3
want_err_like "'side' and 'origin/side' have diverged"
run --store copy get k
want_out 2
run --store copy get k --at fresh
want_out 2
run --store copy get mine --at side
want_out 1
run --store copy get s --at origin/side
want_out 2
run --store copy refs
want_true [ "$(grep -c 'origin/origin' "$out")" = 0 ]

t cli__a_signed_head_stays_at_home
run put k 1
run keygen
run sign main
want_code 0
run clone sqlite:.perdure copy
want_code 0
run --store copy verify
want_code 0

t cli__large_settings_travel
run put k 1
run settings note "$(head -c 40000 /dev/zero | tr '\0' x)"
want_code 0
run clone sqlite:.perdure copy
run --store copy settings note
want_true [ "$(wc -c <"$out")" -ge 40000 ]

t cli__values_over_64_megabytes_travel
truncate -s 70M zeros
run put z @zeros --value-max 100M
want_code 0
run export --all all.bundle
want_code 0
run --store other import all.bundle
want_code 0
"$perdure" --store other get z | cmp -s - zeros
want_true [ $? = 0 ]

t cli__a_store_that_gc_has_cut_is_cloned_as_it_is
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do run put old$i $i --author ada --reason early; done
run tag early
for i in $(seq 40); do run put k $i; done
run gc --keep-last 2 --keep-versions 3
want_code 0
run clone sqlite:.perdure copy
want_code 0
run --store copy verify
want_code 0
"$perdure" --json show main >here.json
run --store copy --json show main
want_true [ "$(grep -o '"commit":"[0-9a-f]*"' here.json | head -n 1)" = "$(grep -o '"commit":"[0-9a-f]*"' "$out" | head -n 1)" ]
run --store copy get k
want_out 40
run --store copy get old7 --at early
want_out 7
run --store copy get k --at early
want_code 1
run --store copy history old7
want_out_like ada
run --store copy get k --at main~30
want_failure 4 retired
run get k --version 38
want_out 38
run --store copy get k --version 38
want_out 38
run get k --version 5
want_failure 4 'gone'
run --store copy get k --version 5
want_failure 4 'gone'
run --store copy put k 41
run --store copy push
want_code 0
run get k
want_out 41

t cli__a_shallow_store_is_cared_for_like_any_other
for i in $(seq 60); do run put k$((i % 7)) $i; done
run gc --keep-last 3
run clone sqlite:.perdure copy
run --store copy repair
want_code 0
run --store copy doctor
want_code 0
run --store copy verify
want_code 0
for i in $(seq 30); do run --store copy put n $i; done
run --store copy gc --keep-last 2
want_code 0
run --store copy verify
want_code 0
run --store copy get k4
want_out 60
run --store copy erase k4 --everywhere
want_code 0
run --store copy verify
want_code 0
run --store copy repair
want_code 0
run --store copy export --all again.bundle
want_code 0
run --store third import again.bundle
want_code 0
run --store third verify
want_code 0
run --store third get n
want_out 30
finish
