#!/bin/sh
# plant_test.sh CAPGEN ROOT BUILD CC...: a capability without a permission, and a call of one past the dispatcher, are not built. TAP.
set -u
capgen=$1 root=$2 build=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
count=0

say() { # NAME WAS-RIGHT(0|1)
  count=$((count + 1))
  if [ "$2" = 0 ]; then
    echo "ok $count - $1"
  else
    status=1
    echo "not ok $count - $1"
    sed 's/^/# /' "$work/out"
  fi
}

refuses() { # NAME PART: capgen names the planted file, says PART, and writes nothing
  rm -f "$work/table.c"
  right=0
  "$capgen" table "$work/table.c" "$root/capabilities/common.json" "$work/state.planted.json" >"$work/out" 2>&1 && right=1
  grep -q "state.planted.json: .*$2" "$work/out" || right=1
  [ ! -e "$work/table.c" ] || right=1
  say "$1" $right
}

planted() { # from state.persistent.get, with this change
  sed -e 's/"name": "state.persistent.get"/"name": "state.planted"/' -e "$1" "$root/capabilities/state.persistent.get.json" \
    >"$work/state.planted.json"
}

planted ''
"$capgen" table "$work/table.c" "$root/capabilities/common.json" "$work/state.planted.json" >"$work/out" 2>&1
say plant__a_capability_with_a_permission_is_built $?
planted '/"permission":/d'
refuses plant__a_capability_without_a_permission_is_refused "'permission' is missing"
planted 's/"permission": "autonomous"/"permission": "anybody"/'
refuses plant__a_permission_that_does_not_exist_is_refused 'permission "anybody" is not known'
planted 's/"permission": "autonomous"/"permission": ""/'
refuses plant__an_empty_permission_is_refused 'permission "" is not known'
planted 's/"errors": \[/"errors": ["any:Nothing", /'
refuses plant__a_shared_error_that_does_not_exist_is_refused "common.json has no shared error 'any:Nothing'"
planted 's/"errors": \[/"errors": ["any:InvalidId", /'
"$capgen" table "$work/table.c" "$root/capabilities/common.json" "$work/state.planted.json" >"$work/out" 2>&1 &&
  grep -q '"InvalidId"' "$work/table.c"
say plant__a_shared_error_is_one_of_the_capability $?

compile() { # a function of this body
  printf '#include "state/run.h"\n\nstatic pd_code planted(pd_frame *frame, pd_error *err)\n{\n  %s\n}\n' "$body" >"$work/planted.c"
  printf 'pd_cap_run planted_too = planted;\n' >>"$work/planted.c"
  "$@" -std=gnu17 -D_GNU_SOURCE -I"$root/include" -I"$root/src" -I"$build/src" -c "$work/planted.c" -o "$work/planted.o" >"$work/out" 2>&1
}

body='return pd_capability_run(frame, err);'
compile "$@"
say plant__what_runs_with_a_grant_compiles $?
body='return pd_cap_state_persistent_get(frame, err);'
right=0
compile "$@" && right=1
grep -q 'a capability runs through pd_capability_run' "$work/out" || right=1
say plant__a_capability_that_is_called_by_its_name_does_not_compile $right

echo "1..$count"
exit $status
