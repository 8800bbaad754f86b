#!/usr/bin/env python3
"""Runs the conformance suite against an adapter; README.md has the protocol."""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from suite import cases  # noqa: E402
from suite.adapter import Unsupported  # noqa: E402
from suite.case import Bench, Case  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the conformance suite of nagaya's clients.")
    parser.add_argument("--adapter", help="the command that starts the adapter")
    parser.add_argument("--jobs", type=int, default=min(4, 2 * (os.cpu_count() or 1)), help="cases at a time")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("cases", nargs="*", type=int, help="numbers of cases; all when left out")
    options = parser.parse_args()
    chosen = [case for case in cases.all_cases() if not options.cases or case.number in options.cases]
    if options.list:
        for case in chosen:
            print(f"{case.number:3}  {case.promise}")
        return 0
    if not options.adapter:
        parser.error("--adapter is missing")
    if not chosen:
        parser.error("there are no such cases")
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda case: run(case, options.adapter), chosen))
    counts = {name: outcomes.count(name) for name in ("passed", "skipped", "failed")}
    print(
        f"{counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed"
        f" in {time.monotonic() - begin:.1f} s"
    )
    return 1 if counts["failed"] or not counts["passed"] else 0


def run(case: Case, command: str) -> str:
    """Runs one case, prints how it went, and returns the outcome."""
    begin = time.monotonic()
    bench = Bench(command)
    outcome, details = "passed", ""
    try:
        case.run(bench)
    except Unsupported as reason:
        outcome, details = "skipped", f": {reason}"
    except Exception:  # a failed case must not end the others
        outcome = "failed"
        details = f"\n{traceback.format_exc()}\n{bench.transcript()}\n"
    finally:
        bench.close()
    print(f"{case.number:3}  {outcome:7}  {time.monotonic() - begin:5.1f} s  {case.promise}{details}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
