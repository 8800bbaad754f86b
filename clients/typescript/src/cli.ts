#!/usr/bin/env node
/** `nagaya-worker`: runs the worker that a module exports. */
import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { createWorker, type CreateWorkerOptions, VERSION, type Worker } from "nagaya";

const USAGE = `Usage: nagaya-worker [options] MODULE[:EXPORT]

Runs the worker that a module exports (the export "default", or "worker"): what
createWorker() returns, or the object that it takes. SIGTERM and Ctrl-C finish
running jobs; a second signal gives them back.

      --url URL          the server (NAGAYA_URL, or http://127.0.0.1:7400)
  -q, --queue NAME       a queue, may be repeated; those of the handlers by default
  -c, --concurrency N    handlers at a time
      --watch            starts again when a file changes, for development
  -h, --help
      --version
`;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      url: { type: "string" },
      queue: { type: "string", short: "q", multiple: true },
      concurrency: { type: "string", short: "c" },
      watch: { type: "boolean" },
      help: { type: "boolean", short: "h" },
      version: { type: "boolean" },
    },
  });
  if (values.help) return say(USAGE);
  if (values.version) return say(`${VERSION}\n`);
  const [target] = positionals;
  if (target === undefined || positionals.length > 1) throw new Usage("name one module");
  if (values.watch) return watch();
  if (values.url !== undefined) process.env.NAGAYA_URL = values.url;
  const over: Partial<CreateWorkerOptions> = {};
  if (values.queue) over.queues = values.queue;
  if (values.concurrency !== undefined) over.concurrency = Number(values.concurrency);
  const worker = await load(target, over);
  const stats = await worker.run({ signals: true });
  process.stderr.write(`nagaya-worker: ended: ${JSON.stringify(stats)}\n`);
  return 0;
}

async function load(target: string, over: Partial<CreateWorkerOptions>): Promise<Worker> {
  const [path, name] = split(target);
  const module = (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  // What a CommonJS module exports is also below "default".
  const inner = module.default as Record<string, unknown> | undefined;
  const found = name === undefined ? (module.worker ?? inner?.worker ?? module.default) : (module[name] ?? inner?.[name]);
  if (isWorker(found)) {
    if (Object.keys(over).length > 0) throw new Usage(`${target} exports a worker: set its options there`);
    return found;
  }
  if (typeof found === "object" && found !== null) return createWorker({ ...(found as CreateWorkerOptions), ...over });
  throw new Usage(`${target} exports no worker`);
}

/** Two copies of the package in one program have two classes: what can run is a worker. */
function isWorker(found: unknown): found is Worker {
  return typeof (found as { run?: unknown } | undefined)?.run === "function";
}

function split(target: string): [string, string | undefined] {
  const colon = target.lastIndexOf(":");
  // A colon in second place belongs to a drive letter.
  return colon > 1 ? [target.slice(0, colon), target.slice(colon + 1)] : [target, undefined];
}

/** Lets Node itself watch the files that the program has loaded. */
function watch(): Promise<number> {
  const rest = process.argv.slice(2).filter((word) => word !== "--watch");
  const self = fileURLToPath(import.meta.url);
  const child = spawn(process.execPath, ["--watch", ...process.execArgv, self, ...rest], { stdio: "inherit" });
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => child.kill(name));
  return new Promise((done) => child.once("exit", (code) => done(code ?? 1)));
}

function say(text: string): number {
  process.stdout.write(text);
  return 0;
}

class Usage extends Error {}

main().then(
  (code) => process.exit(code),
  (error: Error & { code?: string }) => {
    const isUsage = error instanceof Usage || error.code?.startsWith("ERR_PARSE_ARGS");
    process.stderr.write(`nagaya-worker: ${isUsage ? `${error.message}\n${USAGE}` : (error.stack ?? error.message)}\n`);
    process.exit(isUsage ? 2 : 1);
  },
);
