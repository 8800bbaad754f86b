// A page whose owner points his name at loopback (DNS rebinding), and one that knows the address.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const puppeteer = require('puppeteer-core');
const { FLAGS, program } = require('./chromium.js');

// What the page tries; each returns what it could read.
async function attack(base) {
  const tried = {};
  const attempt = async (name, what) => {
    try {
      tried[name] = await what();
    } catch (error) {
      tried[name] = `failed: ${error.name}`;
    }
  };
  const read = async (path, options) => {
    const answer = await fetch(base + path, options);
    return `${answer.type} ${answer.status} ${await answer.text()}`;
  };
  const json = { 'content-type': 'application/json' };
  await attempt('token', () => read('/v1/tokens', {
    method: 'POST', headers: json, body: '{"tenant":"default","name":"x","scopes":["admin"]}',
  }));
  await attempt('job', () => read('/v1/jobs', { method: 'POST', headers: json, body: '{"queue":"evil","kind":"x"}' }));
  await attempt('simple', () => read('/v1/jobs/cancel', { method: 'POST', body: '{"queue":"mail"}' }));
  await attempt('opaque', () => read('/sign-out', { method: 'POST', mode: 'no-cors', body: 'x=1' }));
  await attempt('export', () => read('/v1/room/tags/t/export'));
  await attempt('erase', () => read('/v1/room/tags/t', { method: 'DELETE' }));
  await attempt('page', () => read('/'));
  await attempt('events', () => new Promise((done) => {
    const source = new EventSource(`${base}/v1/events?after=0`);
    source.onopen = () => done('opened');
    source.onmessage = (event) => done(`read ${event.data}`);
    source.onerror = () => { source.close(); done('failed: error'); };
  }));
  await attempt('socket', () => new Promise((done) => {
    const socket = new WebSocket(`${base.replace('http', 'ws')}/v1/ws`);
    socket.onopen = () => done('opened');
    socket.onerror = () => done('failed: error');
  }));
  await attempt('image', () => new Promise((done) => {
    const image = new Image();
    image.onload = () => done('loaded');
    image.onerror = () => done('failed: error');
    image.src = `${base}/assets/favicon.svg`;
  }));
  return tried;
}

const isHarmless = (result) => /^failed/.test(result) || /^\w+ (421|403) /.test(result) || /^opaque 0 $/.test(result);

async function main() {
  const [house, fanout] = process.argv.slice(2);
  // The evil server, which shows the page before the name is pointed elsewhere.
  const evil = http.createServer((_, answer) => answer.end('<!doctype html><title>nice page</title>'));
  await new Promise((done) => evil.listen(0, '127.0.0.1', done));
  const evilPort = evil.address().port;
  const rules = 'MAP evil.test 127.0.0.1';
  const browser = await puppeteer.launch({
    executablePath: program(), headless: true, args: [...FLAGS, `--host-resolver-rules=${rules}`],
  });
  try {
    for (const target of [house, fanout]) {
      const { port } = new URL(target);
      const page = await browser.newPage();
      // The rebound name: the browser takes the house for the page's own site. The page's script runs in whatever
      // document that origin has now; a page from before the name moved would be held back by Chromium itself.
      const shown = await page.goto(`http://evil.test:${port}/`);
      assert.equal(shown.status(), 421);
      assert.equal(await page.evaluate(() => location.host), `evil.test:${port}`);
      const rebound = await page.evaluate(attack, `http://evil.test:${port}`);
      for (const [name, result] of Object.entries(rebound)) {
        assert.ok(isHarmless(result), `rebound ${name}: ${result}`);
      }
      assert.match(rebound.export, /421/);
      await page.close();
      // The page of another origin that knows the address.
      const other = await browser.newPage();
      await other.goto(`http://evil.test:${evilPort}/`);
      const foreign = await other.evaluate(attack, target);
      for (const [name, result] of Object.entries(foreign)) {
        assert.ok(isHarmless(result), `foreign ${name}: ${result}`);
      }
      await other.close();
    }
  } finally {
    await browser.close();
    evil.close();
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
