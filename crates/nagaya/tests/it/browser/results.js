// A page that waits for the results of jobs while connections are cut and the house is killed.
// Environment: JOBS (how many results there will be). Standard output: "N results" for every
// tenth of them, so that the test knows when to make trouble; at the end one JSON object from
// event id to [job, result].
'use strict';

const assert = require('node:assert/strict');
const { run } = require('./chromium.js');

const JOBS = Number(process.env.JOBS);
// What Chromium says about connections that end, and about the icon that a house may not have; nothing else may be
// complained about.
const EXPECTED = /^console: (Failed to load resource: (net::|.* 404 )|WebSocket connection to )/;

// Both run in the page.

function followEvents(jobs) {
  const seen = {};
  const source = new EventSource('/v1/events?kind=succeeded&after=0');
  return new Promise((resolve, reject) => {
    // A browser reconnects by itself unless it was told to go away.
    source.onerror = () => source.readyState === EventSource.CLOSED && reject(new Error('the stream was given up'));
    source.addEventListener('gap', () => reject(new Error('there is a gap')));
    source.addEventListener('succeeded', (message) => {
      const event = JSON.parse(message.data);
      window.take(seen, message.lastEventId, event, jobs, () => {
        source.close();
        resolve(seen);
      });
    });
  });
}

function followSocket(jobs) {
  const seen = {};
  let last = '0';
  return new Promise((resolve) => {
    const connect = () => {
      const socket = new WebSocket(`ws://${location.host}/v1/ws`);
      socket.onopen = () => socket.send(JSON.stringify({ type: 'hello', kinds: ['succeeded'], after: last }));
      const reconnect = () => setTimeout(connect, 50);
      socket.onclose = reconnect;
      socket.onmessage = (message) => {
        const { event } = JSON.parse(message.data);
        if (!event) return;
        last = event.id;
        window.take(seen, event.id, event, jobs, () => {
          socket.onclose = null;
          socket.close();
          resolve(seen);
        });
      };
    };
    connect();
  });
}

function takeOne(seen, id, event, jobs, done) {
  if (!(id in seen)) {
    seen[id] = [event.job, event.result];
    const count = Object.keys(seen).length;
    if (count % (jobs / 10) === 0) window.tell(count);
    if (count === jobs) done();
  }
}

async function follow(browser, base, follower) {
  const page = await browser.page();
  await page.goto(`${base}/version`);
  await page.exposeFunction('tell', (count) => console.log(`${count} results`));
  await page.evaluate(`window.take = ${takeOne}`);
  const seen = await page.evaluate(follower, JOBS);
  const unexpected = browser.complaints.filter((text) => !EXPECTED.test(text));
  assert.deepEqual(unexpected, []);
  browser.complaints.length = 0;
  console.log(JSON.stringify(seen));
}

run({
  eventSource: (browser, base) => follow(browser, base, followEvents),
  webSocket: (browser, base) => follow(browser, base, followSocket),
});
