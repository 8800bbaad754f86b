'use strict';

const assert = require('node:assert/strict');
const { run } = require('./chromium.js');
const { confirm, look, press, says, text } = require('./look.js');

// Waits until the picture has so many workers on an instance.
const draws = (page, name, count) =>
  page.waitForFunction(
    (name, count) => {
      const cards = [...document.querySelectorAll('.instances > li')];
      const card = cards.find((one) => one.querySelector('h3').innerText === name);
      return card?.querySelectorAll('.cell').length === count;
    },
    {},
    name,
    count,
  );

run({
  // Four workers run on the instances a and b.
  async drain(browser, base) {
    const page = await browser.page();
    await page.goto(`${base}/fleet`);
    await draws(page, 'a', 2);
    await draws(page, 'b', 2);
    await look(page, 'fleet');

    await press(page, 'Drain…', { leads: false });
    await page.waitForSelector('dialog[open]');
    await look(page, 'fleet-drain');
    await confirm(page, 'Drain');
    await says(page, 'The instance is being drained.');
    // The page follows by itself until everything has moved.
    await draws(page, 'b', 4);
    await draws(page, 'a', 0);
    await says(page, 'draining');

    await press(page, 'Take workers again');
    await says(page, 'The instance takes workers again.');
    await press(page, 'Plan a rebalance');
    await says(page, 'The spread between instances');
    await look(page, 'fleet-plan');
    await page.goto(`${base}/fleet`);
    await draws(page, 'a', 2);
    assert.match(await text(page), /revoked[\s\S]*joined/);
  },
});
