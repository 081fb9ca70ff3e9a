#!/bin/sh
# tools_test.sh TOOLS-FOLDER: the checks of the house find what they are for, and nothing in a tidy tree. TAP.
set -u
tools=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
status=0

fresh() { # a small tidy tree
  rm -rf "$work/t"
  mkdir -p "$work/t/src/base" "$work/t/src/dag" "$work/t/cmd/perdure" "$work/t/include"
  printf 'base:\ndag: base\ncmd: base\n' >"$work/t/src/LAYERS"
  printf '/* a.h: a. */\nint a(void);\n' >"$work/t/src/base/a.h"
  printf '/* a.c: a. */\n#include "base/a.h"\n\n#include <stdio.h>\n\nint a(void)\n{\n  return 1;\n}\n' >"$work/t/src/base/a.c"
  printf '/* d.c: d. */\n#include "dag/d.h"\n#include "base/a.h"\n' >"$work/t/src/dag/d.c"
  printf '/* d.h: d. */\n' >"$work/t/src/dag/d.h"
  printf '/* m.c: m. */\n#include "base/a.h"\n#include "own.h"\n#include <perdure/perdure.h>\n' >"$work/t/cmd/perdure/m.c"
}

expect() { # NAME TOOL WANTED(0|1)
  count=$((count + 1))
  if "$tools/$2" "$work/t" >"$work/out" 2>&1; then got=0; else got=1; fi
  if [ $got = "$3" ]; then
    echo "ok $count - $1"
  else
    status=1
    echo "not ok $count - $1"
    sed 's/^/# /' "$work/out"
  fi
}

fresh; expect layers__a_lawful_tree_passes layers 0
fresh; expect tidy__a_tidy_tree_passes tidy 0
fresh; echo '#include "dag/d.h"' >>"$work/t/src/base/a.c"; expect layers__an_include_upwards_is_found layers 1
fresh; echo '#include "dag/d.h"' >>"$work/t/cmd/perdure/m.c"; expect layers__an_include_past_the_door_is_found layers 1
fresh; echo '#  include   "../dag/d.h"' >>"$work/t/src/base/a.h"; expect layers__a_relative_include_is_found layers 1
fresh; echo '#include "a.h"' >>"$work/t/src/base/a.c"; expect layers__a_roomless_include_is_found layers 1
fresh; mkdir "$work/t/src/new"; echo '/* n */' >"$work/t/src/new/n.c"; expect layers__a_room_without_a_law_is_found layers 1
fresh; echo 'dag: sky' >"$work/t/src/LAYERS"; expect layers__a_law_about_no_room_is_found layers 1
fresh; echo 'only a: base dag/d.c' >>"$work/t/src/LAYERS"; echo 'int x = a();' >>"$work/t/src/dag/d.c"
expect layers__a_name_is_used_where_it_may_be layers 0
fresh; echo 'only a: base' >>"$work/t/src/LAYERS"; echo 'int x = a();' >>"$work/t/src/dag/d.c"
expect layers__a_name_in_another_room_is_found layers 1
fresh; echo 'only a: base dag/d.h' >>"$work/t/src/LAYERS"; echo 'int (*x)(void) = a;' >>"$work/t/src/dag/d.c"
expect layers__a_name_in_another_file_is_found layers 1
fresh; echo 'only a: base' >>"$work/t/src/LAYERS"; echo 'int a_x; /* a */' >>"$work/t/src/dag/d.c"
expect layers__a_name_in_a_comment_is_no_use_of_it layers 0

# A route that reaches an agent's data around the dispatcher, in our own tree
plant() { # NAME LINE: a file of wire with this line is found
  rm -rf "$work/t"
  mkdir "$work/t"
  cp -r "$tools/../src" "$tools/../cmd" "$work/t/"
  printf '/* planted.c: planted. */\n#include <perdure/state.h>\n\n%s\n' "$2" >"$work/t/src/wire/planted.c"
  expect "$1" layers 1
  grep -q 'src/wire/planted.c:4' "$work/out" || { status=1; echo "# the finding does not name the planted line"; cat "$work/out"; }
}
plant layers__a_route_that_opens_a_store_is_found 'static pd_code planted(void) { return pd_store_open(0, 0, 0, 0, 0); }'
plant layers__a_route_that_holds_a_store_is_found 'static pd_code planted(void) { return pd_home_hold(0, 0, 0, 0, 0); }'
plant layers__a_route_that_visits_open_stores_is_found 'static void planted(void) { pd_home_each_open(0, 0, 0); }'
plant layers__a_route_that_calls_itself_the_home_is_found 'static pd_code planted(void) { return pd_authorise_work(0, 0, 0, 0); }'
plant layers__a_route_that_makes_a_grant_itself_is_found 'static const pd_grant planted = {.granted_by = &planted};'

fresh; sed -i 1d "$work/t/src/base/a.c"; expect tidy__a_missing_head_is_found tidy 1
fresh; printf '\tint x;\n' >>"$work/t/src/base/a.c"; expect tidy__a_tab_is_found tidy 1
fresh; printf 'int x; \n' >>"$work/t/src/base/a.c"; expect tidy__a_trailing_blank_is_found tidy 1
fresh; printf '/* %s */\n' TO""DO >>"$work/t/src/base/a.c"; expect tidy__unfinished_work_is_found tidy 1
fresh; printf '/* %0140d */\n' 1 >>"$work/t/src/base/a.c"; expect tidy__a_wide_line_is_found tidy 1
fresh; awk 'BEGIN { s = "/* "; for (i = 0; i < 130; i++) s = s "\303\274"; print s " */" }' >>"$work/t/src/base/a.c"
expect tidy__columns_are_characters_not_bytes tidy 0
fresh; sed -i 's|^#include "base/a.h"|#include <string.h>|' "$work/t/src/base/a.c"; expect tidy__a_foreign_first_include_is_found tidy 1
fresh; { printf 'int long_one(void)\n{\n'; seq -f '  a(); /* %g */' 71; printf '}\n'; } >>"$work/t/src/base/a.c"
expect tidy__a_function_of_71_lines_is_found tidy 1
fresh; { printf 'int fair_one(void)\n{\n'; seq -f '  a(); /* %g */' 70; printf '}\n'; } >>"$work/t/src/base/a.c"
expect tidy__a_function_of_70_lines_passes tidy 0
fresh; seq -f '/* %g */' 700 >>"$work/t/src/base/a.h"; expect tidy__a_file_over_700_lines_is_found tidy 1

# tools/deps, with a dpkg and an apt that only write down what they are asked
mkdir "$work/bin"
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
[ -z "${HAVE_ALL-}" ] || echo 'installed clang-format'
echo 'installed gcc'
END
printf '#!/bin/sh\necho "$*" >>"%s/apt"\nexit ${APT_STATUS:-0}\n' "$work" >"$work/bin/apt-get"
printf '#!/bin/sh\n"$@"\n' >"$work/bin/sudo"
chmod +x "$work/bin/"*

deps() { # NAME WANTED-STATUS WANTED-APT-CALLS ARGUMENT...
  count=$((count + 1))
  name=$1 wanted=$2 calls=$3
  shift 3
  : >"$work/apt"
  PATH="$work/bin:$PATH" "$tools/deps" "$@" >"$work/out" 2>&1
  got=$?
  if [ $got = "$wanted" ] && [ "$(cat "$work/apt")" = "$calls" ]; then
    echo "ok $count - $name"
  else
    status=1
    echo "not ok $count - $name"
    cat "$work/out" "$work/apt" | sed 's/^/# /'
  fi
}

deps deps__what_is_missing_is_installed_after_an_update 0 "-q update
-q -y install --no-install-recommends clang-format" check
HAVE_ALL=1; export HAVE_ALL
deps deps__nothing_is_done_when_nothing_is_missing 0 "" check
unset HAVE_ALL
deps deps__check_only_tells 1 "" --check check
deps deps__an_unknown_set_is_refused 2 "" everything
APT_STATUS=1; export APT_STATUS
deps deps__a_failing_install_is_a_failure 1 "-q update
-q -y install --no-install-recommends clang-format" check
unset APT_STATUS
echo "1..$count"
exit $status
