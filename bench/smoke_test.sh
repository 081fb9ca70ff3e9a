#!/bin/sh
# smoke_test.sh BENCH GROWTH THREADS: do the benchmarks run, check what they read, and give a whole table? Sizes are small, times are not judged.
set -u
bench=$1
growth=$2
threads=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
check() { # NAME STATUS
  count=$((count + 1))
  if [ "$2" = 0 ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; fi
}

"$bench" --quick --dir "$work" --results "$work/RESULTS.md" >"$work/out" 2>"$work/err"
status=$?
[ $status = 0 ] || sed 's/^/# /' "$work/err"
check bench__a_quick_run_finishes_every_row $status

missing=
for row in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28; do grep -q "^$row  *[A-Za-z]" "$work/out" || missing="$missing $row"; done
[ -z "$missing" ] || echo "# rows that are missing:$missing"
check bench__the_table_has_all_rows "$([ -z "$missing" ]; echo $?)"

odd=$(sed -n '/^#/,/^$/p' "$work/out" | grep -v '^#' | grep -v '^$' | grep -Ev '(  met|  NOT MET)$')
[ -z "$odd" ] || echo "$odd" | sed 's/^/# /'
check bench__every_line_has_a_verdict "$([ -z "$odd" ]; echo $?)"

lines=$(grep -Ec '(  met|  NOT MET)$' "$work/out")
written=$(grep -Ec '^\| [0-9]+ \|.*(met|NOT MET)' "$work/RESULTS.md")
check bench__the_results_have_the_lines_of_the_table "$([ "$lines" -ge 12 ] && [ "$lines" = "$written" ]; echo $?)"

left=$(find "$work" -mindepth 1 -maxdepth 1 -type d)
check bench__leaves_no_files_behind "$([ -z "$left" ]; echo $?)"

"$bench" --only nonsense >"$work/out" 2>"$work/err"
check bench__an_unknown_row_is_wrong_usage "$([ $? = 2 ] && grep -q "no row 'nonsense'" "$work/err"; echo $?)"
"$bench" --runs 0 >"$work/out" 2>"$work/err"
check bench__no_runs_is_wrong_usage "$([ $? = 2 ]; echo $?)"
"$bench" --quick --only put --dir "$work/no/such" >"$work/out" 2>"$work/err"
check bench__a_folder_that_cannot_be_made_is_an_error "$([ $? = 1 ] && grep -q "no/such" "$work/err"; echo $?)"

"$growth" --quick --dir "$work" --svg "$work/growth.svg" >"$work/out" 2>"$work/err"
status=$?
[ $status = 0 ] || sed 's/^/# /' "$work/err"
check growth__a_quick_run_finishes $status
lines=$(grep -c '<polyline' "$work/growth.svg")
check growth__the_plot_has_a_line_for_each_cost "$([ "$lines" = 9 ]; echo $?)"

PERDURE_BENCH_NPM=$work/none "$threads" --quick --dir "$work" --table "$work/threads.md" --svg "$work/threads.svg" >"$work/out" 2>"$work/err"
check threads__without_the_peer_is_an_error_that_says_how_to_get_it "$([ $? = 1 ] && grep -q 'bench/langgraph/install' "$work/err"; echo $?)"

echo "1..$count"
