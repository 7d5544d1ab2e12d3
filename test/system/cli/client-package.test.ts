// The client as somebody else has it: built, packed, unpacked where nothing of this repository is, and used there against a real scheduler.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildClient } from "../../../scripts/publish/client-package.ts";
import { startScheduler, startWorker } from "../harness/installation.ts";
import { repositoryRoot, waitMsMax } from "../harness/processes.ts";

const consumerFolder = mkdtempSync(join(tmpdir(), "astra-client-user-"));
const installedPackage = join(consumerFolder, "node_modules", "@astraflow", "client");
let packedFiles: string[] = [];

const runProgram = (program: string, args: readonly string[]): { status: number | null; stdout: string; stderr: string } =>
  spawnSync(program, args, {
    cwd: consumerFolder,
    encoding: "utf8",
    timeout: waitMsMax,
    env: { ...process.env, npm_config_cache: join(consumerFolder, "cache") },
  });
const runCompiler = (...args: string[]) =>
  runProgram(process.execPath, [join(repositoryRoot, "node_modules/typescript/bin/tsc"), ...args]);
const writeConsumerFile = (name: string, text: string): void => writeFileSync(join(consumerFolder, name), text);

beforeAll(() => {
  const dist = join(consumerFolder, "dist");
  buildClient(dist);
  const { status, stdout, stderr } = runProgram("npm", ["pack", "--json", "--offline", dist]);
  if (status !== 0) throw new Error(`npm pack ended with ${status}: ${stderr}`);
  const [tarball] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[];
  packedFiles = tarball?.files.map(({ path }) => path).sort() ?? [];
  mkdirSync(installedPackage, { recursive: true });
  const unpacked = runProgram("tar", ["-xzf", tarball?.filename ?? "", "--strip-components=1", "-C", installedPackage]);
  if (unpacked.status !== 0) throw new Error(`tar ended with ${unpacked.status}: ${unpacked.stderr}`);
  writeConsumerFile("package.json", JSON.stringify({ type: "module" }));
});
afterAll(() => rmSync(consumerFolder, { recursive: true, force: true }));

const compilerFlags = [
  "--strict",
  "--target",
  "es2022",
  "--module",
  "nodenext",
  "--lib",
  "es2023,dom,dom.asynciterable",
  "--types",
  "",
];

/** What a user writes: start a run, follow it to its end, read what came of it. */
const program = `
import { ApiFault, allItems, createClient, type Run, type ServerEvent, type Workflow } from "@astraflow/client";

const isOver = (event: ServerEvent): boolean =>
  event.type === "run.status" && ["succeeded", "failed", "cancelled"].includes(event.data.status);

export async function main(url: string, workflow: Workflow): Promise<object> {
  const client = createClient({ url, token: "dev-token" });
  const ref = await client.startRun({ body: { clientId: "me", workflow } });
  if (!("runId" in ref)) throw new Error("a plan was not asked for");
  for await (const event of client.events({ runId: ref.runId, after: "0" })) if (isOver(event)) break;
  const run: Run = await client.getRun({ runId: ref.runId });
  const names: string[] = [];
  for await (const worker of allItems((cursor) => client.listWorkers({ cursor }))) names.push(worker.id);
  const code = await client.getRun({ runId: "nobody" }).then(() => "", (why: unknown) => (why instanceof ApiFault ? why.code : ""));
  return { status: run.status, nodes: run.nodes?.map((node) => node.result), names, code };
}
`;

describe("the packed client", () => {
  it("[A330] the packed client contains compiled sources, their types, a manifest, the licence and a readme, and needs no other package", () => {
    const sources = readdirSync(join(repositoryRoot, "packages", "client", "src")).filter((name) => !name.endsWith(".test.ts"));
    const modules = ["api", ...sources.map((name) => name.replace(/\.ts$/, ""))];

    const manifest = JSON.parse(readFileSync(join(installedPackage, "package.json"), "utf8")) as Record<string, unknown>;

    expect(packedFiles).toEqual(
      [...modules.flatMap((name) => [`${name}.d.ts`, `${name}.js`]), "LICENSE", "README.md", "package.json"].sort(),
    );
    expect(manifest).toMatchObject({
      name: "@astraflow/client",
      license: "Apache-2.0",
      type: "module",
      engines: { node: ">=22.19" },
      exports: { ".": { types: "./index.d.ts", default: "./index.js" } },
    });
    expect(["private", "dependencies", "peerDependencies", "scripts"].filter((key) => key in manifest)).toEqual([]);
    const foreign = readdirSync(installedPackage)
      .filter((name) => /\.(js|d\.ts)$/.test(name))
      .flatMap((name) => [...readFileSync(join(installedPackage, name), "utf8").matchAll(/ from "([^"]+)";$/gm)])
      .map((found) => found[1] ?? "")
      .filter((specifier) => !/^\.\/\w+\.js$/.test(specifier));
    expect(foreign).toEqual([]);
  });

  it("[A331] an outside program that uses the packed client passes tsc --strict and, in plain Node, follows a run on a scheduler to its end", async () => {
    writeConsumerFile("program.ts", program);
    writeConsumerFile(
      "wrong.ts",
      `${program.replace('{ runId: "nobody" }', '{ run: "nobody" }').replace("run.status,", "run.state,")}`,
    );
    writeConsumerFile(
      "start.mjs",
      `import { main } from "./program.js";
const [url, file] = process.argv.slice(2);
const { readFileSync } = await import("node:fs");
console.log(JSON.stringify(await main(url, JSON.parse(readFileSync(file, "utf8")))));`,
    );

    expect(runCompiler(...compilerFlags, "program.ts").stdout).toBe("");
    expect(runCompiler(...compilerFlags, "--noEmit", "wrong.ts").stdout.match(/error TS\d+/g)).toHaveLength(2);

    const { http, ws } = await startScheduler();
    await startWorker(ws);
    const { stdout, stderr } = runProgram(process.execPath, ["start.mjs", http, join(repositoryRoot, "docs/examples/loop.json")]);
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toMatchObject({ status: "succeeded", names: ["w-1"], code: "E.NOT_FOUND" });
    expect(JSON.parse(stdout).nodes).toContainEqual(expect.objectContaining({ echo: "again" }));
  });

  it("[A332] the packed client has the types of the route table: every input, answer, event and error, neither wider nor narrower", () => {
    const words = "ErrorBody, RouteAnswer, RouteInput, RouteName, ServerEvent";
    writeConsumerFile(
      "agreement.ts",
      `import type * as Ours from "protocol";
import type { ${words} } from "@astraflow/client";
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : "wider") : "narrower";
type Wrong<T> = { [K in keyof T as T[K] extends true ? never : K]: T[K] };
export const names: Same<Ours.RouteName, RouteName> = true;
export const event: Same<Ours.ServerEvent, ServerEvent> = true;
export const error: Same<Ours.ErrorBody, ErrorBody> = true;
export const inputs: Wrong<{ [N in RouteName]: Same<Ours.RouteInput<N>, RouteInput<N>> }> = {};
export const answers: Wrong<{ [N in RouteName]: Same<Ours.RouteAnswer<N>, RouteAnswer<N>> }> = {};
// @ts-expect-error the comparison finds what differs
export const proof: Wrong<{ a: Same<{ a: string }, { a?: string }> }> = {};
`,
    );
    const paths = { protocol: [join(repositoryRoot, "packages/protocol/src/index.ts")] };
    const compilerOptions = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, target: "es2022", types: [] };
    const how = { module: "nodenext", lib: ["es2024", "dom", "dom.iterable"], allowImportingTsExtensions: true };
    writeConsumerFile(
      "tsconfig.json",
      JSON.stringify({ compilerOptions: { ...compilerOptions, ...how, skipLibCheck: true, paths }, files: ["agreement.ts"] }),
    );

    // Whether the protocol's own sources are right is asked elsewhere.
    expect(runCompiler("-p", ".").stdout.match(/^agreement\.ts.*/gm)).toBeNull();
  });
});
