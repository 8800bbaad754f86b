# What the blocks of a document are run with; sourced by the script that `runner.rs` writes.
# Blocks share this shell, so that variables last from one to the next.
set -eu +u

# Says which block is next and sends its output where it is looked for.
at() {
    echo "$1" >"$kept/at"
    exec >>"$kept/$1.out" 2>&1
}

# Leaves a command running in a session of its own; one of the same name ends first.
background() {
    local name=$1 line=$2
    shift 2
    stop "$name" TERM
    setsid "$@" >"$kept/$line.out" 2>&1 </dev/null &
    echo $! >"$kept/$name.pid"
    echo "$line" >"$kept/$name.line"
}

# Ends what a block has left running, and waits until it is gone.
stop() {
    local pid deadline=$((SECONDS + 60))
    [ -e "$kept/$1.pid" ] || return 0
    pid=$(cat "$kept/$1.pid")
    rm "$kept/$1.pid"
    # The block's shell goes first; what it has started is in its group and may take longer.
    kill "-$2" -- "-$pid" 2>/dev/null || return 0
    wait "$pid" 2>/dev/null || true
    while kill -0 -- "-$pid" 2>/dev/null; do
        [ $SECONDS -lt $deadline ] || fail "$1 does not end"
        sleep 0.05
    done
}

# Whether a block has printed a text; runs of spaces count as one.
says() {
    tr -s ' ' <"$kept/$1.out" | grep -qF -- "$2"
}

# Waits until a block that was left running has printed a text, or has ended.
until_printed() {
    local name=$1 text=$2 line deadline=$((SECONDS + 90))
    line=$(cat "$kept/$name.line")
    until says "$line" "$text"; do
        kill -0 "$(cat "$kept/$name.pid")" || fail "ended without printing: $text"
        [ $SECONDS -lt $deadline ] || fail "has not printed for 90 seconds: $text"
        sleep 0.1
    done
}

# Runs a block again and again until it prints a text.
until_prints() {
    local line=$1 text=$2 deadline=$((SECONDS + 90))
    while :; do
        (set +e; . "$kept/$line.sh") >"$kept/$line.out" 2>&1 || true
        if says "$line" "$text"; then break; fi
        [ $SECONDS -lt $deadline ] || fail "does not print for 90 seconds: $text"
        sleep 0.2
    done
}

# Runs a block that has to fail.
fails() {
    if (. "$kept/$1.sh"); then fail "was expected to fail"; fi
}

fail() {
    echo "$1"
    exit 1
}
