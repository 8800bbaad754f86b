// Runs a script in a page of the house and prints what it logs, until it is ended.
// Usage: page.js SCRIPT
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const puppeteer = require('puppeteer-core');

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking'];

function program() {
  const folders = process.env.PATH.split(path.delimiter);
  return folders.map((folder) => path.join(folder, 'chromium')).find(fs.existsSync);
}

async function main() {
  const browser = await puppeteer.launch({ executablePath: program(), args: FLAGS, headless: true });
  process.on('SIGTERM', () => browser.close().finally(() => process.exit(0)));
  const page = await browser.newPage();
  page.on('console', async (message) => {
    const values = await Promise.all(message.args().map((arg) => arg.jsonValue()));
    const words = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    console.log(words.join(' ') || message.text());
  });
  page.on('pageerror', (error) => {
    console.error(error);
    process.exit(1);
  });
  await page.goto('http://127.0.0.1:7400/version');
  await page.addScriptTag({ content: fs.readFileSync(process.argv[2], 'utf8') });
  console.log('in the page');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
