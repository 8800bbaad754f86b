'use strict';

const assert = require('node:assert/strict');
const { run } = require('./chromium.js');

run({
  async version(browser, base) {
    const page = await browser.page();
    const answer = await page.goto(`${base}/version`);
    assert.equal(answer.status(), 200);
    assert.equal((await answer.json()).name, 'nagaya');
  },

  async nothingLeavesTheMachine(browser, base) {
    const page = await browser.page();
    await page.goto(`${base}/version`);
    await page.evaluate(() => fetch('http://192.0.2.1/').catch(() => {}));
    assert.ok(browser.complaints.some((text) => text.includes('left the machine')));
    browser.complaints.length = 0;
  },
});
