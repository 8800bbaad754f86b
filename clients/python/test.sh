#!/usr/bin/env bash
# Builds the wheel, installs it beside nothing but what its tests need, and runs types, tests and conformance against
# NAGAYA_BIN, by default the debug build.
set -eu
cd "$(dirname "$0")/../.."

here=target/clients/python
export NAGAYA_BIN=${NAGAYA_BIN:-$PWD/target/debug/nagaya}
[ -x "$NAGAYA_BIN" ] || { echo "there is no $NAGAYA_BIN; build it with: cargo build -p nagaya" >&2; exit 1; }

# What is installed depends on these; the wheel itself is built anew each time.
wanted=$(cat clients/python/pyproject.toml "$0" | cksum)
if [ "$(cat "$here/complete" 2>/dev/null)" != "$wanted" ]; then
    echo "installing what the tests of the Python client need into $here"
    rm -rf "$here"
    mkdir -p "$here"
    python3 -m venv "$here/venv" || { echo "venv is missing; install it with: apt-get install python3-venv" >&2; exit 1; }
    "$here/venv/bin/pip" install --quiet --disable-pip-version-check hatchling build 'mypy>=1.11' 'pydantic>=2' 'pytest>=8'
    echo "$wanted" >"$here/complete"
fi
python=$PWD/$here/venv/bin/python

rm -rf "$here/dist"
"$python" -m build --quiet --no-isolation --wheel --outdir "$here/dist" clients/python >/dev/null
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$here"/dist/*.whl

# From a copy, so that the installed package is tested and not the source beside the tests.
rm -rf "$here/tests"
mkdir "$here/tests"
cp -r clients/python/tests clients/python/README.md clients/python/examples "$here/tests"
(cd "$here/tests" && "$python" -m mypy --strict --python-version 3.10 -p nagaya && "$python" -m mypy --strict tests examples)
(cd "$here/tests" && "$python" -m pytest -q -p no:cacheprovider tests)
"$python" clients/conformance/run.py --adapter "$python $PWD/$here/tests/tests/adapter.py"
