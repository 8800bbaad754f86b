"""Scenarios with redis-py. Usage: redis_py.py PORT SCENARIO

The same on the embedded engine and on a Cluster: keys that one command or one transaction uses together
share a hash tag, and a scenario leaves no keys behind.
"""

import sys
import threading

import redis


def connect(**options):
    options.setdefault("decode_responses", True)
    options.setdefault("protocol", 2)
    return redis.Redis(host="127.0.0.1", port=PORT, socket_timeout=20, **options)


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


def fails(call, kind, text):
    try:
        answer = call()
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"the error reads {str(error)!r}, expected {text!r} in it") from error
        return
    raise AssertionError(f"answered {answer!r} instead of failing with {text!r}")


def in_background(call):
    """Runs a call on a thread and returns a function that waits for its result."""
    outcome = {}

    def run():
        try:
            outcome["result"] = call()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result():
        thread.join(20)
        if thread.is_alive():
            raise AssertionError("the call in the background did not end")
        if "error" in outcome:
            raise outcome["error"]
        return outcome["result"]

    return result


def until_blocked(client, count):
    """Waits until so many clients wait for an element."""
    for _ in range(2000):
        if client.info("clients")["blocked_clients"] == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{count} clients never blocked")


def data_types():
    r = connect()
    equal(r.set("text", "äöü", ex=100, nx=True), True)
    equal(r.get("text"), "äöü")
    equal(r.set("text", "other", nx=True), None)
    equal(r.set("text", "new", get=True), "äöü")
    equal(0 < r.ttl("text") or r.ttl("text") == -1, True)
    raw = connect(decode_responses=False)
    every_byte = bytes(range(256))
    equal(raw.set(every_byte, every_byte), True)
    equal(raw.get(every_byte), every_byte)
    equal(r.incrbyfloat("float", "3.25"), 3.25)
    equal(r.hset("hash", mapping={"a": 1, "b": "two"}), 2)
    equal(r.hgetall("hash"), {"a": "1", "b": "two"})
    equal(r.hincrby("hash", "a", 41), 42)
    equal(r.rpush("list", *range(5)), 5)
    equal(r.lrange("list", 1, -2), ["1", "2", "3"])
    equal(r.lpos("list", "3"), 3)
    equal(r.sadd("set", "x", "y", "z"), 3)
    equal(r.smismember("set", ["x", "q"]), [1, 0])
    equal(r.zadd("zset", {"one": 1, "two": 2, "three": 3}), 3)
    equal(r.zrange("zset", 0, -1, withscores=True), [("one", 1.0), ("two", 2.0), ("three", 3.0)])
    equal(r.zrangebyscore("zset", "(1", "+inf"), ["two", "three"])
    equal(r.zincrby("zset", 2.5, "one"), 3.5)
    equal(r.setbit("bits", 7, 1), 0)
    equal(r.bitcount("bits"), 1)
    equal(r.pfadd("hll", *range(100)), 1)
    equal(90 <= r.pfcount("hll") <= 110, True)
    equal(r.geoadd("geo", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")), 2)
    equal(round(r.geodist("geo", "Palermo", "Catania", unit="km"), 4), 166.2742)
    equal(r.geosearch("geo", longitude=15, latitude=37, radius=100, unit="km"), ["Catania"])
    fails(lambda: r.lpush("text", 1), redis.ResponseError, "WRONGTYPE")
    dumped = raw.dump("zset")
    equal(raw.restore("copy", 0, dumped), b"OK")
    equal(r.zcard("copy"), 3)


def pipelines():
    r = connect()
    pipe = r.pipeline(transaction=False)
    for number in range(5000):
        pipe.set(f"key:{number}", number)
    equal(pipe.execute(), [True] * 5000)
    pipe = r.pipeline(transaction=False)
    for number in range(5000):
        pipe.get(f"key:{number}")
    equal(pipe.execute(), [str(number) for number in range(5000)])
    pipe = r.pipeline(transaction=False)
    pipe.set("text", "a").incr("text").get("text")
    answers = pipe.execute(raise_on_error=False)
    equal(answers[0], True)
    equal(isinstance(answers[1], redis.ResponseError), True)
    equal(answers[2], "a")


def transactions():
    r = connect()
    pipe = r.pipeline(transaction=True)
    equal(pipe.set("{t}a", 1).incr("{t}a").lpush("{t}l", "x").execute(), [True, 2, 1])
    answers = r.pipeline().set("s", "v").lpush("s", 1).get("s").execute(raise_on_error=False)
    equal(answers[0], True)
    equal("WRONGTYPE" in str(answers[1]), True)
    equal(answers[2], "v")
    broken = r.pipeline()
    broken.set("never", 1)
    broken.execute_command("NOSUCHCOMMAND")
    fails(broken.execute, redis.ResponseError, "unknown command")
    equal(r.exists("never"), 0)


def watch():
    r, other = connect(), connect()
    r.set("watched", 1)
    with r.pipeline() as pipe:
        pipe.watch("watched")
        other.set("watched", 2)
        pipe.multi()
        pipe.set("watched", 3)
        fails(pipe.execute, redis.WatchError, "")
    equal(r.get("watched"), "2")
    # Eight clients count with optimistic locking: no step may be lost.
    def count():
        client = connect()
        for _ in range(25):
            client.transaction(lambda pipe: step(pipe), "counter")

    def step(pipe):
        value = int(pipe.get("counter") or 0)
        pipe.multi()
        pipe.set("counter", value + 1)

    for wait in [in_background(count) for _ in range(8)]:
        wait()
    equal(r.get("counter"), "200")


def scripts():
    r = connect()
    equal(r.eval("return {KEYS[1], ARGV[1], 7, false}", 1, "k", "v"), ["k", "v", 7, None])
    compare_and_set = r.register_script(
        """
        if redis.call('GET', KEYS[1]) == ARGV[1] then
            redis.call('SET', KEYS[1], ARGV[2])
            return 1
        end
        return 0
        """
    )
    r.set("cas", "old")
    equal(compare_and_set(keys=["cas"], args=["old", "new"]), 1)
    equal(compare_and_set(keys=["cas"], args=["old", "newer"]), 0)
    equal(r.get("cas"), "new")
    sha = r.script_load("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    equal(r.evalsha(sha, 1, "n", 5), 5)
    equal(r.script_exists(sha, "0" * 40), [True, False])
    fails(lambda: r.evalsha("f" * 40, 0), redis.exceptions.NoScriptError, "")
    fails(lambda: r.eval("return redis.call('LPUSH', KEYS[1], 1)", 1, "cas"), redis.ResponseError, "WRONGTYPE")
    fails(lambda: r.eval("return redis.error_reply('MINE broken')", 0), redis.ResponseError, "MINE broken")
    equal(r.eval("return cjson.encode({a = {1, 2, 'x'}})", 0), '{"a":[1,2,"x"]}')
    equal(r.eval("return cmsgpack.unpack(cmsgpack.pack({1, 2}))[2]", 0), 2)
    library = "#!lua name=mylib\nredis.register_function('double', function(keys, args) return args[1] * 2 end)"
    equal(r.function_load(library), "mylib")
    equal(r.fcall("double", 0, 21), 42)
    equal(r.function_delete("mylib"), True)


def pubsub():
    r = connect()
    subscriber = connect().pubsub()
    subscriber.subscribe("news")
    subscriber.psubscribe("log.*")
    equal(subscriber.get_message(timeout=10)["type"], "subscribe")
    equal(subscriber.get_message(timeout=10)["type"], "psubscribe")
    equal(r.publish("news", "hello"), 1)
    equal(r.publish("log.error", "bang"), 1)
    equal(r.publish("nobody", "there"), 0)
    message = subscriber.get_message(timeout=10)
    equal((message["type"], message["channel"], message["data"]), ("message", "news", "hello"))
    message = subscriber.get_message(timeout=10)
    equal((message["type"], message["pattern"], message["data"]), ("pmessage", "log.*", "bang"))
    equal(r.pubsub_channels(), ["news"])
    equal(r.pubsub_numsub("news", "other"), [("news", 1), ("other", 0)])
    equal(r.pubsub_numpat(), 1)
    subscriber.unsubscribe("news")
    equal(subscriber.get_message(timeout=10)["type"], "unsubscribe")
    equal(r.publish("news", "again"), 0)
    for number in range(1000):
        r.publish("log.x", number)
    found = [int(subscriber.get_message(timeout=10)["data"]) for _ in range(1000)]
    equal(found, list(range(1000)))


def blocking():
    r = connect()
    popped = in_background(lambda: connect().blpop(["{q}empty", "{q}queue"], timeout=10))
    until_blocked(r, 1)
    equal(r.rpush("{q}queue", "job"), 1)
    equal(popped(), ("{q}queue", "job"))
    equal(connect().blpop("empty", timeout=0.1), None)
    # Who waited first is served first.
    first = in_background(lambda: connect().brpop("fair", timeout=10))
    until_blocked(r, 1)
    second = in_background(lambda: connect().brpop("fair", timeout=10))
    until_blocked(r, 2)
    r.lpush("fair", "1")
    equal(first(), ("fair", "1"))
    r.lpush("fair", "2")
    equal(second(), ("fair", "2"))
    moved = in_background(lambda: connect().blmove("{m}from", "{m}to", 10, "LEFT", "RIGHT"))
    until_blocked(r, 1)
    r.pipeline().rpush("{m}from", "a", "b").execute()
    equal(moved(), "a")
    equal(r.lrange("{m}to", 0, -1), ["a"])
    lowest = in_background(lambda: connect().bzpopmin("scores", timeout=10))
    until_blocked(r, 1)
    r.zadd("scores", {"high": 9, "low": 1})
    equal(lowest(), ("scores", "low", 1.0))


def streams():
    r = connect()
    for number in range(10):
        r.xadd("s", {"number": number}, id=f"1-{number + 1}")
    equal(r.xlen("s"), 10)
    equal(r.xrange("s", count=1), [("1-1", {"number": "0"})])
    equal(r.xgroup_create("s", "g", id="0"), True)
    fails(lambda: r.xgroup_create("s", "g"), redis.ResponseError, "BUSYGROUP")
    [(stream, entries)] = r.xreadgroup("g", "alice", {"s": ">"}, count=4)
    equal((stream, [id for id, _ in entries]), ("s", ["1-1", "1-2", "1-3", "1-4"]))
    equal(r.xack("s", "g", "1-1", "1-2"), 2)
    pending = r.xpending("s", "g")
    equal((pending["pending"], pending["min"], pending["max"]), (2, "1-3", "1-4"))
    equal(r.xclaim("s", "g", "bob", 0, ["1-3"], justid=True), ["1-3"])
    equal(r.xautoclaim("s", "g", "carol", 0, "0-0", justid=True), ["1-3", "1-4"])
    [group] = r.xinfo_groups("s")
    equal((group["name"], group["pending"], group["last-delivered-id"]), ("g", 2, "1-4"))
    read = in_background(lambda: connect().xread({"s": "$"}, block=10000))
    until_blocked(r, 1)
    r.xadd("s", {"late": "yes"}, id="2-1")
    equal(read(), [["s", [("2-1", {"late": "yes"})]]])
    [(_, entries)] = r.xreadgroup("g", "bob", {"s": ">"}, block=10000)
    equal(len(entries), 7)
    equal(r.xtrim("s", maxlen=3, approximate=False), 8)
    equal(r.xdel("s", "2-1"), 1)


def scan():
    r = connect()
    pipe = r.pipeline(transaction=False)
    for number in range(7000):
        pipe.set(f"key:{number}", number)
    for number in range(3000):
        pipe.sadd(f"set:{number}", 1)
    pipe.execute()
    keys = list(r.scan_iter(count=100))
    equal(len(set(keys)), 10000)
    equal(r.dbsize(), 10000)
    equal(len(set(r.scan_iter(match="key:1*", count=500))), 1111)
    equal(len(set(r.scan_iter(_type="set", count=500))), 3000)
    # Whatever is there from the first call to the last is found, also while the table shrinks.
    seen, cursor = set(), 0
    while True:
        cursor, found = r.scan(cursor, count=100)
        seen.update(found)
        r.delete(*[key for key in found if key.startswith("key:")] or ["none"])
        if cursor == 0:
            break
    equal({f"set:{number}" for number in range(3000)} <= seen, True)
    r.hset("big", mapping={f"f{number}": number for number in range(2000)})
    equal(len(dict(r.hscan_iter("big", count=50))), 2000)
    r.zadd("bigz", {f"m{number}": number for number in range(2000)})
    equal(len(dict(r.zscan_iter("bigz", count=50))), 2000)


def resp3():
    r = connect(protocol=3)
    equal(r.execute_command("HELLO", 3)["proto"], 3)
    r.hset("h", mapping={"a": "1"})
    equal(r.hgetall("h"), {"a": "1"})
    r.sadd("s", "x", "y")
    equal(set(r.smembers("s")), {"x", "y"})
    r.zadd("z", {"m": 1.5})
    equal(r.zscore("z", "m"), 1.5)
    equal(r.zrange("z", 0, -1, withscores=True), [["m", 1.5]])
    equal(r.get("none"), None)
    equal(r.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"})
    subscriber = r.pubsub()
    subscriber.subscribe("news")
    equal(subscriber.get_message(timeout=10)["type"], "subscribe")
    equal(r.publish("news", "pushed"), 1)
    equal(subscriber.get_message(timeout=10)["data"], "pushed")
    equal(r.pipeline().set("a", 1).incr("a").execute(), [True, 2])


def clean_up():
    r = connect(decode_responses=False)
    keys = list(set(r.scan_iter(count=1000)))
    for start in range(0, len(keys), 1000):
        r.delete(*keys[start : start + 1000])
    equal(r.dbsize(), 0)


if __name__ == "__main__":
    PORT = int(sys.argv[1])
    globals()[sys.argv[2]]()
    clean_up()
