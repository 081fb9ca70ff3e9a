#!/bin/sh
# doc_pages.sh SOURCE PAGE...: every block of every page of the source tree is checked by a test; PAGEs are those that doc_session.sh runs.
#
#   ```console        run by doc_session.sh; begins with a command
#   ```LANG FILE      doc_session.sh saves it as FILE; a command further down has to name it, and so reads, compiles or runs it
#   ```c              compiled here, as a part of a function or of a file, with the names that doc_prelude.h declares. … stands for your code
#   ```json           parsed here
#   ```text           a drawing: the folders that it names exist, and it shows no command
#
# Any other block is an error. docs/capabilities is generated, and its examples are checked where they come from (tests/state/examples_test.c).
set -u
export LC_ALL=C
. "$(dirname "$0")/doc_blocks.sh"
here=$(realpath "$(dirname "$0")")
source=$(realpath "$1")
shift
run=" $* "
tmp=$(mktemp -d "${TMPDIR:-/tmp}/perdure-pages.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cd "$source" || exit 1
n=0
failures=0

# result NAME PROBLEMS: one line of TAP
result() {
  n=$((n + 1))
  if [ -z "$2" ]; then
    echo "ok $n - $1"
  else
    failures=$((failures + 1))
    echo "not ok $n - $1"
    echo "$2" | sed 's/^/# /'
  fi
}

# compile FILE: as a part of a function, or of a file if it does not fit into one
compile() {
  sed -E 's/…[a-z ]+…/{}/; s/…/{}/' "$1" >"$1.part"
  grep '^#include' "$1.part" >"$1.includes"
  grep -v '^#include' "$1.part" |
    awk '/^(static|PD_STORAGE_EXPORT) / { is_file = 1 } { print > (is_file ? file : body) } /^}|};$/ { is_file = 0 }' file="$1.file" body="$1.body"
  touch "$1.file" "$1.body"
  {
    cat "$1.includes"
    echo "#include \"$here/doc_prelude.h\""
    cat "$1.file"
    printf 'int doc_block(void);\nint doc_block(void)\n{\n'
    cat "$1.body"
    printf 'return 0;\n}\n'
  } >"$1.whole.c"
  ${CC:-cc} -std=gnu17 -fsyntax-only -Wall -Wextra -Werror -Wno-unused -Wno-unused-result -I "$source/include" "$1.whole.c" 2>&1
}

# Every `word/word` that begins a line of a drawing is a folder of the source tree
draws_what_exists() {
  grep -qE '^ *(\$|#) ' "$1" && echo "commands belong into a console block"
  grep -oE '^ *[a-z]+/[a-z]+' "$1" | while read -r folder; do [ -d "$folder" ] || echo "there is no folder '$folder'"; done
}

# check KIND FILE: what is wrong with the block
check() {
  case $1 in
  console | saved) ;;
  c) compile "$2" ;;
  json) jq -e . "$2" 2>&1 >/dev/null ;;
  text) draws_what_exists "$2" ;;
  *) echo "nothing runs, compiles or parses a block of this kind" ;;
  esac
}

# check_page PAGE: what is wrong with its blocks; the kind of each goes to $tmp/kinds
check_page() {
  rm -rf "$tmp/blocks" && mkdir "$tmp/blocks"
  doc_blocks "$1" "$tmp/blocks" >"$tmp/list"
  while read -r number line kind about; do
    echo "$kind" >>"$tmp/kinds"
    problem=$(check "$kind" "$tmp/blocks/$number")
    [ "$about" = ok ] || problem="$about"
    [ -z "$problem" ] || echo "$1:$line: $problem"
  done <"$tmp/list"
  is_session=no
  case $run in *" $1 "*) is_session=yes ;; esac
  has_console=no
  ! grep -q ' console ' "$tmp/list" || has_console=yes
  [ $is_session = $has_console ] || echo "$1: console blocks: $has_console; run by doc_session.sh (tests/cmd/meson.build): $is_session"
}

# A page with blocks that nothing checks is an error: else this test would find nothing.
: >"$tmp/kinds"
broken() {
  printf -- "$2" >"$tmp/broken.md"
  if [ -n "$(check_page "$tmp/broken.md")" ]; then result "docs__$1_is_an_error" ""; else result "docs__$1_is_an_error" "it was not noticed"; fi
}
broken a_block_without_a_kind '```\nperdure put a 1\n```\n'
broken a_block_of_an_unknown_kind '```sh\nperdure put a 1\n```\n'
broken a_console_block_of_a_page_that_is_not_run '```console\n$ perdure put a 1\n```\n'
broken an_indented_block '- a point\n\n  ```sh\n  perdure put a 1\n  ```\n'
broken a_block_of_tildes '~~~sh\nperdure put a 1\n~~~\n'
broken a_block_that_does_not_end '```json\n{}\n'
broken c_that_does_not_compile '```c\npd_put(store, nothing);\n```\n'
broken json_that_does_not_parse '```json\n{"a":}\n```\n'
broken a_drawing_of_a_folder_that_is_gone '```text\n src/gone   nothing\n```\n'
broken a_command_in_a_drawing '```text\n$ perdure put a 1\n```\n'
broken a_file_that_no_command_names '```toml perdure.toml\n[session]\n```\n'
run="$run$tmp/broken.md "
broken a_console_block_that_begins_with_no_command '```console\n> perdure put a 1\n```\n'
broken a_page_that_is_run_and_has_no_console_block '# Nothing\n'

: >"$tmp/kinds"
find . -name '*.md' -not -path './.*' -not -path './build*' -not -path './docs/capabilities/*' | sed 's|^\./||' | sort >"$tmp/pages"
while read -r page; do
  problems=$(check_page "$page")
  result "docs__every_block_of_${page}_is_checked" "$problems"
done <"$tmp/pages"
grep -q '^docs/guide/' "$tmp/pages" || result docs__there_are_guides "none found"

echo "# $(wc -l <"$tmp/kinds") blocks: $(sort "$tmp/kinds" | uniq -c | awk '{ printf "%s%s %s", comma, $1, $2; comma = ", " }')"
echo "1..$n"
[ $failures = 0 ]
