// Builds dist: ESM and CommonJS by esbuild, types by tsc. The keeper's thread is bundled first and put into both as text.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

process.chdir(fileURLToPath(new URL(".", import.meta.url)));
rmSync("dist", { recursive: true, force: true });

const common = { bundle: true, platform: "node", target: "node20", logLevel: "warning", legalComments: "none" };
const thread = await build({ ...common, entryPoints: ["src/keeper/thread.ts"], format: "cjs", write: false });
const define = { KEEPER_THREAD: JSON.stringify(thread.outputFiles[0].text) };

// Both entries of one format share their code, so that their classes are the same.
await build({
  ...common,
  define,
  entryPoints: ["src/index.ts", "src/testing.ts"],
  format: "esm",
  splitting: true,
  chunkNames: "chunk-[hash]",
  outdir: "dist",
});
await build({ ...common, define, entryPoints: ["src/index.ts"], format: "cjs", outfile: "dist/index.cjs" });
await build({
  ...common,
  define,
  entryPoints: ["src/testing.ts"],
  format: "cjs",
  outfile: "dist/testing.cjs",
});
await build({ ...common, entryPoints: ["src/cli.ts"], format: "esm", external: ["nagaya"], outfile: "dist/cli.js" });

const tsc = join(createRequire(import.meta.url).resolve("typescript/package.json"), "../bin/tsc");
execFileSync(process.execPath, [tsc, "--emitDeclarationOnly"], { stdio: "inherit" });
// The same types for CommonJS: their imports name files of the same kind.
for (const path of readdirSync("dist", { recursive: true })) {
  if (!path.endsWith(".d.ts")) continue;
  const text = readFileSync(join("dist", path), "utf8").replaceAll(/(from "\.{1,2}\/[^"]*)\.js"/g, '$1.cjs"');
  writeFileSync(join("dist", path.replace(/\.d\.ts$/, ".d.cts")), text.replaceAll(/(import\("\.{1,2}\/[^"]*)\.js"/g, '$1.cjs"'));
}

