'use strict';

const assert = require('node:assert/strict');
const { run } = require('./chromium.js');
const { api, look, press, says } = require('./look.js');

run({
  // The endpoints a and b answer "one" and "two".
  async answers(browser, base) {
    const { services } = await api(base).get('/v1/house');
    const { request_id: id } = await api(services.fanout.address).get('/search?q=shoes');
    assert.ok(id);
    const page = await browser.page();
    await page.goto(`${base}/fanout`);
    await says(page, '2 of 2 ok');
    await look(page, 'fanout');
    await press(page, id);
    await says(page, 'complete');
    for (const summary of await page.$$('summary')) {
      await summary.focus();
      await page.keyboard.press('Enter');
    }
    const bodies = await page.$$eval('pre', (all) => all.map((one) => one.innerText.trim()));
    assert.deepEqual(bodies, ['one', 'two']);
    await look(page, 'fanout-request');
  },
});
