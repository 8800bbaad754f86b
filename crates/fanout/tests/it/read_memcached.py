"""Reads a request as programs written for serinin's memcache store do, servers chosen by CRC-32."""

import json
import sys
import zlib

from pymemcache.client.base import Client

addresses, request_id = sys.argv[1].split(","), sys.argv[2]
clients = [Client(address, allow_unicode_keys=True) for address in addresses]


def get(key):
    return clients[zlib.crc32(key.encode()) % len(clients)].get(key)


raw = get(request_id)
expected = '{"_id":"%s","_method":"GET","_url":"/p?a=1\\u0026b=2"}' % request_id
assert raw == expected.encode(), raw
assert json.loads(raw)["_url"] == "/p?a=1&b=2"
answers = {name: get(f"{request_id}.{name}") for name in ("dst1", "端.点", "no-such")}
assert answers == {"dst1": b"answer one", "端.点": b"", "no-such": None}, answers
