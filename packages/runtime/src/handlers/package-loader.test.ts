import { mkdtempSync } from "node:fs";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Fault, type JsonObject, type Manifest, readWorkflow } from "@astraflow/protocol";
import type { FeedbackInput, HandlerContext } from "@astraflow/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { describePackagesForRegister, type LoadedPackages, loadPackages } from "./package-loader.ts";

const typesIn = (manifestJson: JsonObject) => (manifestJson as unknown as Manifest).nodes.map(({ type }) => type);
const examples = fileURLToPath(new URL("../../../../examples/packages", import.meta.url));
/** Packages for Python need a host, which no test here has. */
const noHost = { dir: path.join(examples, "python/1.0.0"), message: "package python 1.0.0 has no adapter for Node" };
const roots: string[] = [];
afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true });
});

function makeRoot(): string {
  const root = mkdtempSync(path.join(tmpdir(), "packages-"));
  roots.push(root);
  return root;
}

async function put(root: string, at: string, files: Record<string, string | object>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(root, at, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
  }
}

const node = (type: string, handler: string, adapter = "main") => ({
  type,
  status: "published",
  category: "Tests",
  label: type,
  adapter,
  handler,
  schema: {},
});

const manifest = (part: object = {}) => ({
  schemaVersion: "1.0.0",
  name: "tiny",
  version: "1.0.0",
  description: "",
  adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["tiny.a"] }],
  node: { requires: ">=22" },
  nodes: [node("tiny.a", "a")],
  ...part,
});

const code = "export const a = () => ({ from: 'a' });";
const call = (loadedPackages: LoadedPackages, type: string, version = "1.0.0") =>
  loadedPackages.handlers.findHandler("tiny", version, type)?.handler({} as HandlerContext);

describe("packages on disk", () => {
  it("[W40] the package loader loads versions side by side and offers what their manifests contain", async () => {
    const root = makeRoot();
    await put(root, "tiny/1.0.0", { "manifest.json": manifest(), "main.mjs": code });
    await put(root, "tiny/2.0.0", { "manifest.json": manifest({ version: "2.0.0" }), "main.mjs": code.replace("'a'", "'b'") });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.problems).toEqual([]);
    expect(call(loadedPackages, "tiny.a")).toEqual({ from: "a" });
    expect(call(loadedPackages, "tiny.a", "2.0.0")).toEqual({ from: "b" });
    expect(describePackagesForRegister(loadedPackages)).toEqual({
      packages: [
        { name: "tiny", version: "1.0.0", status: "installed" },
        { name: "tiny", version: "2.0.0", status: "installed" },
      ],
      manifests: [
        { name: "tiny", version: "1.0.0", manifest: manifest() },
        { name: "tiny", version: "2.0.0", manifest: manifest({ version: "2.0.0" }) },
      ],
    });
  });

  it("[W40] the package loader takes names from the manifest, not from the folders, and loads flat folders too", async () => {
    const root = makeRoot();
    await put(root, "some_folder", { "manifest.json": manifest(), "main.mjs": code });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.packages.map(({ name, version }) => `${name} ${version}`)).toEqual(["tiny 1.0.0"]);
  });

  it("[W40] the package loader finds no packages where the folder does not exist", async () => {
    expect(await loadPackages(path.join(makeRoot(), "nowhere"))).toMatchObject({ packages: [], problems: [] });
  });

  it("[W41] the package loader reports a bad package with the reason, and loads the others", async () => {
    const root = makeRoot();
    await put(root, "a/1", { "manifest.json": "{" });
    await put(root, "b/1", { "manifest.json": manifest({ name: "NOT OK" }) });
    await put(root, "c/1", { "manifest.json": manifest({ name: "c" }) });
    await put(root, "d/1", { "manifest.json": manifest({ name: "d" }), "main.mjs": "throw new Error('at import')" });
    await put(root, "e/1", { "manifest.json": manifest({ name: "e" }), "main.mjs": "export const other = 1" });
    await put(root, "f/1", {
      "manifest.json": manifest({ name: "f", node: undefined, python: { requires: ">=3.10" } }),
      "main.mjs": code,
    });
    await put(root, "g/1", { "manifest.json": "[]" });
    await put(root, "tiny/1.0.0", { "manifest.json": manifest(), "main.mjs": code });
    await put(root, "twin/1.0.0", { "manifest.json": manifest(), "main.mjs": code });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.packages.map(({ name }) => name)).toEqual(["tiny"]);
    const reasons = loadedPackages.problems.map(({ dir, code, message }) => [path.relative(root, dir), code, message]);
    expect(reasons).toEqual([
      ["a/1", "E.MANIFEST.INVALID", expect.stringContaining("JSON")],
      ["b/1", "E.MANIFEST.INVALID", expect.stringContaining("manifest.name")],
      ["c/1", "E.PKG.INVALID", expect.stringContaining("does not point to a file")],
      ["d/1", "E.PKG.INVALID", expect.stringContaining("at import")],
      ["e/1", "E.PKG.INVALID", expect.stringMatching(/does not export; it exports no function$/)],
      ["f/1", "E.PKG.INVALID", expect.stringContaining("no adapter for Node")],
      ["g/1", "E.MANIFEST.INVALID", expect.stringContaining("object")],
      ["twin/1.0.0", "E.PKG.INVALID", expect.stringContaining("already loaded")],
    ]);
  });

  it("[W721] a handler that its module does not export is reported with the names of what it exports", async () => {
    const root = makeRoot();
    const adapter = (entrypoint: string) => [{ name: "main", entrypoint, capabilities: ["tiny"] }];
    const one = { nodes: [node("tiny.a", "countWords")] };
    await put(root, "a/1", {
      "manifest.json": manifest({ name: "a", ...one }),
      "main.mjs": "export const x = 1; export function count() {} export default { total: { run() {} } };",
    });
    await put(root, "b/1", {
      "manifest.json": manifest({ name: "b", ...one, adapters: adapter("main.mjs:Words") }),
      "main.mjs": "export class Words { sum() {} }",
    });

    const { problems } = await loadPackages(root);

    expect(problems.map(({ message }) => message)).toEqual([
      "tiny.a names handler countWords, which main.mjs does not export; it exports count, total",
      "tiny.a names handler countWords, which main.mjs:Words does not export; it exports sum",
    ]);
  });

  it("[W831] the package loader names the manifest that repeats the version of another", async () => {
    const root = makeRoot();
    await put(root, "tiny/1.0.0", { "manifest.json": manifest(), "main.mjs": code });
    await put(root, "tiny/1.1.0", { "manifest.json": manifest(), "main.mjs": code });

    const { problems } = await loadPackages(root);

    expect(problems.map(({ message }) => message)).toEqual([
      `${root}/tiny/1.1.0/manifest.json says tiny version 1.0.0, which is already loaded from ${root}/tiny/1.0.0; change "version"`,
    ]);
  });

  it("[W204] the package loader reports all problems of a manifest at once, each with its path and an example", async () => {
    const root = makeRoot();
    await put(root, "a/1", { "manifest.json": manifest({ name: "NOT OK", version: 1, adapters: [] }) });
    const adrift = { ...node("tiny.b", "b"), adapter: "nowhere" };
    await put(root, "b/1", { "manifest.json": manifest({ node: undefined, nodes: [node("tiny.a", "a"), adrift] }) });

    await put(root, "c/1", { "manifest.json": manifest({ nodes: undefined }) });

    const { problems } = await loadPackages(root);

    expect(problems.map(({ dir, message }) => [path.relative(root, dir), message])).toEqual([
      ["a/1", expect.stringMatching(/^manifest\.name .*, for example "acme\.tools"$/)],
      ["a/1", expect.stringMatching(/^manifest\.version .*, for example "1\.0\.0"$/)],
      ["a/1", expect.stringMatching(/^manifest\.adapters .*, for example \[\{"name":"main",/)],
      ["b/1", expect.stringMatching(/^manifest must have python, node or both, for example \{/)],
      ["b/1", expect.stringMatching(/^manifest\.nodes\.1\.adapter must name one of the adapters, for example "main"$/)],
      ["c/1", expect.stringMatching(/^manifest must have nodes, for example \{"nodes":\[\{"type":"acme\.greet",/)],
    ]);
  });

  it("[J911] the package loader reports a manifest that is not JSON with file, line and column", async () => {
    const root = makeRoot();
    await put(root, "a/1", { "manifest.json": '{\n  "name": "tiny",\n  version: "1.0.0"\n}' });

    const { problems } = await loadPackages(root);

    expect(problems.map(({ message }) => message)).toEqual([
      `${root}/a/1/manifest.json:3:3 is not JSON: expected the name of a field in double quotes`,
    ]);
  });

  it("[W41] the package loader offers the working nodes of a package when one of its nodes does not work", async () => {
    const root = makeRoot();
    const nodes = [node("tiny.a", "a"), node("tiny.b", "missing")];
    await put(root, "tiny/1.0.0", { "manifest.json": manifest({ nodes }), "main.mjs": code });

    const loadedPackages = await loadPackages(root);

    expect(call(loadedPackages, "tiny.a")).toEqual({ from: "a" });
    expect(loadedPackages.handlers.findHandler("tiny", "1.0.0", "tiny.b")).toBeUndefined();
    expect(loadedPackages.problems).toHaveLength(1);
  });

  it("[W41] the package loader does not follow an entrypoint out of its package", async () => {
    const root = makeRoot();
    await put(root, "outside", { "evil.mjs": code });
    await put(root, "shelf/tiny/1.0.0", { "manifest.json": manifest() });
    await symlink(path.join(root, "outside/evil.mjs"), path.join(root, "shelf/tiny/1.0.0/main.mjs"));

    const loadedPackages = await loadPackages(path.join(root, "shelf"));

    expect(loadedPackages.packages).toEqual([]);
    expect(loadedPackages.problems[0]?.message).toContain("does not point to a file inside the package");
  });

  it("[W42] the package loader finds handlers in a module, its default, a named object, a class, as one function, and by module path", async () => {
    const root = makeRoot();
    const adapters = [
      ["module", "module.mjs"],
      ["default", "default.mjs"],
      ["object", "named.mjs:Things"],
      ["class", "named.mjs:Adapter"],
      ["single", "named.mjs:single"],
      ["dotted", "deep.inner"],
    ].map(([name, entrypoint]) => ({ name, entrypoint, capabilities: ["x"] }));
    const nodes = [
      node("tiny.module", "go", "module"),
      node("tiny.default", "go", "default"),
      node("tiny.object", "go", "object"),
      node("tiny.class", "go", "class"),
      node("tiny.single", "single", "single"),
      node("tiny.dotted", "go", "dotted"),
    ];
    await put(root, "tiny/1.0.0", {
      "manifest.json": manifest({ adapters, nodes }),
      "module.mjs": "export const go = () => 'module';",
      "default.mjs": "export default { go: () => 'default' };",
      "named.mjs": `export const Things = { go: { run: () => 'object' } };
        export class Adapter { word = 'class'; go() { return this.word; } }
        export function single() { return 'single'; }`,
      "deep/inner.mjs": "export const go = () => 'dotted';",
    });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.problems).toEqual([]);
    for (const { type } of nodes) expect(call(loadedPackages, type)).toBe(type.slice(5));
  });

  it("[W42] the package loader loads a manifest of the older form, where nodes are bound by runtime", async () => {
    const root = makeRoot();
    const { adapter: _, handler: __, ...rest } = node("tiny.a", "a");
    const nodes = [{ ...rest, runtimes: { node: { handler: "a", config: { deep: true } } } }];
    const adapters = [{ name: "main", runtime: "node", entrypoint: "main.mjs", capabilities: ["tiny.a"] }];
    await put(root, "tiny/1.0.0", { "manifest.json": manifest({ adapters, nodes }), "main.mjs": code });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.handlers.findHandler("tiny", "1.0.0", "tiny.a")?.config).toEqual({ deep: true });
  });

  it("[W128] the package loader calls the setup of a module once, before its handlers, with the API to listen for vendor frames", async () => {
    const root = makeRoot();
    const listening = `
      let calls = 0;
      export const setup = async ({ packageName, ext }) => { calls++; await null; ext.on(\`ext.vendor.\${packageName}.x\`, () => {}); };
      export const a = () => ({ calls });
    `;
    const adapters = ["main", "other"].map((name) => ({ name, entrypoint: "main.mjs", capabilities: ["tiny.a"] }));
    const nodes = [node("tiny.a", "a"), node("tiny.b", "a", "other")];
    await put(root, "tiny/1.0.0", { "manifest.json": manifest({ adapters, nodes }), "main.mjs": listening });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.problems).toEqual([]);
    expect(call(loadedPackages, "tiny.a")).toEqual({ calls: 1 });
    expect(loadedPackages.vendorFrames?.listenedTypes).toEqual(["ext.vendor.tiny.x"]);
  });

  it("[W128] the package loader does not offer the handlers of a module whose setup fails, and reports the reason", async () => {
    const root = makeRoot();
    const failing = `${code} export const setup = async () => { throw new Error("no licence"); };`;
    await put(root, "tiny/1.0.0", { "manifest.json": manifest(), "main.mjs": failing });
    await put(root, "tiny/2.0.0", { "manifest.json": manifest({ version: "2.0.0" }), "main.mjs": code });

    const loadedPackages = await loadPackages(root);

    expect(loadedPackages.problems.map(({ message }) => message)).toEqual(["setup of main.mjs failed: no licence"]);
    expect(loadedPackages.packages.map(({ version }) => version)).toEqual(["2.0.0"]);
  });

  it("[W128] the package loader treats a node's handler named setup as a handler", async () => {
    const root = makeRoot();
    const older = "export const setup = () => ({ from: 'setup' });";
    await put(root, "tiny/1.0.0", { "manifest.json": manifest({ nodes: [node("tiny.a", "setup")] }), "main.mjs": older });

    expect(call(await loadPackages(root), "tiny.a")).toEqual({ from: "setup" });
  });
});

describe("the example workflows", () => {
  it("[W44] the example workflows are valid, use nodes that exist, and have only edges from an output port to an input port", async () => {
    const loadedPackages = await loadPackages(examples);
    const types = new Set(loadedPackages.packages.flatMap((one) => typesIn(one.manifestJson)));
    const documents = ["run-request", "welcome-journey", "loop", "map"].map((name) => `../../docs/examples/${name}.json`);
    for (const name of ["welcome.json", "hello-chain.json", "patient.json", "ask.json", ...documents]) {
      const document: unknown = JSON.parse(await readFile(path.join(examples, "../workflows", name), "utf8"));
      const workflow = readWorkflow((document as { workflow?: unknown }).workflow ?? document);
      if (workflow instanceof Fault) throw workflow;
      const nodes = new Map(workflow.nodes.map((each) => [each.id, each]));

      for (const each of workflow.nodes) expect(types).toContain(each.type);
      for (const { source, target } of workflow.edges) {
        const from = nodes.get(source.node)?.ui?.outputPorts?.find((port) => port.key === source.port);
        const to = nodes.get(target.node)?.ui?.inputPorts?.find((port) => port.key === target.port);
        expect(from?.binding.path).toMatch(/^results\./);
        expect(to?.binding.path).toMatch(/^parameters\./);
      }
    }
  });
});

describe("the demo package", () => {
  const run = async (type: string, params: object, part: object = {}) => {
    const loadedPackages = await loadPackages(examples);
    expect(loadedPackages.problems).toMatchObject([noHost]);
    const context = { params, attempt: 1, signal: new AbortController().signal, feedback: { send() {} }, ...part };
    return loadedPackages.handlers.findHandler("demo", "1.0.0", type)?.handler(context as unknown as HandlerContext);
  };

  it("[W43] each node of the demo package does what the package's table describes", async () => {
    expect(await run("demo.text", { text: "hi" })).toEqual({ text: "hi" });
    expect(await run("demo.transform", { text: "hello WORLD", mode: "title" })).toMatchObject({ text: "Hello World" });
    expect(await run("demo.transform", { text: "añ😀", mode: "reverse" })).toMatchObject({ text: "😀ña" });
    expect(await run("demo.split", { text: "a b c" })).toEqual({ left: "a b", right: "c", parts: ["a", "b", "c"], count: 3 });
    expect(await run("demo.join", { left: "a b", right: "c" })).toEqual({ text: "a b c" });
    expect(await run("demo.count", { number: 4, step: 3 })).toEqual({ number: 7 });
    expect(await run("demo.fail", { times: 2 }, { attempt: 3 })).toEqual({ attempts: 3 });
    expect(await run("demo.noop", {})).toEqual({});
    await expect(run("demo.fail", { times: 2 }, { attempt: 2 })).rejects.toThrow("attempt 2 fails");
    await expect(run("demo.transform", { text: "x", mode: "constructor" })).rejects.toThrow("mode must be one of");
  });

  it("[W43] the delay node of the demo package reports its progress, and ends when its task is stopped", async () => {
    const sent: { progress?: number }[] = [];
    const done = await run(
      "demo.delay",
      { durationMs: 2, text: "hi" },
      { feedback: { send: (input: object) => sent.push(input) } },
    );
    expect(done).toEqual({ text: "hi", waitedMs: 2 });
    expect(sent.map((input) => input.progress)).toEqual([0, 1]);

    const controller = new AbortController();
    const endless = run("demo.delay", { durationMs: 3_600_000 }, { signal: controller.signal });
    controller.abort(new Error("not wanted"));

    await expect(endless).rejects.toThrow("not wanted");
  });
});

describe("the packages of the welcome journey", () => {
  const run = async (type: string, params: object, part: object = {}) => {
    const loadedPackages = await loadPackages(examples);
    const sent: FeedbackInput[] = [];
    const send = (input: FeedbackInput) => void sent.push(input);
    const feedback = { send, emitText: (text: string) => send({ chunks: [{ text }] }) };
    const context = { params, runId: "r", taskId: "r.4", signal: new AbortController().signal, feedback, leased: [], ...part };
    const name = type.startsWith("system.") ? "system" : "example.pkg";
    const returned: unknown = await loadedPackages.handlers
      .findHandler(name, "1.0.0", type)
      ?.handler(context as unknown as HandlerContext);
    return { returned, sent };
  };
  const given = async (type: string, params: object, part: object = {}) => (await run(type, params, part)).returned;

  it("[W167] the welcome journey's nodes load a config, fill in its template, and pass on what later nodes need", async () => {
    const routing = { recipient: "ada@x.test", subject: "Hi", channel: "sms", delaySeconds: 2, tokenDelayMs: 5 };
    const config = { template: "Hello {{ name }} and {{nobody}}", name: "Ada", ...routing };

    const loaded = (await given("example.pkg.load_config", { config: JSON.stringify(config) })) as object;
    const changed = await given("example.pkg.transform_text", { ...loaded, text: "hello ada", mode: "title" });

    expect(loaded).toEqual({ ...routing, config, message: "Hello Ada and {{nobody}}" });
    expect(changed).toEqual({ ...routing, output: "Hello Ada", message: "Hello Ada", mode: "title", length: 9 });
    await expect(given("example.pkg.load_config", { config: "[]" })).rejects.toThrow("config must be a JSON object");
    await expect(given("example.pkg.transform_text", { mode: "toString" })).rejects.toThrow("mode must be one of");
  });

  it("[A366] the example nodes read a text that stayed at the worker because it was too large to send", async () => {
    const kept: Record<string, unknown> = { big: "hello ada", config: { template: "Dear Ada" } };
    const resources = { readJson: (id: string) => kept[id] };
    const stayed = (resourceId: string) => ({ resourceRef: { resourceId, workerName: "w", type: "json" } });
    const loadedPackages = await loadPackages(examples);
    const demo = (type: string, params: object) =>
      loadedPackages.handlers.findHandler("demo", "1.0.0", type)?.handler({ params, resources } as unknown as HandlerContext);
    const big = stayed("big");

    expect(await demo("demo.transform", { text: big })).toMatchObject({ text: "HELLO ADA" });
    expect(await demo("demo.join", { left: big, right: "!" })).toEqual({ text: "hello ada !" });
    expect(await demo("demo.split", { text: big })).toMatchObject({ left: "hello", right: "ada" });
    expect(await given("example.pkg.transform_text", { text: big }, { resources })).toMatchObject({ output: "HELLO ADA" });
    expect(await given("example.pkg.echo", { message: big }, { resources })).toEqual({ echo: "hello ada" });
    const loaded = await given("example.pkg.load_config", { config: stayed("config") }, { resources });
    expect(loaded).toMatchObject({ message: "Dear Ada" });
  });

  it("[W167] the feedback_demo node streams a text token by token: chunks, progress, metrics, and the text so far as a result", async () => {
    const { returned, sent } = await run("example.pkg.feedback_demo", { prompt: "Hello to you", tokenDelayMs: 0 });

    expect(returned).toMatchObject({ outputs: { summary: "Hello to you", tokenCount: 3, done: true } });
    expect(sent.flatMap(({ chunks = [] }) => chunks.map(({ channel, text }) => [channel, text]))).toEqual([
      ["llm", "Hello "],
      ["llm", "to "],
      ["llm", "you"],
    ]);
    expect(sent.at(-1)).toMatchObject({
      progress: 1,
      metrics: { tokens: 3 },
      metadata: { results: { summary: "Hello to you" } },
    });
  });

  it("[W167] the send_notification node uses the same id in a second attempt, and the audit_log node records it", async () => {
    const params = { recipient: "ada@x.test", subject: "Hi", message: "Hello" };

    const first = (await given("example.pkg.send_notification", params)) as { notificationId: string };
    const second = await given("example.pkg.send_notification", params);
    const audit = await given("example.pkg.audit_log", { notificationId: first.notificationId, recipient: "ada@x.test" });

    expect(first.notificationId).toMatch(/^ntf-[0-9a-f]{16}$/);
    expect(second).toEqual(first);
    expect(audit).toMatchObject({ recorded: true, notificationId: first.notificationId, entry: { run: "r", task: "r.4" } });
    await expect(given("example.pkg.send_notification", {})).rejects.toThrow("a notification needs a recipient");
  });

  it("[W167] the echo, delay, collect_metrics and debug_gate nodes do what their manifests describe", async () => {
    expect(await given("example.pkg.echo", { message: "hi" })).toEqual({ echo: "hi" });
    expect(await given("example.pkg.delay", { durationSeconds: 0 })).toEqual({ done: true, durationSeconds: 0 });
    const { returned, sent } = await run("example.pkg.collect_metrics", { name: "loss", samples: [1, 2, 6] });
    expect(returned).toEqual({ count: 3, sum: 9, mean: 3 });
    expect(sent.map(({ metrics }) => metrics)).toEqual([{ loss: 1 }, { loss: 2 }, { loss: 6 }]);
    expect(await given("example.pkg.debug_gate", { condition: true, payload: [1] })).toEqual({
      status: "allowed",
      outputs: { allowed: true, payload: [1] },
    });
    expect(await given("example.pkg.debug_gate", { payload: [1] })).toMatchObject({
      status: "blocked",
      outputs: { payload: null },
    });
    const controller = new AbortController();
    const endless = given("example.pkg.delay", { durationSeconds: 3_600 }, { signal: controller.signal });
    controller.abort(new Error("not wanted"));
    await expect(endless).rejects.toThrow("not wanted");
  });

  it("[W1405] the fail node fails with the given code and message, or in the first attempts of its task or of a retry middleware", async () => {
    const failure = { status: "failed", outputs: { error: { code: "E.SHOP.CLOSED", message: "come back" }, attempts: 7 } };
    expect(await given("example.pkg.fail", { code: "E.SHOP.CLOSED", message: "come back" }, { attempt: 7 })).toEqual(failure);
    expect(await given("example.pkg.fail", { times: 2 }, { attempt: 2 })).toMatchObject({
      status: "failed",
      outputs: { error: { code: "E.RUNNER.FAILURE", message: "attempt 2 fails, as it was asked to" } },
    });
    expect(await given("example.pkg.fail", { times: 2 }, { attempt: 3 })).toEqual({ attempts: 3, done: true });
    const retried = { times: 2, __next: { hostCtx: { attempt: 3 } } };
    expect(await given("example.pkg.fail", retried, { attempt: 1 })).toEqual({ attempts: 3, done: true });
  });

  it("[W168] the loop middleware calls next the given number of times in sequence, and stops at the first error unless configured not to", async () => {
    let calls = 0;
    const next = async () => {
      calls++;
      if (calls === 2) throw new Error("no");
      return { n: calls };
    };

    await expect(run("system.loop_middleware", { times: 3 }, { next })).rejects.toThrow("no");
    expect(calls).toBe(2);
    calls = 0;
    const all = await given("system.loop_middleware", { times: 3, stopOnError: false, delayMs: 1 }, { next });
    expect(all).toEqual({ iterations: 2, results: [{ n: 1 }, { n: 3 }], errors: [{ iteration: 1, message: "no" }] });
    expect(await given("system.loop_middleware", { times: 0 }, { next })).toEqual({ iterations: 0, results: [], errors: [] });
    calls = 1;
    await expect(run("system.loop_middleware", { times: 1, stopOnError: false }, { next })).rejects.toThrow("all 1 times failed");
  });

  it("[W168] the case middleware calls next or skips, input_generator returns typed values, upload_test lists resources without values", async () => {
    let calls = 0;
    const next = async () => ({ n: ++calls });
    expect(await given("system.case_middleware", { enabled: false }, { next })).toMatchObject({ status: "skipped" });
    expect(await given("system.case_middleware", {}, { next })).toEqual({ enabled: true });
    expect(calls).toBe(1);
    expect(await given("system.input_generator", { type: "json", value: "[1]" })).toEqual({ value: [1], type: "json" });
    expect(await given("system.input_generator", { type: "number", value: "4" })).toMatchObject({ value: 4 });

    const received = await given(
      "system.upload_test",
      { __resourceBindings: { key: { resourceId: "a", value: "secret" } }, resources: [{ resourceId: "b" }] },
      { leased: [{ id: "c", type: "file", sizeBytes: 3 }] },
    );

    expect(received).toEqual({
      count: 3,
      received: [
        { key: "key", resourceId: "a", hasValue: true },
        { resourceId: "b", hasValue: false },
        { resourceId: "c", type: "file", sizeBytes: 3, hasValue: false },
      ],
      errors: [],
    });
  });

  it("[W168] the example packages have a handler for every node but the container, which the scheduler runs itself", async () => {
    const loadedPackages = await loadPackages(examples);

    const missing = loadedPackages.packages.flatMap(({ manifestJson, nodeTypes }) =>
      typesIn(manifestJson).filter((type) => !nodeTypes.includes(type)),
    );

    expect(loadedPackages.problems).toMatchObject([noHost]);
    expect(missing).toEqual(["workflow.container"]);
  });
});
