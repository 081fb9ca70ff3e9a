#!/bin/sh
# run_tests_test.sh TOOLS-FOLDER: tools/run-tests counts right, whatever the programs do. TAP.
set -u
tools=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
status=0

program() { # NAME SHELL-CODE
  printf '#!/bin/sh\n%s\n' "$2" >"$work/$1"
  chmod +x "$work/$1"
}
program good 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b"'
program bad 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 - b"; exit 1'
program cut_short 'echo 1..3; echo "ok 1 - a"'
program silent 'exit 0'
program odd_status 'echo 1..1; echo "ok 1 - a"; exit 3'
program killed 'echo 1..1; kill -KILL $$'
program slow 'echo 1..1; exec sleep 300'
program skips 'echo 1..2; echo "ok 1 - a # SKIP no"; echo "ok 2 - b"'

expect() { # NAME STATUS LAST-LINE PROGRAM...
  count=$((count + 1))
  name=$1 wanted=$2 line=$3
  shift 3
  rm -rf "$work/build"
  echo "project('x')" >"$work/meson.build"
  for p in "$@"; do
    limit=300
    [ "$p" != slow ] || limit=1
    echo "test('$p', find_program('./$p'), protocol: 'tap', timeout: $limit)" >>"$work/meson.build"
  done
  meson setup "$work/build" "$work" >/dev/null 2>&1
  MESON_TESTTHREADS=2 "$tools/run-tests" "$work/build" >"$work/out" 2>&1
  got=$?
  if [ $got = "$wanted" ] && [ "$(tail -1 "$work/out")" = "$line" ]; then
    echo "ok $count - $name"
  else
    status=1
    echo "not ok $count - $name"
    sed 's/^/# /' "$work/out"
  fi
}

expect run_tests__all_that_pass_are_added_up 0 "3 passed, 0 failed" good skips
expect run_tests__every_way_to_fail_counts 1 "6 passed, 6 failed" good bad cut_short silent odd_status killed skips slow
expect run_tests__no_test_at_all_is_a_failure 1 "0 passed, 0 failed"
echo "1..$count"
exit $status
