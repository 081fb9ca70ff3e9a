# man-header.awk -v page=PAGE -v header=NAME.h: a public header as scdoc source. The header is the manual: its head is the description, its
# "---- title ----" lines are the sections, and each comment stands under what it explains.

function escape(text) {
  gsub(/[\\*_+`]/, "\\\\&", text)
  if (text ~ /^[;#\-\[|\].]/) text = "\\" text
  return text
}

# In a literal block only the backslash has a meaning.
function literal(text) {
  gsub(/\\/, "\\\\", text)
  return text
}

# What a comment says, without its marks.
function say(text,    lines, n, i, is_literal, l) {
  if (text == "") return
  n = split(text, lines, "\n")
  is_literal = 0
  for (i = 1; i <= n; i++) if (lines[i] ~ /^  /) is_literal = 1
  if (is_literal) print "```"
  for (i = 1; i <= n; i++) {
    l = lines[i]
    if (is_literal) print literal(l)
    else { sub(/^ +/, "", l); print escape(l) }
  }
  if (is_literal) print "```"
  print ""
}

function show(code) {
  if (code == "") return
  gsub(/PD_API |PD_MUST_USE /, "", code)
  print "```"
  print literal(code)
  print "```"
  print ""
}

function flush_chunk() {
  show(code)
  say(comment)
  code = comment = ""
}

function take(line) {
  sub(/[ \t]*\*+\/[ \t]*$/, "", line)
  sub(/^[ \t]*\/\*+ ?/, "", line)
  sub(/^[ \t]*\* ?/, "", line)
  return line
}

BEGIN { state = "head"; print page "(3)\n\n# NAME\n" }

# the head comment
state == "head" && /^\/\*/ { in_head = 1 }
state == "head" && in_head {
  text = take($0)
  if (text != "" || head != "") head = head (head == "" ? "" : "\n") text
  if (/\*\//) {
    state = "body"
    first = head
    sub(/\n.*/, "", first)
    summary = first
    sub(/^[a-z_]+\.h: */, "", summary)
    sub(/\.( .*)?$/, "", summary)
    print escape(page " - " summary) "\n\n# SYNOPSIS\n\n*#include <perdure/" header ">*\n\nLink with *-lperdure*; pkg-config knows it as *perdure*.\n\n# DESCRIPTION\n"
    say(head)
  }
  next
}
state == "head" { next }

# what is there for the compiler alone
/^#(ifndef|include|endif|if|else|pragma)/ || /^extern "C"/ || /^#define PERDURE_/ { next }
/^#ifdef/ { is_cplusplus = 1; next }
is_cplusplus && /^}$/ { is_cplusplus = 0; next }
/^\/\* -+ / {
  flush_chunk()
  title = take($0)
  gsub(/^-+ *| *-+$/, "", title)
  print "# " toupper(title) "\n"
  next
}
/^$/ { if (!in_block && !in_comment) { flush_chunk(); next } }

# comments at the margin explain what follows; those beside code stay with it
!in_block && (in_comment || /^\/\*/) {
  if (!in_comment && code != "") flush_chunk()
  if (!(/^\/\*.*\*\/ *$/) && /^\/\*/) in_comment = 1
  comment = comment (comment == "" ? "" : "\n") take($0)
  if (/\*\//) in_comment = 0
  next
}

{
  code = code (code == "" ? "" : "\n") $0
  if (/\{/ && !/\}/) in_block = 1
  if (/^\}/) in_block = 0
}

END {
  flush_chunk()
  print "# SEE ALSO\n\n*perdure*(3), *perdure*(1)"
}
