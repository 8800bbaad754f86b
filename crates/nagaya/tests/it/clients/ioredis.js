// Scenarios with ioredis. Usage: ioredis.js PORT SCENARIO
//
// The same on the embedded engine and on a Cluster: keys that one command or one transaction uses together
// share a hash tag, and a scenario leaves no keys behind.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout: pause } = require('node:timers/promises');
const Redis = require('ioredis');

const port = Number(process.argv[2]);
const open = [];

function connect(options = {}) {
  const client = new Redis({ host: '127.0.0.1', port, commandTimeout: 20000, retryStrategy: null, ...options });
  open.push(client);
  return client;
}

async function untilBlocked(client, count) {
  for (let attempt = 0; attempt < 2000; attempt += 1) {
    const info = await client.info('clients');
    if (info.includes(`blocked_clients:${count}\r\n`)) return;
    await pause(10);
  }
  assert.fail(`${count} clients never blocked`);
}

function message(client, event) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${event} came`)), 20000);
    client.once(event, (...parts) => {
      clearTimeout(timer);
      resolve(parts);
    });
  });
}

const scenarios = {
  async dataTypes() {
    const r = connect();
    assert.equal(await r.set('text', 'äöü', 'EX', 100), 'OK');
    assert.equal(await r.get('text'), 'äöü');
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    await r.set(bytes, bytes);
    assert.deepEqual(await r.getBuffer(bytes), bytes);
    assert.equal(await r.hset('hash', { a: 1, b: 'two' }), 2);
    assert.deepEqual(await r.hgetall('hash'), { a: '1', b: 'two' });
    assert.equal(await r.rpush('list', 1, 2, 3), 3);
    assert.deepEqual(await r.lrange('list', 0, -1), ['1', '2', '3']);
    assert.equal(await r.zadd('zset', 1, 'one', 2, 'two'), 2);
    assert.deepEqual(await r.zrange('zset', 0, -1, 'WITHSCORES'), ['one', '1', 'two', '2']);
    assert.deepEqual(await r.mget('text', 'none', 'list'), ['äöü', null, null]);
    await assert.rejects(r.incr('text'), /ERR value is not an integer or out of range/);
    await assert.rejects(r.lpush('hash', 1), /WRONGTYPE/);
  },

  async pipelines() {
    const r = connect({ enableAutoPipelining: true });
    const numbers = Array.from({ length: 5000 }, (_, index) => index);
    await Promise.all(numbers.map((number) => r.set(`key:${number}`, number)));
    const found = await Promise.all(numbers.map((number) => r.get(`key:${number}`)));
    assert.deepEqual(found, numbers.map(String));
    const answers = await r.pipeline().set('text', 'a').incr('text').get('text').exec();
    assert.deepEqual(answers[0], [null, 'OK']);
    assert.match(answers[1][0].message, /not an integer/);
    assert.deepEqual(answers[2], [null, 'a']);
    const large = 'x'.repeat(8 << 20);
    await r.set('large', large);
    assert.equal(await r.get('large'), large);
  },

  async transactions() {
    const r = connect();
    const other = connect();
    assert.deepEqual(await r.multi().set('a', 1).incr('a').exec(), [[null, 'OK'], [null, 2]]);
    await assert.rejects(r.multi().set('never', 1).call('NOSUCHCOMMAND').exec(), /EXECABORT/);
    assert.equal(await r.exists('never'), 0);
    await r.watch('a');
    await other.set('a', 9);
    assert.equal(await r.multi().set('a', 3).exec(), null);
    assert.equal(await r.get('a'), '9');
    await r.watch('a');
    assert.deepEqual(await r.multi().set('a', 3).exec(), [[null, 'OK']]);
  },

  async scripts() {
    const r = connect();
    r.defineCommand('addAndList', {
      numberOfKeys: 1,
      lua: "redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2]) return redis.call('LRANGE', KEYS[1], 0, -1)",
    });
    assert.deepEqual(await r.addAndList('l', 'a', 'b'), ['a', 'b']);
    assert.deepEqual(await r.addAndList('l', 'c', 'd'), ['a', 'b', 'c', 'd']);
    await r.script('FLUSH');
    assert.equal((await r.addAndList('l', 'e', 'f')).length, 6);
    const answers = await r.pipeline().addAndList('m', 1, 2).llen('m').exec();
    assert.deepEqual(answers, [[null, ['1', '2']], [null, 2]]);
    await assert.rejects(r.eval('return nosuchvariable', 0), /nosuchvariable/);
  },

  async pubSub() {
    const r = connect();
    const subscriber = connect();
    assert.equal(await subscriber.subscribe('news', 'sport'), 2);
    assert.equal(await subscriber.psubscribe('log.*'), 3);
    let next = message(subscriber, 'message');
    assert.equal(await r.publish('sport', 'goal'), 1);
    assert.deepEqual(await next, ['sport', 'goal']);
    next = message(subscriber, 'pmessage');
    assert.equal(await r.publish('log.warn', 'careful'), 1);
    assert.deepEqual(await next, ['log.*', 'log.warn', 'careful']);
    await assert.rejects(subscriber.get('x'), /subscriber mode/);
    assert.equal(await subscriber.unsubscribe('news', 'sport'), 1);
    assert.equal(await subscriber.punsubscribe('log.*'), 0);
    assert.equal(await subscriber.get('x'), null);
    const sharded = connect();
    assert.equal(await sharded.ssubscribe('shard'), 1);
    next = message(sharded, 'smessage');
    assert.equal(await r.spublish('shard', 'here'), 1);
    assert.deepEqual(await next, ['shard', 'here']);
  },

  async blocking() {
    const r = connect();
    const waiting = connect().blpop('{q}a', '{q}b', 10);
    await untilBlocked(r, 1);
    await r.rpush('{q}b', 'x');
    assert.deepEqual(await waiting, ['{q}b', 'x']);
    assert.equal(await connect().brpop('none', 0.1), null);
    const first = connect().blmpop(10, 1, 'c', 'LEFT', 'COUNT', 2);
    await untilBlocked(r, 1);
    await r.multi().rpush('c', 1).rpush('c', 2).rpush('c', 3).exec();
    assert.deepEqual(await first, ['c', ['1', '2']]);
    // A client that goes away while it waits takes nothing with it.
    const leaving = connect();
    leaving.blpop('d', 0).catch(() => {});
    await untilBlocked(r, 1);
    leaving.disconnect();
    await untilBlocked(r, 0);
    await r.rpush('d', 'kept');
    assert.equal(await r.llen('d'), 1);
  },

  async streams() {
    const r = connect();
    await r.xgroup('CREATE', 's', 'g', '$', 'MKSTREAM');
    const read = connect().xreadgroup('GROUP', 'g', 'alice', 'COUNT', 10, 'BLOCK', 10000, 'STREAMS', 's', '>');
    await untilBlocked(r, 1);
    const id = await r.xadd('s', '*', 'field', 'value');
    assert.deepEqual(await read, [['s', [[id, ['field', 'value']]]]]);
    assert.deepEqual(await r.xpending('s', 'g'), [1, id, id, [['alice', '1']]]);
    assert.equal(await r.xack('s', 'g', id), 1);
    assert.equal(await r.xadd('s', 'MAXLEN', 1, '*', 'a', 1) > id, true);
    assert.equal(await r.xlen('s'), 1);
    const full = await r.xinfo('STREAM', 's', 'FULL');
    assert.equal(full[full.indexOf('entries-added') + 1], 2);
  },

  async scan() {
    const r = connect({ keyPrefix: '' });
    const pipeline = r.pipeline();
    for (let number = 0; number < 5000; number += 1) pipeline.set(`key:${number}`, number);
    for (const [error] of await pipeline.exec()) assert.ifError(error);
    const found = new Set();
    for await (const keys of r.scanStream({ match: 'key:*', count: 250 })) keys.forEach((key) => found.add(key));
    assert.equal(found.size, 5000);
    await r.sadd('set', ...Array.from({ length: 1000 }, (_, index) => index));
    const members = new Set();
    for await (const part of r.sscanStream('set', { count: 50 })) part.forEach((member) => members.add(member));
    assert.equal(members.size, 1000);
  },
};

async function cleanUp() {
  const r = connect();
  const found = new Set();
  for await (const keys of r.scanBufferStream({ count: 1000 })) keys.forEach((key) => found.add(key.toString('latin1')));
  const keys = [...found].map((key) => Buffer.from(key, 'latin1'));
  for (let start = 0; start < keys.length; start += 1000) await r.del(...keys.slice(start, start + 1000));
  assert.equal(await r.dbsize(), 0);
}

async function main() {
  try {
    await scenarios[process.argv[3]]();
    await cleanUp();
  } finally {
    open.forEach((client) => client.disconnect());
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
