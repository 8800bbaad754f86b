// A headless Chromium that may talk to this machine only, and that fails the scenario when a
// page complains. Scenarios: `run({ name: async (browser, base) => ... })`.
// Usage of a scenario file: FILE.js URL SCENARIO
'use strict';

const assert = require('node:assert/strict');
const { existsSync } = require('node:fs');
const { delimiter, join } = require('node:path');
const puppeteer = require('puppeteer-core');

const LOCAL = new Set(['127.0.0.1', 'localhost', '[::1]']);
// Tests run as root in containers, where Chromium's own sandbox cannot start.
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking'];

function program() {
  const found = process.env.PATH.split(delimiter).map((folder) => join(folder, 'chromium')).find(existsSync);
  assert.ok(found, 'chromium is missing; scripts/test installs it');
  return found;
}

class Browser {
  static async launch() {
    const browser = new Browser();
    browser.inner = await puppeteer.launch({ executablePath: program(), args: FLAGS, headless: true });
    // What pages complained about and requests that would have left the machine.
    browser.complaints = [];
    return browser;
  }

  async page() {
    const page = await this.inner.newPage();
    page.setDefaultTimeout(20000);
    page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => this.complaints.push(`page: ${error.message}`));
    await page.setRequestInterception(true);
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.protocol === 'data:' || url.protocol === 'blob:' || LOCAL.has(url.hostname)) return request.continue();
      this.complaints.push(`left the machine: ${request.url()}`);
      return request.abort();
    });
    return page;
  }

  async close() {
    await this.inner.close();
  }
}

async function run(scenarios) {
  const [base, name] = process.argv.slice(2);
  const scenario = scenarios[name];
  assert.ok(scenario, `no scenario ${name}`);
  const browser = await Browser.launch();
  try {
    await scenario(browser, base);
    assert.deepEqual(browser.complaints, []);
  } finally {
    await browser.close();
  }
}

module.exports = { FLAGS, program, run };
