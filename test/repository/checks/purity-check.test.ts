import { describe, expect, it } from "vitest";
import { checkPurity } from "../../../scripts/checks/purity.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

/** What the check reports on one file; the sentence without its place. */
const checkSource = (source: string, file = "packages/engine/src/core/a.ts") =>
  checkPurity(writeTemporaryTree({ [file]: source })).map((problem) => problem.replace(`${file}:`, ""));

describe("purity", () => {
  it.each([
    ["the clock", "const now = Date.now();", "uses Date"],
    ["the clock as a type", "export type Row = { at: Date };", "uses Date"],
    ["the stopwatch", "performance.now();", "uses performance"],
    ["a timer", "setTimeout(run, 5);", "uses setTimeout"],
    ["a microtask", "queueMicrotask(run);", "uses queueMicrotask"],
    ["dice", "const x = Math.random();", "uses Math.random"],
    ["random names", 'import { randomUUID } from "node:crypto";', "uses randomUUID"],
    ["global chance", "const id = crypto.getRandomValues(bytes);", "uses crypto"],
    ["the file system", 'import { readFileSync } from "node:fs";', "imports node:fs"],
    ["the file system by its old name", 'import fs from "fs";', "imports fs"],
    ["the network", 'export * from "node:http";', "imports node:http"],
    ["the process", "process.exit(1);", "uses process"],
    ["a request", "const x = fetch(url);", "uses fetch"],
    ["a promise", "export const p = Promise.resolve(1);", "uses Promise"],
    ["a promise as a type", "export function f(): Promise<void>;", "uses Promise"],
    ["an asynchronous function", "export async function f() {}", "uses async"],
    ["waiting", "await f();", "uses await"],
    ["a lazy import", 'const m = import("./b.ts");', 'import("./b.ts") waits'],
    ["a language", "names.sort((a, b) => a.localeCompare(b));", "uses localeCompare"],
    ["a number in a language", "const s = n.toLocaleString();", "uses toLocaleString"],
    ["Intl", "new Intl.NumberFormat();", "uses Intl"],
    ["for-in", "for (const key in row) keep(key);", "uses for-in"],
    ["a way around", "globalThis.Date.now();", "uses globalThis"],
    ["code in a template", "const s = `at ${Date.now()}`;", "uses Date"],
  ])("[H13] the purity check refuses %s in deciding code", (_, source, sentence) => {
    expect(checkSource(`// first line\n${source}`)).toEqual(expect.arrayContaining([expect.stringContaining(`2: ${sentence}`)]));
  });

  it("[H13] the purity check ignores comments, strings, members and keys that only look like forbidden names", () => {
    const source = `
      // Date.now() would be wrong here; so would await
      /* setTimeout(process.exit) */
      const words = { Date: "Date", process: 'process', async: true, fetch: \`fetch\` };
      interface Port { readonly Promise: number; performance?: string }
      const a = words.Date + row?.process + this.fetch;
      for (const item of list) if ("in" in item) keep(item);
      for (let i = 0; i < 3; i += 1) if (i in list) keep(i);
      const table = { constructor: 1, toString: 2 }; table.constructor;
    `;

    expect(checkSource(source)).toEqual([]);
  });

  it("[H13] the purity check lets the turn driver await, but refuses timers, the clock, randomness and process there", () => {
    const turn = "packages/engine/src/turn/a.ts";

    expect(checkSource("export async function turn(store: S): Promise<void> { await store.begin(); }", turn)).toEqual([]);
    expect(checkSource("await f(Date.now());", turn)).toEqual([expect.stringContaining("uses Date")]);
    expect(checkSource("setTimeout(f, Math.random());", turn)).toHaveLength(2);
    expect(checkSource("process.nextTick(f);", turn)).toHaveLength(1);
  });

  it("[H13] the purity check covers protocol, graph and session, and ignores tests and other packages", () => {
    for (const name of ["protocol", "graph", "session"])
      expect(checkSource("Date.now();", `packages/${name}/src/deep/a.ts`)).toHaveLength(1);
    for (const file of [
      "packages/graph/src/a.test.ts",
      "packages/session/src/testing.ts",
      "packages/store/src/a.ts",
      "apps/cli/src/a.ts",
    ])
      expect(checkSource("Date.now();", file)).toEqual([]);
  });

  it("[H13] the purity check allows hashing in the engine core, and no built-in modules in code that the browser runs", () => {
    const hash = 'import { createHash } from "node:crypto"; createHash("sha256");';

    expect(checkSource(hash)).toEqual([]);
    expect(checkSource(hash, "packages/protocol/src/a.ts")).toEqual([expect.stringContaining("imports node:crypto")]);
  });
});
