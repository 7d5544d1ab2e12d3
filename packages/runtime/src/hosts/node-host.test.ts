import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fault } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { HostedPackages, type SamplePackage } from "../../test/host-harness.ts";
import type { FileTransfer } from "../resources/file-transfer.ts";
import type { InProcessRunnerOptions } from "../runner/handler-runner.ts";
import type { HostingSettings } from "./host-set.ts";

const code = `
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
const later = () => new Promise((go) => setTimeout(go, 5));
export const echo = (ctx) => ({ params: ctx.params, junk: () => 1, pid: process.pid, names: Object.keys(process.env) });
export const identity = (ctx) => ({ outputs: { run: ctx.runId, key: ctx.idempotencyKey, metadata: ctx.metadata, attempt: ctx.attempt, deadline: ctx.deadline > Date.now() } });
export const speak = async (ctx) => {
  ctx.feedback.send({ stage: "one", progress: 0.5 });
  ctx.feedback.emitText("said");
  console.log("printed");
  console.error("to stderr");
  ctx.feedback.send({ metadata: { big: 1n } });
  const child = ctx.spawn("echo", ["by a program"], { stdio: ["ignore", "pipe", "ignore"] });
  for await (const piece of child.stdout) process.stdout.write(piece);
  return {};
};
export const whisper = async (ctx) => { while (!ctx.signal.aborted) { console.log(ctx.taskId); await later(); } return {}; };
export const fail = () => { throw new TypeError("no url was given"); };
export const wrong = (ctx) => ({ list: [1], text: "t", loop: loop() })[ctx.params.kind];
const loop = () => { const one = {}; one.one = one; return one; };
export const exit = () => process.exit(7);
export const crash = async () => { setImmediate(() => { throw new TypeError("nobody catches this"); }); await new Promise(() => {}); };
export const patient = async (ctx) => { ctx.feedback.emitText("up"); await new Promise((go) => ctx.signal.addEventListener("abort", go)); throw ctx.signal.reason; };
export const spin = () => { for (;;) {} };
export const gate = async (ctx) => { ctx.feedback.emitText("up"); while (!existsSync(ctx.params.file)) await later(); return { pid: process.pid }; };
export const around = async (ctx) => ({ inner: await ctx.next({ text: "x" }, undefined, undefined, 60_000) });
export const files = (ctx) => {
  const file = path.join(ctx.workDir, "a.txt");
  writeFileSync(file, "kept");
  const kept = ctx.resources.registerFile("note", file, { metadata: { n: 1 } });
  return { outputs: { path: kept.path, size: kept.sizeBytes, none: ctx.resources.get("nothing") === undefined }, artifacts: [ctx.resources.artifact("note")] };
};
export const keep = (ctx) => {
  ctx.resources.register({ id: "page", type: "page", value: { n: 41 }, onDrop: (reason) => console.log("dropped", reason) });
  return { outputs: {}, artifacts: [ctx.resources.artifact("page")] };
};
export const use = (ctx) => { const page = ctx.leased[0]; page.value.n++; return { n: page.value.n }; };
export const replace = (ctx) => { ctx.resources.register({ id: "page", type: "page", value: { n: 1 } }); return {}; };
export const lease = (ctx) => { ctx.resources.lease("nothing"); return {}; };
export const store = async (ctx) => {
  const file = path.join(ctx.workDir, "b.txt");
  writeFileSync(file, "kept");
  ctx.resources.registerFile("b", file);
  const stored = await ctx.resources.upload("b", { filename: "b.txt", mimeType: "text/plain" });
  return { outputs: { stored }, artifacts: [ctx.resources.artifact("b")] };
};
export const fetchFile = async (ctx) => { const kept = await ctx.resources.download(ctx.params.id); return { text: readFileSync(kept.path, "utf8") }; };
export const coded = () => { throw Object.assign(new Error("no page was given"), { code: "E.PARAMS.INVALID" }); };
export const miscoded = () => { throw Object.assign(new Error("no such file"), { code: "ENOENT" }); };
export const flood = async () => { for (;;) { console.log("x".repeat(1_000)); await later(); } };
export const secrets = ({ secrets }) => ({ keys: Object.keys(secrets), length: secrets.door.length, plain: "file" in secrets });
export const large = () => ({ text: "x".repeat(3_000_000), n: 1 });
`;
const names = [...code.matchAll(/^export const (\w+)/gm)].map(([, name]) => name as string);
const sample: SamplePackage = { runtime: "node", entrypoint: "main.mjs", handlers: names, files: { "main.mjs": code } };

const open: HostedPackages[] = [];
afterEach(async () => {
  for (const packages of open.splice(0)) await packages.close();
});

async function openSample(
  more: Partial<HostingSettings> & Pick<InProcessRunnerOptions, "transferFile" | "outputBytesMax"> = {},
  samples: readonly SamplePackage[] = [sample],
): Promise<HostedPackages> {
  const packages = await HostedPackages.open(samples, more);
  open.push(packages);
  return packages;
}

describe("handlers in a Node host", () => {
  it("[W778] a handler in a Node host has the context it has in a thread: names, output, processes, chain, and results as they were", async () => {
    const packages = await openSample();
    packages.answerNext = () => ({ result: { n: 1 } });
    const part = { attempt: 2, constraints: { timeout_ms: 60_000 }, concurrency_key: "k" };

    const echo = await packages.run("sample.echo", "t1", { text: "ä😀" });
    const identity = await packages.run("sample.identity", "t2", {}, part);
    await packages.run("sample.speak", "t3");
    const around = await packages.run("sample.around", "t4", {}, { middleware_chain: ["m"], chain_index: 0, host_node_id: "h" });
    const large = await packages.run("sample.large", "t5");

    expect(echo.payload).toMatchObject({ status: "SUCCEEDED", result: { params: { text: "ä😀" } } });
    expect((echo.payload["result"] as { pid: number }).pid).not.toBe(process.pid);
    expect(identity.payload["result"]).toEqual({
      run: "r",
      key: "t2",
      metadata: { constraints: { timeout_ms: 60_000 }, concurrency_key: "k" },
      attempt: 2,
      deadline: true,
    });
    expect(packages.feedback.find(({ input }) => input.stage === "one")?.input).toMatchObject({ progress: 0.5 });
    expect(packages.text("t3", "log")).toBe("said");
    expect(packages.text("t3", "stdout")).toBe("printed\nby a program\n");
    expect(packages.text("t3", "stderr")).toBe("to stderr\n");
    expect(packages.reports.map(({ message }) => message)).toContain(
      "feedback of task t3 cannot be written as JSON and was dropped",
    );
    expect(around.payload["result"]).toEqual({ inner: { n: 1 } });
    expect(large.payload["result"]).toMatchObject({ n: 1, text: { resourceRef: { workerName: "box" } } });
  });

  it("[W1113] a handler in a Node host that floods its output ends with E.RUNNER.OUTPUT, and others go on", async () => {
    const packages = await openSample({ outputBytesMax: 200_000 });

    const flooded = await packages.run("sample.flood", "t1");
    const other = await packages.run("sample.echo", "t2");

    expect(flooded.payload).toMatchObject({ code: "E.RUNNER.OUTPUT" });
    expect(other.payload).toMatchObject({ status: "SUCCEEDED" });
  });

  it("[W1114] a Node host is ended beyond the processor time that it may use since its latest attempt began, and the next attempt gets another", async () => {
    const packages = await openSample({ cpuSecondsMax: 1 });

    const burned = await packages.run("sample.spin", "t1");
    const other = await packages.run("sample.echo", "t2");

    expect(burned.payload["message"]).toContain("it used up its processor time");
    expect(other.payload).toMatchObject({ status: "SUCCEEDED" });
  });

  it("[W1115] a handler finds the texts that were granted to its package in ctx.secrets, by their keys", async () => {
    const packages = await openSample();
    const door = { resourceId: "r1", type: "secret", value: "open-sesame" };
    const file = { resourceId: "r2", type: "file", filename: "a.txt" };

    const { payload } = await packages.run("sample.secrets", "t1", { __resourceBindings: { door, file } });

    expect(payload["result"]).toEqual({ keys: ["door"], length: 11, plain: false });
  });

  it("[W780] what a handler in a Node host throws and returns is reported as from a thread, with its place in the package", async () => {
    const packages = await openSample();

    const failed = await packages.run("sample.fail", "t1");
    const kinds = ["list", "text", "nothing", "loop"];
    const wrong = await Promise.all(kinds.map((kind) => packages.run("sample.wrong", kind, { kind })));

    expect(failed.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: "no url was given" });
    const { stack } = (failed.payload["context"] as { details: { stack: string } }).details;
    expect(stack).toMatch(/^TypeError: no url was given\n.*main\.mjs:\d+/);
    expect(wrong.map(({ payload }) => String(payload["message"]).split("\n")[0])).toEqual([
      "the handler returned an array; it must return an object",
      'the handler returned "t"; it must return an object',
      "the handler returned nothing; it must return an object",
      expect.stringContaining("the result cannot be written as JSON: "),
    ]);
  });

  it("[W772] a Node host that a handler ends fails that task alone, and the next task gets a new process", async () => {
    const packages = await openSample({}, [sample, { ...sample, name: "other" }]);
    const file = path.join(packages.root, "go");
    packages.start("other.gate", "t0", { file });
    await packages.until(() => packages.text("t0", "log") === "up");

    const exited = await packages.run("sample.exit", "t1");
    const crashed = await packages.run("sample.crash", "t2");
    const after = await packages.run("sample.echo", "t3");
    writeFileSync(file, "");
    const other = await packages.outcome("t0");

    expect(exited.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: expect.stringContaining("it ended with code 7") });
    expect(crashed.payload).toMatchObject({
      code: "E.RUNNER.FAILURE",
      message: expect.stringMatching(/it ended with code 1: TypeError: nobody catches this$/),
    });
    for (const { payload } of [after, other]) expect(payload).toMatchObject({ status: "SUCCEEDED" });
  });

  it("[W773] a handler in a Node host is cancelled by its signal, and its process is replaced where it blocks", async () => {
    const packages = await openSample({ cancelGraceMs: 100 });
    packages.start("sample.patient", "t1");
    await packages.until(() => packages.text("t1", "log") === "up");

    packages.attempts.get("t1")?.stopSignal.stop(new Error("enough"));
    await packages.returned("t1");
    const [first] = packages.groups;
    const late = await packages.run("sample.spin", "t2", {}, { constraints: { timeout_ms: 200 } });
    await packages.returned("t2");
    const next = await packages.run("sample.echo", "t3");

    expect(late.payload).toMatchObject({ code: "E.TIMEOUT" });
    expect((next.payload["result"] as { pid: number }).pid).not.toBe(first);
  });

  it("[W777] what handlers in a Node host keep is the worker's: files move, values stay in their process and are lost with it", async () => {
    const packages = await openSample();
    const reference = { resource_refs: [{ resource_id: "page", worker_name: "box", type: "page" }] };

    const file = await packages.run("sample.files", "t1");
    await packages.run("sample.keep", "t2");
    const used = await packages.run("sample.use", "t3", {}, reference);
    await packages.run("sample.replace", "t4");
    await packages.until(() => packages.reports.some(({ cause }) => cause === "dropped replaced\n"));
    const again = await packages.run("sample.use", "t5", {}, reference);
    const missing = await packages.run("sample.lease", "t6");
    await packages.run("sample.exit", "t7");
    const gone = await packages.run("sample.use", "t8", {}, reference);

    expect(file.payload["result"]).toMatchObject({ size: 4, none: true });
    expect(existsSync((file.payload["result"] as { path: string }).path)).toBe(true);
    expect([used, again].map(({ payload }) => payload["result"])).toEqual([{ n: 42 }, { n: 2 }]);
    expect(missing.payload).toMatchObject({ code: "E.RESOURCE.MISSING" });
    expect(packages.removed).toEqual(["page lost"]);
    expect(gone.payload).toMatchObject({ code: "E.RESOURCE.MISSING" });
  });

  it("[W774] tasks that run side by side in one Node host print each for itself", async () => {
    const packages = await openSample();
    for (const task of ["t1", "t2"]) packages.start("sample.whisper", task);
    await packages.until(() => ["t1", "t2"].every((task) => packages.text(task, "stdout").length > 20));

    for (const { stopSignal } of packages.attempts.values()) stopSignal.stop(new Error("enough"));
    await Promise.all(["t1", "t2"].map((task) => packages.returned(task)));

    expect(new Set(packages.text("t1", "stdout").trim().split("\n"))).toEqual(new Set(["t1"]));
    expect(new Set(packages.text("t2", "stdout").trim().split("\n"))).toEqual(new Set(["t2"]));
  });

  it("[W787] a host sees the environment that its worker names, and no other variables", async () => {
    const packages = await openSample({ env: { PATH: process.env["PATH"] ?? "", COLOUR: "blue" } });

    const { payload } = await packages.run("sample.echo", "t1");

    expect((payload["result"] as { names: string[] }).names.toSorted()).toEqual(["COLOUR", "PATH"]);
  });

  it("[W1043] a handler in a Node host stores a file with the scheduler and fetches one, without seeing the token, and learns why it cannot", async () => {
    const asked: FileTransfer[] = [];
    const packages = await openSample({
      transferFile: async (transfer) => {
        asked.push(transfer);
        if (transfer.type === "download" && transfer.resourceId === "gone") throw fault("E.NOT_FOUND", "resource gone not found");
        if (transfer.type === "download") writeFileSync(transfer.path, "from elsewhere");
        return { resourceId: "f1", downloadUrl: "/f1", filename: "b.txt", sizeBytes: 4, sha256: "00" };
      },
    });

    const store = await packages.run("sample.store", "t1");
    const fetched = await packages.run("sample.fetchFile", "t2", { id: "f2" });
    const refused = await packages.run("sample.fetchFile", "t3", { id: "gone" });

    expect(asked[0]).toMatchObject({ type: "upload", workerName: "box", filename: "b.txt", mimeType: "text/plain" });
    expect(store.payload).toMatchObject({
      result: { stored: { resourceId: "f1" } },
      artifacts: [{ resource_id: "b", metadata: { stored: { resourceId: "f1", downloadUrl: "/f1" } } }],
    });
    expect(fetched.payload).toMatchObject({ result: { text: "from elsewhere" } });
    expect(refused.payload).toMatchObject({ code: "E.NOT_FOUND", message: "resource gone not found" });
  });

  it("[W1044] an error with the code of a fault fails its attempt with that code; any other code is no fault", async () => {
    const packages = await openSample();

    const coded = await packages.run("sample.coded", "t1");
    const miscoded = await packages.run("sample.miscoded", "t2");

    expect(coded.payload).toMatchObject({ code: "E.PARAMS.INVALID", message: "no page was given" });
    expect(miscoded.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: "no such file" });
  });
});
