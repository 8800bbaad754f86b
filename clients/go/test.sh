#!/usr/bin/env bash
# Tests the Go client: vet, staticcheck, tests against a real server, and the conformance suite. The server is
# NAGAYA_BIN, or else the newest one in target. Go 1.19 is enough; on Debian and Ubuntu, root gets it installed.
set -eu
cd "$(dirname "$0")"

export PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "go is missing; install it with: apt-get install golang-go" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends golang-go
fi
if [ -z "${NAGAYA_BIN-}" ]; then
    # shellcheck disable=SC2012 # the names are ours
    NAGAYA_BIN=$(ls -t ../../target/{release,debug}/nagaya 2>/dev/null | head -n 1)
    [ -n "$NAGAYA_BIN" ] || { echo "build the server first: cargo build -p nagaya" >&2; exit 1; }
fi
NAGAYA_BIN=$(realpath "$NAGAYA_BIN")
export NAGAYA_BIN

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "not formatted: $unformatted" >&2; exit 1; }
go vet ./...
# Newer than the oldest Go that the module takes, so it is used where it is installed.
if command -v staticcheck >/dev/null; then staticcheck ./...; fi
# The race detector needs a C compiler.
race=
if command -v cc >/dev/null && [ "$(go env CGO_ENABLED)" = 1 ]; then race=-race; fi
go test $race ./...
mkdir -p ../../target/clients/go
go build $race -o ../../target/clients/go/adapter ./internal/adapter
python3 ../conformance/run.py --adapter "$(realpath ../../target/clients/go/adapter)"
