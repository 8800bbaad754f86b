'use strict';

const assert = require('node:assert/strict');
const { run } = require('./chromium.js');
const { accessible, api, look, press, says, text } = require('./look.js');

// The browser writes down answers like 403 by itself.
const forgive = (browser, status) => {
  browser.complaints = browser.complaints.filter((complaint) => !complaint.includes(`status of ${status}`));
};

async function signIn(page, token) {
  await page.type('#token', token);
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
}

run({
  async overview(browser, base) {
    const page = await browser.page();
    const answer = await page.goto(`${base}/`);
    assert.match(answer.headers()['content-security-policy'], /default-src 'none'/);
    assert.match(await text(page), /Room[\s\S]*ready[\s\S]*Jobs[\s\S]*ready/);
    await look(page, 'overview');

    // A keyboard is enough: the skip link comes first and leads to the content.
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');

    // The theme that was chosen is there before the page is drawn, and stays.
    await press(page, 'Theme: system', { leads: false });
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    await page.reload();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    await accessible(page, 'the chosen theme');
  },

  async signIn(browser, base) {
    const page = await browser.page();
    const house = api(base, 'house-token-of-tests');
    const make = (scopes) => house.post('/v1/tokens', { tenant: 'default', name: scopes.join('-'), scopes });
    const { token: readToken } = await make(['read']);
    await house.enqueue({ queue: 'mail', payload: 1 });

    await page.goto(`${base}/jobs`);
    assert.equal(page.url(), `${base}/sign-in?next=%2Fjobs`);
    await look(page, 'sign-in');
    await signIn(page, 'a guess');
    assert.match(await text(page), /Nobody has this token/);
    await accessible(page, 'a sign-in that failed');
    forgive(browser, 403);

    await signIn(page, 'house-token-of-tests');
    assert.equal(page.url(), `${base}/jobs`);
    await says(page, 'mail');
    const [cookie] = await page.cookies();
    assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict');
    await press(page, 'Sign out');
    await page.goto(`${base}/jobs`);
    assert.match(page.url(), /sign-in/);

    // Whoever may only look sees everything and no button.
    await signIn(page, readToken);
    await page.goto(`${base}/jobs/queues/mail`);
    assert.match(await text(page, 'header.top'), /read-only/);
    assert.equal(await page.$('main [data-confirm]'), null);
    await page.goto(`${base}/`);
    assert.match(await text(page), /ready/);
    await page.goto(`${base}/jobs/queues/mail/pause`);
    assert.match(await text(page), /may look, not change/);
    forgive(browser, 403);
  },

  async foreignForms(browser, base) {
    const page = await browser.page();
    await page.goto(`${base}/jobs/bulk/cancel?queue=mail`);
    const word = await page.$eval('input[name=form_word]', (input) => input.value);
    const send = async (headers, body) => {
      const all = { 'content-type': 'application/x-www-form-urlencoded', ...headers };
      return (await fetch(`${base}/sign-out`, { method: 'POST', headers: all, body, redirect: 'manual' })).status;
    };
    assert.equal(await send({}, `form_word=${word}`), 303);
    assert.equal(await send({}, ''), 403);
    assert.equal(await send({ origin: 'http://elsewhere.test' }, `form_word=${word}`), 403);
    assert.equal(await send({ 'sec-fetch-site': 'cross-site' }, `form_word=${word}`), 403);
  },
});
