#!/bin/sh
# cli_faults.sh PERDURE: bad input and broken storage: a clear line that names the thing, the right exit code, nothing changed.
. "$(dirname "$0")/tap.sh"

# A copy that others may run: the permission tests run as nobody when we are root, whom no permission stops.
chmod 755 "$tmp"
cp "$perdure" "$tmp/perdure" && chmod 755 "$tmp/perdure"
run_as_nobody() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=65534 --regid=65534 --clear-groups "$tmp/perdure" "$@" >"$out" 2>"$err" </dev/null
  else
    "$tmp/perdure" "$@" >"$out" 2>"$err" </dev/null
  fi
  code=$?
}
own() { [ "$(id -u)" != 0 ] || chown -R 65534:65534 "$@"; }

t cli__malformed_uris_are_refused
for uri in '' nosuch:x sqlite: ftp://host/x; do
  run --store "$uri" put k 1
  want_failure 2 .
done
want_true test -z "$(ls)"

t cli__bad_agent_names_are_refused
long=$(printf '%065d' 0)
for agent in '' .hidden a/b ../x 'a b' "$long"; do
  run --agent "$agent" put k 1
  want_failure 2 .
done
want_true test ! -e .perdure

t cli__bad_keys_are_refused
run put '' 1
want_failure 2 'key'
run put "$(printf '%01025d' 0)" 1
want_code 5
want_err_like '^perdure: .*1024'
run put "$(printf 'a\377')" 1
want_failure 2 'UTF-8'
run put "$(printf 'a\355\240\200')" 1
want_failure 2 'UTF-8'
want_true test ! -e .perdure
run put "$(printf '%01024d' 0)" 1
want_code 0
run get ''
want_failure 2 'key'
run_with '{"op":"put","key":"a\u0000b","value":1}' batch
want_code 2
want_out_like 'NUL'

t cli__values_over_the_limit_are_refused
head -c 67108865 /dev/zero >big
run put k @big
want_failure 5 '67108864'
want_true test ! -e .perdure
"$perdure" put k - <big >"$out" 2>"$err"
code=$?
want_failure 5 'standard input.*67108864'
truncate -s 67108864 big
run put k @big
want_code 0
run --json get k --at main~0
want_out_has '"size":67108864'

t cli__files_that_cannot_be_read_are_named
run put k @missing
want_failure 2 "'missing'"
mkdir folder
run put k @folder
want_failure 4 folder
want_true test ! -e .perdure

t cli__unknown_points_are_named
run put k 1
for at in nowhere 0123456789abcdef main~5 nowhere~1 main@2001-01-01~3; do
  run get k --at "$at"
  want_code 1
  want_no_out
  want_err_like '^perdure: '
done
run get k --at '#99'
want_code 1
for at in 'main~x' '@notatime' '#x' '#' 'main@'; do
  run get k --at "$at"
  want_no_out
  case $code in 1 | 2) ;; *) bad "exit code $code for $at" ;; esac
done
run show abc
want_no_out
case $code in 1 | 2) ;; *) bad "exit code $code for a short id" ;; esac

t cli__ambiguous_short_ids_are_told
i=0
while [ $i -lt 1200 ]; do echo "{\"op\":\"put\",\"key\":\"k\",\"value\":$i}"; i=$((i + 1)); done | "$perdure" batch >answers 2>"$err"
prefix=$(sed 's/.*"commit":"\(....\).*/\1/' answers | sort | uniq -d | head -1)
if [ -z "$prefix" ]; then
  skip "no two of 1200 commits share four digits"
else
  run show "$prefix"
  want_failure 2 "$prefix"
  run --json get k --at "$prefix"
  want_code 2
  want_err_like '"code":"Ambiguous"'
fi

t cli__bad_ref_names_are_refused
run put k 1
for ref in '' .x 'a b' 'a~1' '-x' 'a@b' '#1'; do
  run fork -- "$ref"
  want_failure 2 .
  run put --ref="$ref" k 2
  want_failure 2 .
done
run put k 2 --ref nosuchref
want_failure 1 nosuchref
run get k
want_out 1

t cli__notes_over_the_limit_are_refused
run put k 1
run put k 2 --reason "$(printf '%05000d' 0)"
want_code 5
run get k
want_out 1

t cli__a_store_path_that_is_a_file_is_refused
echo hello >file
run --store sqlite:file put k 1
want_failure 4 file
run --store sqlite:file get k
want_code 4
want_true test "$(cat file)" = hello

t cli__a_file_that_is_no_store_is_refused_and_kept
mkdir .perdure
head -c 5000 /dev/urandom >.perdure/main.db
cp .perdure/main.db before
run get k
want_failure 4 .
run put k 1
want_failure 4 .
want_true cmp -s before .perdure/main.db
echo 'just text' >.perdure/main.db
run put k 1
want_failure 4 .
want_true test "$(cat .perdure/main.db)" = 'just text'

t cli__a_truncated_store_is_detected
i=0
while [ $i -lt 300 ]; do echo "{\"op\":\"put\",\"key\":\"k$i\",\"text\":\"$(printf '%0300d' $i)\"}"; i=$((i + 1)); done | "$perdure" batch >/dev/null
rm -f .perdure/main.db-wal .perdure/main.db-shm
size=$(stat -c %s .perdure/main.db)
if [ "$size" -lt 20000 ]; then
  skip "all records are in the write-ahead log"
else
  truncate -s $((size / 2)) .perdure/main.db
  run verify
  want_code 4
  run get k299
  case $code in
  0) want_out "$(printf '%0300d' 299)" ;;
  *) want_code 4 ;;
  esac
fi

t cli__flipped_bits_are_detected_or_harmless
i=0
while [ $i -lt 40 ]; do echo "{\"op\":\"put\",\"key\":\"k$i\",\"text\":\"value-$i\"}"; i=$((i + 1)); done | "$perdure" batch >/dev/null
"$perdure" ls --tsv >want
cp -r .perdure whole
detected=0
for file in $(ls whole | grep '^main\.db' | grep -v -e '-shm$' -e lock); do
  size=$(stat -c %s "whole/$file")
  for part in 3 11 23 37 53 71 89; do
    [ "$size" -gt 200 ] || continue
    rm -rf .perdure && cp -r whole .perdure
    at=$((size * part / 97))
    byte=$(od -An -tu1 -j "$at" -N 1 "whole/$file" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((byte ^ 4)))" | dd of=".perdure/$file" bs=1 seek="$at" conv=notrunc 2>/dev/null
    run ls --tsv
    case $code in
    0) cmp -s want "$out" || bad "wrong data after a bit flip in $file at $at" ;;
    4) detected=$((detected + 1)) ;;
    *) bad "exit code $code after a bit flip in $file at $at" ;;
    esac
    run verify
    case $code in 0 | 4) ;; *) bad "verify exits $code after a bit flip in $file at $at" ;; esac
  done
done
[ "$detected" -gt 0 ] || bad "no flip was detected"

t cli__a_folder_without_rights_is_told
mkdir home
own home
run_as_nobody --store home put k 1
want_code 0
chmod 000 home
run_as_nobody --store home put k 2
want_failure 4 home
run_as_nobody --store home get k
want_failure 4 .
chmod 755 home
run_as_nobody --store home get k
want_out 1

t cli__a_read_only_folder_can_be_read_but_not_written
mkdir home
own home
run_as_nobody --store home put k 1
chmod 400 home/*
chmod 500 home
run_as_nobody --store home put k 2
want_failure 4 .
run_as_nobody --store home get k
want_code 0
want_out 1
run_as_nobody --store home verify
want_code 0
chmod 700 home
chmod 600 home/*
run_as_nobody --store home get k
want_out 1

t cli__a_folder_that_cannot_be_made_is_told
mkdir locked
own locked
chmod 500 locked
run_as_nobody --store locked/home put k 1
want_failure 4 locked
run --store /proc/nope/home put k 1
want_failure 4 /proc/nope

t cli__store_files_are_private
run put k 1
for file in .perdure/main.db*; do want_true test "$(stat -c %a "$file")" = 600; done

t cli__a_full_disk_loses_nothing
run put k kept
before=$(cat "$out")
head -c 8000000 /dev/urandom >big
(
  trap '' XFSZ
  ulimit -f 4000 # blocks of 512 or 1024 bytes
  "$perdure" put k @big >"$out" 2>"$err"
)
code=$?
want_failure 4 .
run get k
want_out kept
run show
want_out_has "$(printf %.12s "$before")"
run verify
want_code 0

t cli__a_full_disk_is_named
if unshare -m true 2>/dev/null; then
  # shellcheck disable=SC2016
  unshare -m sh -c '
    mkdir small && mount -t tmpfs -o size=2m none small || exit 77
    "$1" --store small put k kept >/dev/null || exit 1
    head -c 4000000 /dev/urandom | "$1" --store small put k - >"$2" 2>"$3"
    echo $? >code
    "$1" --store small get k >got
    "$1" --store small verify >verified
    echo $? >>code' sh "$perdure" "$out" "$err"
  unshared=$?
  if [ $unshared = 77 ]; then
    skip "no tmpfs here"
  else
    code=$(head -1 code)
    want_failure 4 '([Nn]o space|full)'
    want_true test "$(cat got)" = kept
    want_true test "$(tail -1 code)" = 0
  fi
else
  skip "no mount namespaces here"
fi

t cli__a_newer_format_is_refused
run put k 1
if command -v sqlite3 >/dev/null 2>&1; then
  version=$(sqlite3 .perdure/main.db 'PRAGMA user_version')
  sqlite3 .perdure/main.db "PRAGMA user_version = $((version + 1000))"
  run get k
  want_failure 4 '(newer|version)'
  run put k 2
  want_failure 4 '(newer|version)'
else
  skip "no sqlite3"
fi

finish
