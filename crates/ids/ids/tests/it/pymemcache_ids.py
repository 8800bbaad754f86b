"""Fetches ids as users of pymemcache do. Usage: pymemcache_ids.py PORT SCENARIO"""

import sys
import threading

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheUnknownCommandError

WORKER = 7


def worker_of(number):
    return (number >> 12) & 1023


def one(address):
    client = Client(address)
    ids = [int(client.get("id")) for _ in range(1000)]
    assert ids == sorted(set(ids)), "not strictly rising"
    assert {worker_of(number) for number in ids} == {WORKER}


def many(address):
    client = Client(address)
    keys = [str(n) for n in range(1000)]
    found = client.get_many(keys)
    assert list(found) == keys
    ids = [int(found[key]) for key in keys]
    assert ids == sorted(set(ids)), "not strictly rising"


def stats(address):
    client = Client(address)
    client.get("id")
    counters = client.stats()
    assert counters[b"get_hits"] == 1, counters
    assert counters[b"worker_id"] == WORKER, counters
    assert client.version() == b"1.2.3"
    client.quit()


def pool(address):
    client = PooledClient(address, max_pool_size=16)
    seen, lock = [], threading.Lock()

    def fetch():
        ids = [int(client.get("id")) for _ in range(200)]
        with lock:
            seen.extend(ids)

    threads = [threading.Thread(target=fetch) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(set(seen)) == 3200


def refused(address):
    client = Client(address)
    try:
        client.incr("id", 1)
    except (MemcacheUnknownCommandError, MemcacheClientError):
        pass
    else:
        raise AssertionError("incr was served")
    assert int(Client(address).get("id")) > 0


if __name__ == "__main__":
    scenarios = {"one": one, "many": many, "stats": stats, "pool": pool, "refused": refused}
    scenarios[sys.argv[2]](("127.0.0.1", int(sys.argv[1])))
