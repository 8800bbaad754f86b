/** The package as users get it: packed, installed into an empty folder, used by the README's lines. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { type House, startHouse } from "nagaya/testing";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
let folder: string;
let house: House;
let env: NodeJS.ProcessEnv;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "nagaya-package-"));
  house = await startHouse();
  env = { ...process.env, NAGAYA_URL: house.url };
  const packed = await run("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: root });
  const archive = packed.stdout.trim().split("\n").at(-1) as string;
  await writeFile(join(folder, "package.json"), '{"name": "app", "private": true, "type": "module"}');
  await run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--offline", join(folder, archive)], { cwd: folder });
});

after(async () => {
  await house.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Returns the README's code block that begins with a comment that names a file. */
async function block(file: string): Promise<string> {
  const readme = await readFile(join(root, "README.md"), "utf8");
  const found = [...readme.matchAll(/```(?:js|ts|tsx)\n([^]*?)```/g)].find(([, code]) => code?.startsWith(`// ${file}\n`));
  assert.ok(found, `the README has no ${file}`);
  return found[1] as string;
}

async function place(file: string): Promise<void> {
  await writeFile(join(folder, file), await block(file));
}

test("the quick start of the README works from an empty folder", async () => {
  await Promise.all(["jobs.js", "worker.js", "enqueue.js"].map(place));
  const command = join(folder, "node_modules/.bin/nagaya-worker");
  const worker = spawn(command, ["worker.js"], { cwd: folder, env, stdio: "inherit" });
  const ended = new Promise<number | null>((resolve) => worker.once("exit", resolve));
  try {
    const { stdout } = await run("node", ["enqueue.js"], { cwd: folder, env });
    assert.match(stdout, /small-teapot\.jpg/);
  } finally {
    worker.kill("SIGTERM");
  }
  assert.equal(await ended, 0);
});

test("CommonJS programs can use it", async () => {
  const program = `
    const { Client, defineJob } = require("nagaya");
    const { runHandler } = require("nagaya/testing");
    const job = defineJob({ kind: "k" });
    runHandler(job.handler((n) => n + 1), 1)
      .then(({ result }) => console.log(result, new Client("http://127.0.0.1:7400").url));`;
  await writeFile(join(folder, "common.cjs"), program);
  const { stdout } = await run("node", ["common.cjs"], { cwd: folder, env });
  assert.equal(stdout.trim(), "2 http://127.0.0.1:7400");
});

test("programs of both kinds see its types under --strict", async () => {
  const program = `
    import { Client, defineJob } from "nagaya";
    const job = defineJob<{ n: number }, string>({ kind: "k" });
    export async function use(client: Client): Promise<string> {
      // @ts-expect-error the payload has another type
      await client.enqueue(job, { n: "x" });
      const made = await client.enqueue(job, { n: 1 });
      return made.wait();
    }`;
  await writeFile(join(folder, "types.mts"), program);
  await writeFile(join(folder, "types.cts"), program);
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const types = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  const flags = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", ...types];
  await run("node", [tsc, ...flags, "types.mts", "types.cts"], { cwd: folder }).catch((error: { stdout: string }) => {
    assert.fail(error.stdout);
  });
});

test("the command tells what is wrong with its arguments", async () => {
  const command = join(folder, "node_modules/.bin/nagaya-worker");
  await writeFile(join(folder, "empty.js"), "export const nothing = 1;");
  for (const [words, message] of [[[], /name one module/], [["empty.js"], /exports no worker/], [["--odd"], /--odd/]] as const) {
    await assert.rejects(run(command, [...words], { cwd: folder, env }), (error) => {
      const { code, stderr } = error as { code: number; stderr: string };
      return code === 2 && message.test(stderr);
    });
  }
  const { stdout } = await run(command, ["--help"], { cwd: folder });
  assert.match(stdout, /^Usage: nagaya-worker/);
});
