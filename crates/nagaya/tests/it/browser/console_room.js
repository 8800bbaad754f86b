'use strict';

const assert = require('node:assert/strict');
const Redis = require('ioredis');
const { run } = require('./chromium.js');
const { api, look, press, says, text } = require('./look.js');

// Some tags, all of them on disk as well, and a client to ask for them.
async function withTags(base, work) {
  const { services } = await api(base).get('/v1/house');
  const redis = new Redis(`redis://${services.room.address}`);
  try {
    await redis.set('{user:7}:name', 'Aiko');
    await redis.hset('{user:7}:visits', 'today', '3');
    await redis.set('{cart:1}:items', 'x'.repeat(5000));
    await redis.call('SAVE');
    await work(redis);
  } finally {
    redis.disconnect();
  }
}

run({
  async evictAndComeBack(browser, base) {
    await withTags(base, async (redis) => {
      const page = await browser.page();
      await page.goto(`${base}/room`);
      await says(page, 'cart:1');
      await look(page, 'room');

      await page.type('#prefix', 'user:');
      await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
      assert.ok(!(await text(page)).includes('cart:1'));
      await look(page, 'room-search');
      await press(page, 'user:7');
      await says(page, '{user:7}:visits');
      await look(page, 'room-tag');

      await press(page, 'Evict to disk');
      assert.match(await text(page), /2 keys sent to disk[\s\S]*on disk alone/);
      // Nobody touches the page: it learns by itself that a client wanted the tag.
      assert.equal(await redis.get('{user:7}:name'), 'Aiko');
      await says(page, 'in memory');
      await press(page, 'Evict to disk');
      await says(page, 'on disk alone');
      await press(page, 'Warm');
      await says(page, '2 keys brought into memory.');
    });
  },

  async exportAndErase(browser, base) {
    await withTags(base, async (redis) => {
      const page = await browser.page();
      await page.goto(`${base}/room/tags/user%3A7`);
      const file = await page.evaluate(async () => {
        const link = [...document.querySelectorAll('a')].find((one) => one.innerText === 'Export');
        return (await fetch(link.href)).text();
      });
      const keys = file.trim().split('\n').map((line) => JSON.parse(line).key);
      assert.deepEqual(keys.sort(), ['{user:7}:name', '{user:7}:visits']);

      await press(page, 'Erase…', { leads: false });
      await page.waitForSelector('dialog[open]');
      await look(page, 'room-erase');
      await press(page, 'Keep it as it is', { leads: false });
      await page.waitForSelector('dialog', { hidden: true });
      assert.equal(await redis.exists('{user:7}:name'), 1);
      await press(page, 'Erase…', { leads: false });
      await page.waitForSelector('dialog[open] #name');
      await page.type('dialog[open] #name', 'user:7');
      await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
      await says(page, '2 keys erased.');
      assert.equal(await redis.exists('{user:7}:name'), 0);
      assert.equal(await redis.exists('{cart:1}:items'), 1);
    });
  },
});
