'use strict';

const { run } = require('./chromium.js');
const { api, look, says } = require('./look.js');

run({
  async decode(browser, base) {
    const [id] = (await api(base).get('/v1/ids')).ids;
    const page = await browser.page();
    await page.goto(`${base}/ids/numbers`);
    await says(page, 'this server');
    await page.type('#id', id);
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
    await says(page, 'within its millisecond');
    await look(page, 'ids');
    await page.goto(`${base}/ids/numbers?id=nonsense`);
    await says(page, 'is not an id');
  },
});
