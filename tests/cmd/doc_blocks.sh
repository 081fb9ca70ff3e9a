# doc_blocks.sh: takes a page's ``` blocks apart. Source it.
#
# doc_blocks PAGE FOLDER: writes block N to FOLDER/N and prints a line for each: its number, its line in the page, its kind, and "ok" or what is wrong
# with its form. A block whose first line names a file is of the kind "saved".
doc_blocks() {
  awk -v folder="$2" '
    function tell(kind, about) { print number, line, kind == "" ? "unnamed" : kind, about == "" ? "ok" : about }
    /^ +(```|~~~)/ || /^~~~/ { if (!is_block) { number++; line = NR; tell("other", "a block begins with ``` at the beginning of a line"); next } }
    /^```/ && !is_block {
      is_block = 1; number++; line = NR; problem = ""
      kind = substr($1, 4); saved = $2
      if (NF > 2) problem = "more than a kind and a file"
      file = folder "/" number
      printf "" > file
      next
    }
    /^```/ {
      is_block = 0
      close(file)
      if (saved != "") { pending[saved] = number; lines[saved] = line; tell("saved", problem) } else tell(kind, problem)
      next
    }
    is_block {
      if (kind == "console" && NR == line + 1 && !/^\$ /) problem = "a console block begins with \"$ \" and a command"
      if (kind == "console") for (name in pending) if (index($0, name)) delete pending[name]
      print > file
    }
    END {
      for (name in pending) { number = pending[name]; line = lines[name]; tell("saved", "no command further down names " name) }
      if (is_block) tell(kind, "it does not end")
    }' "$1"
}
