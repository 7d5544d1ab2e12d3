import { afterEach, describe, expect, it } from "vitest";
import { HostedPackages, type SamplePackage } from "../../test/host-harness.ts";
import { loadPackages } from "../handlers/package-loader.ts";

let packages: HostedPackages | undefined;
afterEach(async () => {
  await packages?.close();
  packages = undefined;
});

const node = (type: string, handler: string, n: number) => ({
  type,
  label: type,
  handler,
  status: "published",
  category: "Tests",
  adapter: "main",
  schema: {},
  config: { n },
});

/** Lists fewer nodes than its adapter has capabilities; two nodes share a handler. */
function sample(runtime: "node" | "python", entrypoint: string, source: string): SamplePackage {
  const manifest = {
    schemaVersion: "1.0.0",
    name: "text",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint, capabilities: ["text.greet", "text.shout", "text.exact", "text.nowhere"] }],
    [runtime]: { requires: runtime === "node" ? ">=22" : ">=3.10" },
    nodes: [node("text.greet", "say_hello", 7), node("text.first", "shared", 1), node("text.second", "shared", 2)],
  };
  const file = runtime === "node" ? entrypoint : `${entrypoint}.py`;
  return {
    name: "text",
    runtime,
    entrypoint,
    handlers: [],
    files: { "manifest.json": JSON.stringify(manifest), [file]: source },
  };
}

const nodeSample = sample(
  "node",
  "main.mjs",
  `
const tell = (name) => (ctx) => ({ name, type: ctx.nodeType, n: ctx.config.n ?? null });
export const say_hello = tell("say_hello");
export const shout = tell("shout");
export const shared = tell("shared");
const exact = tell("text.exact");
export { exact as "text.exact" };
`,
);
const pythonSample = sample(
  "python",
  "main",
  `
def tell(name):
    return lambda ctx: {"name": name, "type": ctx.node_type, "n": ctx.config.get("n")}
say_hello = tell("say_hello")
shout = tell("shout")
shared = tell("shared")
handlers = {"text.exact": tell("text.exact")}
`,
);

describe.each([
  ["Node", nodeSample],
  ["Python", pythonSample],
] as const)("the handlers of a package for %s", (_, given) => {
  it("[W1106] a task finds its handler by node type, by a capability of an adapter that no node lists, and by a handler key; anything else is E.CMD.UNKNOWN", async () => {
    packages = await HostedPackages.open([given]);
    const of = { package_name: "text" };

    const byType = await packages.run("text.greet", "t1");
    const byCapability = await packages.run("text.shout", "t2");
    const byExactName = await packages.run("text.exact", "t3");
    const byKey = await packages.run("say_hello", "t4", {}, of);
    const shared = await packages.run("shared", "t5", {}, of);
    const missing = await packages.run("text.nowhere", "t6");
    const otherVersion = await packages.run("text.greet", "t7", {}, { package_version: "9.9.9" });

    const results = [byType, byCapability, byExactName, byKey].map(({ payload }) => payload["result"]);
    expect(results).toEqual([
      { name: "say_hello", type: "text.greet", n: 7 },
      { name: "shout", type: "text.shout", n: null },
      { name: "text.exact", type: "text.exact", n: null },
      { name: "say_hello", type: "text.greet", n: 7 },
    ]);
    // Two nodes name it, with other settings each: which one is meant cannot be known.
    expect([shared, missing, otherVersion].map(({ payload }) => payload["code"])).toEqual(Array(3).fill("E.CMD.UNKNOWN"));
    expect(packages.loaded.problems).toEqual([]);
  });
});

it("[W1106] handlers in a thread are found in the same ways", async () => {
  packages = await HostedPackages.open([nodeSample]);
  const { handlers, problems } = await loadPackages(packages.root);

  const found = ["text.greet", "text.shout", "text.exact", "say_hello", "shared", "text.nowhere"].map(
    (name) => handlers.findHandler("text", "1.0.0", name) !== undefined,
  );
  handlers.removeVersion("text", "1.0.0");

  expect(found).toEqual([true, true, true, true, false, false]);
  expect(problems).toEqual([]);
  expect(handlers.findHandler("text", "1.0.0", "say_hello")).toBeUndefined();
});
