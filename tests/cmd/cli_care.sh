#!/bin/sh
# cli_care.sh PERDURE: du, doctor, repair.
. "$(dirname "$0")/tap.sh"

# 1500 commits over 300 keys, so that there are keyframes, and a large value
make_store() {
  awk 'BEGIN { for (i = 1; i <= 1500; i++) printf "{\"op\":\"put\",\"key\":\"k/%d\",\"value\":%d}\n", i % 300, i }' | "$perdure" batch >/dev/null
  head -c 40000 /dev/zero | tr '\0' x >large
  run put large @large
  run --json stats
  want_out_unlike '"keyframes":0,'
}
sql() { sqlite3 .perdure/main.db "$1" || bad "sqlite3: $1"; }
# the only blobs as large as this are the values
nodes="length(data) < 39000"
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$out"; }

t du__adds_up_by_prefix_and_ref
run put a/x 12345
run put a/y 1
run put b 22
run fork side
run put b 333 --ref side
run du
want_code 0
want_out_like '^ +6 B +2  a/$'
want_out_like '^ +2 B +1  b$'
want_out_like '^ +8 B +3  in all$'
want_out_like '^ +8 B +3  main$'
want_out_like '^ +9 B +3  side$'
run du a/
want_out_like '^ +5 B +1  a/x$'
run du --at main~2
want_out_like '^ +5 B +1  in all$'
run du --depth 2
want_out_like '^ +5 B +1  a/x$'
run du --depth 0
want_failure 2 depth

t du__sums_are_what_stats_says_and_values_count_once
make_store
run put again @large
run --json stats
log=$(number log_bytes) bag=$(number bag_bytes) disk=$(number disk_bytes)
run --json du
want_code 0
want_true [ "$(number log_bytes)" = "$log" ]
want_true [ $(($(number bag_value_bytes) + $(number bag_node_bytes))) = "$bag" ]
want_true [ "$(number bag_value_bytes)" = 40000 ]
want_true [ "$(number disk_bytes)" = "$disk" ]
want_true [ $(($(number overhead_bytes) + log + bag)) = "$disk" ]
want_true [ "$(number history_versions)" = 1200 ]
want_true [ "$(number live_versions)" = 301 ]

t du__without_a_store_is_refused
run du
want_failure 4 'no store'

t doctor__a_sound_home_has_nothing_worse_than_a_note
make_store
run doctor
want_code 0
want_out_unlike '^(warning|error)'
want_out_has 'sound'
run --json doctor
want_out_like '^\{"findings":\[\{"severity":"(ok|note)",.*\],"worst":"(ok|note)"\}$'

t doctor__names_what_is_wrong_with_the_folder
make_store
chmod 755 .perdure
chmod 644 .perdure/main.db
: >.perdure/strange.txt
for ours in perdure.toml policy.toml vault.json restore.json vault.lock restore.lock .restore.lock .joint.lock; do : >".perdure/$ours"; done
mkdir -p .perdure/snapshots .perdure/backups
: >.perdure/gone.lock
: >.perdure/gone2.db-wal
run put k 1 --agent Twin
run put k 1 --agent twin
run doctor
want_code 1
want_out_like '^warning others may look into the home: its mode is 0755$'
want_out_like "^warning others may use 'main.db': its mode is 0644$"
want_out_like "^note    'strange.txt' is no file of perdure$"
want_out_like "^note    'gone.lock' has no database"
want_true [ "$(grep -c 'has no database' "$out")" = 2 ] # and gone2.db-wal: perdure's own locks are not left over
want_true [ "$(grep -c 'is no file of perdure' "$out")" = 1 ]
want_out_like "^warning 'gone2.db-wal' has no database"
want_out_like "^warning agent 'Twin': its name differs from 'twin' only by case$"

t doctor__a_missing_home_and_a_foreign_file_are_errors
run doctor
want_code 4
want_out_like '^error   there is no home'
want_true [ ! -e .perdure ]
mkdir -m 700 .perdure
head -c 5000 /dev/zero >.perdure/main.db
run doctor
want_code 4
want_out_like "^error   agent 'main': the database is no store of perdure$"

t doctor__finds_damaged_nodes
make_store
sql "UPDATE bag SET data = zeroblob(length(data)) WHERE $nodes"
run doctor
want_code 4
want_out_like "^error   agent 'main': "
want_out_has 'perdure repair'

t doctor__finds_another_journal_mode
run put k 1
sql 'PRAGMA journal_mode=DELETE' >/dev/null
run doctor
want_code 1
want_out_has 'not in WAL mode'

t repair__has_nothing_to_do_on_a_sound_store
make_store
run log --all --oneline
cp "$out" before
run repair
want_code 0
want_out_has 'nothing to repair'
run log --all --oneline
want_true cmp -s before "$out"

t repair__makes_missing_blobs_again
make_store
run ls --tsv
cp "$out" before
sql "DELETE FROM bag WHERE $nodes"
run get k/1
want_code 4
run repair --dry-run
want_code 1
want_out_like '^derived: a tree node is missing'
want_out_like "^derived: a keyframe's catalog is missing"
run verify
want_code 4
run repair
want_code 0
want_out_like '^repaired$'
run verify
want_code 0
run ls --tsv
want_true cmp -s before "$out"
run log --all -n 1
want_out_has repair

t repair__replaces_damaged_blobs
make_store
run ls --tsv
cp "$out" before
sql "UPDATE bag SET data = x'00' || substr(data, 2) WHERE $nodes AND n % 2"
sql "UPDATE bag SET data = substr(data, 1, length(data) - 1) WHERE $nodes AND n % 2 = 0"
run --json repair
want_code 0
want_out_like '"ok":true,"dry_run":false,.*"missing":0,.*"lost":0,'
want_true [ "$(number damaged)" = "$(number mended)" ]
want_true [ "$(number mended)" -gt 5 ]
run verify
want_code 0
run ls --tsv
want_true cmp -s before "$out"
run doctor
want_code 0

t repair__goes_back_to_an_older_keyframe
make_store
awk 'BEGIN { for (i = 1; i <= 1500; i++) printf "{\"op\":\"put\",\"key\":\"m/%d\",\"value\":%d}\n", i % 300, i }' | "$perdure" batch >/dev/null
run ls --tsv
cp "$out" before
newest=$(sqlite3 .perdure/main.db "SELECT max(n) FROM bag WHERE $nodes")
sql "UPDATE bag SET data = zeroblob(100) WHERE n = $newest"
run get m/1
want_code 4
run repair
want_code 0
run verify
want_code 0
run ls --tsv
want_true cmp -s before "$out"

t repair__names_a_lost_value_and_changes_nothing_without_keep_going
make_store
sql "UPDATE bag SET data = zeroblob(length(data)) WHERE NOT ($nodes)"
sql "DELETE FROM bag WHERE $nodes AND n % 2"
run repair
want_code 4
want_out_like "^lost: record [0-9]+, key 'large', commit [0-9a-f]{12}: the value does not match its id"
want_err_like 'nothing was changed'
run repair --dry-run
want_code 4
want_out_has 'derived: '
run repair --keep-going
want_code 4
run repair --dry-run
want_code 4
want_out_unlike '^derived: '
run get k/1
want_code 0

t repair__names_a_damaged_record
make_store
sql "UPDATE log SET data = zeroblob(length(data)) WHERE seq = 20"
run repair
want_code 4
want_out_like '^lost: .*record 20'
want_out_like 'cannot be repaired$'

t repair__without_a_store_is_refused
run repair
want_failure 4 'no store'
want_true [ ! -e .perdure ]

finish
