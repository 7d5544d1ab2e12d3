// `npm run build`: the programs as a few JavaScript files in dist/, which start with half the CPU time of 1,000 source files. dist/astra.mjs
// is apps/cli/bin/astra.mjs and takes the same commands. Files that the programs read (the demo page, examples) stay where they are.

import { basename, dirname, join, relative, resolve } from "node:path";
import { rolldown } from "rolldown";
import { repositoryRoot } from "./repository-files.ts";

/** Every file that starts a process or a thread, or is loaded by name, and what it is called in dist/. */
const entries: Readonly<Record<string, string>> = {
  astra: "apps/cli/bin/astra.mjs",
  scheduler: "apps/scheduler/src/index.ts",
  "engine-thread": "apps/scheduler/src/engine/engine-thread.ts",
  "request-thread-main": "apps/scheduler/src/requests/request-thread-main.ts",
  worker: "apps/worker/src/index.ts",
  "handler-thread-main": "packages/runtime/src/runner/handler-thread-main.ts",
  "node-host-main": "packages/runtime/src/hosts/node-host-main.ts",
  "processor-limit-main": "packages/runtime/src/hosts/processor-limit-main.ts",
  "installer-thread-main": "packages/runtime/src/packages/installer-thread-main.ts",
  "process-watchdog-main": "packages/runtime/src/system/process-watchdog-main.ts",
  sim: "packages/sim/src/index.ts",
  "campaign-thread": "packages/sim/src/campaign/campaign-thread.ts",
};

/** The CLI loads these packages by name; in dist/ each is an entry. */
const packageNames = /"@astraflow\/(scheduler|worker|sim)"/g;
const packageLoader = "apps/cli/src/local/app-loader.ts";
const urlOfNeighbour = /new URL\("(\.[^"]+)", import\.meta\.url\)/g;

/** Builds the programs into a folder of the repository and returns the path of the executable. */
export async function buildPrograms(outputFolder = join(repositoryRoot, "dist")): Promise<string> {
  const root = repositoryRoot;
  const nameOfEntry = new Map(Object.entries(entries).map(([name, file]) => [join(root, file), name]));
  const build = await rolldown({
    cwd: root,
    platform: "node",
    input: Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, join(root, file)])),
    // Our own packages and typebox, which has hundreds of modules; other dependencies are loaded from node_modules.
    external: (id) => !/^[./]|^@astraflow\/|^typebox/.test(id),
    plugins: [{ name: "paths", transform: (code, file) => rewritePaths(code, file) }],
  });
  await build.write({
    dir: outputFolder,
    format: "esm",
    entryFileNames: "[name].mjs",
    // In one folder with the entries: addresses of files are relative to it, whichever chunk they end up in.
    chunkFileNames: "[name]-[hash].mjs",
    cleanDir: true,
  });
  return join(outputFolder, "astra.mjs");

  /** What a module finds beside itself: another entry is in dist/ too, any other file stays in the sources. */
  function rewritePaths(code: string, file: string): string | null {
    if (!file.startsWith(root) || file.includes("/node_modules/")) return null;
    if (nameOfEntry.get(file) === "astra") return null; // starts itself again, under the path it has
    let text = code;
    if (file === join(root, packageLoader)) {
      text = text.replace(packageNames, `"./$1.mjs"`);
      if (text === code) throw new Error(`${packageLoader} names no package that is built; correct scripts/build.ts`);
    }
    if (!text.includes("import.meta")) return text === code ? null : text;
    text = text.replace(urlOfNeighbour, (_, path: string) => {
      const target = resolve(dirname(file), path);
      const entry = nameOfEntry.get(target);
      const place = entry === undefined ? relative(outputFolder, target) + (path.endsWith("/") ? "/" : "") : `./${entry}.mjs`;
      return `new URL(${JSON.stringify(place)}, IMPORT_META_URL)`;
    });
    if (text.includes("import.meta"))
      throw new Error(`${relative(root, file)} uses import.meta in a way that ${basename(import.meta.filename)} does not know`);
    return text.replaceAll("IMPORT_META_URL", "import.meta.url");
  }
}

if (process.argv[1] === import.meta.filename) console.log(`built ${relative(repositoryRoot, await buildPrograms())}`);
