"""Measures jobs a second of one worker process, and what waiting costs beyond the API's two calls.

Run it with NAGAYA_BIN set to a release build: `python bench/throughput.py [JOBS [CONCURRENCY]]`.
"""

import http.client
import json
import sys
import time
from typing import Any

import nagaya
from nagaya.testing import House

app = nagaya.App(queue="bench")


@app.job()
async def nothing(n: int) -> int:
    return n


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    options: dict[str, Any] = {"concurrency": int(sys.argv[2])} if len(sys.argv) > 2 else {}
    with House() as house:
        app.configure(house.url)
        begin = time.perf_counter()
        app.client.enqueue_many(nothing.job(n) for n in range(jobs))
        print(f"registered {jobs / (time.perf_counter() - begin):.0f} jobs a second")
        worker = app.worker(**options)
        begin, processor = time.perf_counter(), time.process_time()
        worker.start()
        while worker.tally.succeeded < jobs:
            time.sleep(0.005)
        seconds, processor = time.perf_counter() - begin, time.process_time() - processor
        print(f"worked {jobs / seconds:.0f} jobs a second, {1e6 * processor / jobs:.0f} us of processor time each")
        compare(house.url.removeprefix("http://"))
        worker.stop()


def compare(host: str, rounds: int = 300) -> None:
    """Registers jobs and waits for them, with the API alone and with the client, by turns."""
    connection = http.client.HTTPConnection(host)

    def ask(method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())

    bare, client = [], []
    for n in range(rounds):
        begin = time.perf_counter()
        id = ask("POST", "/v1/jobs", {"queue": "bench", "kind": "nothing", "payload": {"n": n}})["id"]
        assert ask("GET", f"/v1/jobs/{id}?wait=30s")["result"] == n
        bare.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        assert nothing.enqueue(n).wait(30) == n
        client.append(time.perf_counter() - begin)
    for name, times in (("the API alone", bare), ("the client", client)):
        times.sort()
        middle, late = 1000 * times[rounds // 2], 1000 * times[rounds * 99 // 100]
        print(f"a job and its result with {name}: median {middle:.1f} ms, p99 {late:.1f} ms")


if __name__ == "__main__":
    main()
