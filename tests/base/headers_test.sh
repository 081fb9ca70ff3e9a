#!/bin/sh
# headers_test.sh INCLUDE_FOLDER: each public header compiles alone, and after every other, in C11, C17 and C++, with each compiler that is here.
set -u
export LC_ALL=C
include=$(realpath "$1")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/perdure-headers.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
failures=0
count=0

report() { # STATUS NAME
  count=$((count + 1))
  if [ "$1" = 0 ]; then
    echo "ok $count - $2"
  else
    failures=$((failures + 1))
    echo "not ok $count - $2"
    head -n 5 "$tmp/err" | sed 's/^/#   /'
  fi
}

# COMPILER STANDARD LANGUAGE
each_header() {
  command -v "$1" >/dev/null || return 0
  ! echo 'int x;' | "$1" -std="$2" -x "$3" -fsyntax-only - 2>/dev/null && { echo "# $1 knows no $2"; return 0; }
  for header in "$include"/perdure/*.h; do
    printf '#include <perdure/%s>\n' "${header##*/}" |
      "$1" -std="$2" -x "$3" -Wall -Wextra -Wpedantic -Werror -I"$include" -fsyntax-only - 2>"$tmp/err"
    report $? "headers__$(basename "$header" .h)_compiles_alone ($1 -std=$2)"
  done
  for order in '' -r; do # whatever order they come in
    (cd "$include/perdure" && printf '%s\n' *.h | sort $order | sed 's|.*|#include <perdure/&>|') >"$tmp/all"
    "$1" -std="$2" -x "$3" -Wall -Wextra -Wpedantic -Werror -I"$include" -fsyntax-only "$tmp/all" 2>"$tmp/err"
    report $? "headers__all_of_them${order:+_backwards} ($1 -std=$2)"
  done
}

for cc in gcc clang; do
  each_header $cc c11 c
  each_header $cc c17 c
done
for cxx in g++ clang++; do
  each_header $cxx c++11 c++
  each_header $cxx c++17 c++
  each_header $cxx c++20 c++
done
[ $count -gt 0 ] || { echo "Bail out! there is no compiler"; exit 1; }
echo "1..$count"
[ $failures = 0 ]
