"""Reads a request as programs written for serinin do: every field that does not begin with `_`."""

import sys

import redis

port, request_id = int(sys.argv[1]), sys.argv[2]
client = redis.Redis(port=port)
found = client.hgetall(request_id)
request = {name: value for name, value in found.items() if name in (b"_id", b"_method", b"_url")}
assert request == {b"_id": request_id.encode(), b"_method": b"GET", b"_url": b"/p?a=1&b=2"}, request
answers = {name.decode(): value for name, value in found.items() if not name.startswith(b"_")}
assert answers == {"dst1": b"answer one", "端.点": b""}, answers
assert 0 < client.ttl(request_id) <= 60
