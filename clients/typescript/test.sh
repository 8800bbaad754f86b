#!/usr/bin/env bash
# Builds and tests the TypeScript client: types, tests against a real server, and the conformance suite. The server is
# NAGAYA_BIN, or else the newest one in target.
set -eu
cd "$(dirname "$0")"

if [ -z "${NAGAYA_BIN-}" ]; then
    # shellcheck disable=SC2012 # the names are ours
    NAGAYA_BIN=$(ls -t ../../target/{release,debug}/nagaya 2>/dev/null | head -n 1)
    [ -n "$NAGAYA_BIN" ] || { echo "build the server first: cargo build -p nagaya" >&2; exit 1; }
fi
NAGAYA_BIN=$(realpath "$NAGAYA_BIN")
export NAGAYA_BIN

# Debian's Node may be older than what the client asks for; the registry has newer ones.
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    newer=$PWD/../../target/clients/node20
    [ -x "$newer/node_modules/.bin/node" ] || npm install --loglevel error --no-audit --no-fund --prefix "$newer" node@20
    export PATH=$newer/node_modules/.bin:$PATH
fi

[ -d node_modules/typescript ] || npm install --loglevel error --no-audit --no-fund --no-package-lock
node build.mjs
rm -rf out
node node_modules/typescript/bin/tsc -p test
node --test out/*.test.js
python3 ../conformance/run.py --adapter "node $PWD/out/adapter.js"
