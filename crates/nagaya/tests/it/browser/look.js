// What scenarios about pages share: looking at a page as different people do, and asking the API.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');

const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const FOLDER = process.env.SCREENSHOTS || process.cwd();
const LOOKS = [
  { name: 'light', scheme: 'light', width: 1280, height: 900 },
  { name: 'dark', scheme: 'dark', width: 1280, height: 900 },
  { name: 'phone', scheme: 'light', width: 390, height: 844 },
];

// Looks at the page in light, in dark and on a phone: keeps a picture of each, and complains about what axe
// finds and about pages that are wider than the screen.
async function look(page, name) {
  for (const { name: how, scheme, width, height } of LOOKS) {
    await page.setViewport({ width, height });
    // Without motion: colours that are still on their way to the new scheme would be judged as well.
    await page.emulateMediaFeatures([
      { name: 'prefers-color-scheme', value: scheme },
      { name: 'prefers-reduced-motion', value: 'reduce' },
    ]);
    await accessible(page, `${name}, ${how}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(overflow <= 0, `${name} on ${how} is ${overflow} px too wide`);
    fs.mkdirSync(FOLDER, { recursive: true });
    await page.screenshot({ path: path.join(FOLDER, `${name}-${how}.png`), fullPage: true });
  }
  await page.setViewport({ width: 1280, height: 900 });
  await page.emulateMediaFeatures([]);
}

async function accessible(page, where) {
  // Through the debugger, which the page's policy does not bind.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(' | ')}`);
  assert.deepEqual(found, [], `axe about ${where}`);
}

// The API as any client reaches it.
function api(base, token) {
  const call = async (method, where, body) => {
    const headers = { ...(body && { 'content-type': 'application/json' }), ...(token && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(base + where, { method, headers, body: body && JSON.stringify(body) });
    assert.ok(answer.ok, `${method} ${where}: ${answer.status} ${await answer.clone().text()}`);
    return answer.status === 204 ? null : answer.json();
  };
  return {
    get: (where) => call('GET', where),
    post: (where, body) => call('POST', where, body),
    put: (where, body) => call('PUT', where, body),
    enqueue: async (job) => (await call('POST', '/v1/jobs', job)).id,
    claim: async (queue) => (await call('POST', `/v1/queues/${queue}/claim`, { worker: 'worker-7', wait_seconds: 10 })).jobs[0],
  };
}

// The text of a page, as it is seen.
const text = (page, selector = 'main') => page.$eval(selector, (element) => element.innerText);

// Waits until the page says something.
const says = (page, words) =>
  page.waitForFunction((wanted) => document.querySelector('main').innerText.includes(wanted), {}, words);

const button = (words) => `::-p-xpath(//*[self::a or self::button][normalize-space()="${words}"])`;

// Presses a link or button by its words, and waits for the page that it leads to.
async function press(page, words, { leads = true } = {}) {
  const found = await page.waitForSelector(button(words));
  await (leads ? Promise.all([page.waitForNavigation(), found.click()]) : found.click());
}

// The same with the keyboard; needs no script in the page.
async function pressByKey(page, words) {
  await (await page.$(button(words))).focus();
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
}

// Waits for something that does not happen in a page.
async function until(what, holds) {
  for (const end = Date.now() + 20000; !(await holds()); await new Promise((resolve) => setTimeout(resolve, 50))) {
    assert.ok(Date.now() < end, `waited in vain: ${what}`);
  }
}

// Answers the dialog that a link opened.
async function confirm(page, words) {
  await page.waitForSelector('dialog[open]');
  const button = await page.waitForSelector(`::-p-xpath(//dialog//button[normalize-space()="${words}"])`);
  await Promise.all([page.waitForNavigation(), button.click()]);
}

module.exports = { accessible, api, confirm, look, press, pressByKey, says, text, until };
