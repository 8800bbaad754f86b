'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const { run } = require('./chromium.js');
const { api, confirm, look, press, pressByKey, says, text, until } = require('./look.js');

// A queue with a bit of everything in it; returns the id of the job that failed.
async function fill(house) {
  const failed = await house.enqueue({ queue: 'mail', kind: 'send-invoice', tags: ['vip'], payload: { to: 'a@b.test' } });
  const claimed = await house.claim('mail');
  await house.post(`/v1/jobs/${failed}/progress`, { token: claimed.token, progress: 0.4, message: 'rendering page 2 of 5' });
  await house.post(`/v1/jobs/${failed}/log`, { token: claimed.token, lines: ['reading the template', 'cannot reach the mail host'] });
  await house.post(`/v1/jobs/${failed}/fail`, { token: claimed.token, error: 'no route to the mail host', permanent: true });
  await house.enqueue({ queue: 'mail', kind: 'send-invoice', payload: { to: 'c@d.test' } });
  const later = new Date(Date.now() + 3600000).toISOString();
  await house.enqueue({ queue: 'mail', kind: 'send-reminder', payload: 2, run_at: later });
  await house.enqueue({ queue: 'thumbnails', kind: 'resize', payload: { width: 320 } });
  await house.claim('thumbnails');
  return failed;
}

run({
  async retry(browser, base) {
    const house = api(base);
    const id = await fill(house);
    const page = await browser.page();
    await page.goto(`${base}/jobs`);
    await says(page, 'thumbnails');
    await look(page, 'jobs');

    await page.type('#search', 'ROUTE to');
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
    assert.equal((await page.$$('main table:last-of-type tbody tr')).length > 0, true);
    assert.match(await text(page), new RegExp(id));
    await press(page, id);
    assert.match(await text(page), /Attempt 1 failed[\s\S]*no route to the mail host/);
    assert.match(await text(page), /cannot reach the mail host/);
    await look(page, 'job-failed');

    await press(page, 'Retry', { leads: false });
    await page.waitForSelector('dialog[open]');
    await look(page, 'job-retry-dialog');
    // Escape closes, and the focus is back where it was.
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => !document.querySelector('dialog'));
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Retry');
    assert.equal((await house.get(`/v1/jobs/${id}`)).state, 'failed');
    await page.keyboard.press('Enter');
    await confirm(page, 'Run it again');
    await says(page, 'The job will run again.');
    assert.equal((await house.get(`/v1/jobs/${id}`)).state, 'waiting');
  },

  async liveUpdates(browser, base) {
    const house = api(base);
    const id = await house.enqueue({ queue: 'mail', kind: 'send', payload: 1 });
    const page = await browser.page();
    await page.goto(`${base}/jobs/${id}`);
    await says(page, 'No worker has ever asked for jobs of its queue');
    await look(page, 'job-waiting');
    await page.evaluate(() => {
      window.untouched = true;
      document.querySelector('main a').focus();
    });
    const { token } = await house.claim('mail');
    await house.post(`/v1/jobs/${id}/progress`, { token, progress: 0.5, message: 'half way' });
    await says(page, 'half way');
    await look(page, 'job-running');
    await house.post(`/v1/jobs/${id}/complete`, { token, result: { sent: true } });
    await says(page, 'Ended: succeeded');
    const state = await page.evaluate(() => [window.untouched, document.activeElement === document.querySelector('main a')]);
    assert.deepEqual(state, [true, true], 'neither the page nor the focus is lost');
    await look(page, 'job-succeeded');
  },

  async replay(browser, base) {
    const seen = [];
    const receiver = http.createServer((request, response) => {
      seen.push(request.headers['webhook-id']);
      request.resume();
      response.end('thanks');
    });
    await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    try {
      const house = api(base);
      const url = `http://127.0.0.1:${receiver.address().port}/hook`;
      const id = await house.enqueue({ queue: 'mail', kind: 'send', payload: 1, webhook: { url } });
      const { token } = await house.claim('mail');
      await house.post(`/v1/jobs/${id}/complete`, { token, result: 1 });
      const page = await browser.page();
      await page.goto(`${base}/jobs/${id}`);
      await says(page, 'delivered');
      await look(page, 'job-delivered');
      await press(page, 'Send again', { leads: false });
      await confirm(page, 'Send again');
      await says(page, '1 delivery will be sent again.');
      await until('the second delivery', () => seen.length === 2);
      assert.equal(seen[0], seen[1], 'receivers can tell repeats');
      await page.goto(`${base}/jobs/deliveries`);
      await says(page, url);
      await look(page, 'deliveries');
    } finally {
      receiver.close();
    }
  },

  async queues(browser, base) {
    const house = api(base);
    await fill(house);
    const page = await browser.page();
    await page.goto(`${base}/jobs/queues/mail`);
    await look(page, 'queue');
    await press(page, 'Pause', { leads: false });
    await confirm(page, 'Pause the queue');
    await says(page, 'paused');
    assert.equal((await house.get('/v1/queues/mail')).paused, true);
    await press(page, 'Resume', { leads: false });
    await confirm(page, 'Resume the queue');
    assert.equal((await house.get('/v1/queues/mail')).paused, false);

    // All at once, after a question that says which.
    await press(page, 'Cancel all of these', { leads: false });
    await page.waitForSelector('dialog[open]');
    assert.match(await text(page, 'dialog'), /queue mail/);
    await confirm(page, 'Cancel them all');
    await says(page, '2 jobs cancelled.');
    assert.equal((await house.get('/v1/queues/mail')).depth.cancelled, 2);
  },

  async withoutScript(browser, base) {
    const house = api(base);
    const id = await fill(house);
    const page = await browser.page();
    await page.setJavaScriptEnabled(false);
    await page.goto(`${base}/jobs/${id}`);
    await pressByKey(page, 'Retry');
    assert.match(page.url(), /\/retry$/);
    await pressByKey(page, 'Run it again');
    assert.match(await text(page), /The job will run again/);
    assert.equal((await house.get(`/v1/jobs/${id}`)).state, 'waiting');
  },
});
