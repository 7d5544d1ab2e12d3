import { describe, expect, it } from "vitest";
import { readHandlers } from "./manifest-recorder.ts";

const node = (type: string) => ({
  type,
  status: "published",
  category: "demo",
  label: type,
  adapter: "main",
  handler: "run",
  schema: {},
});
const manifest = {
  schemaVersion: "1.0.0",
  name: "demo",
  version: "1.2.0",
  description: "",
  adapters: [{ name: "main", entrypoint: "main.js", capabilities: ["demo.run", "demo.stop"] }],
  node: { requires: ">=22" },
  nodes: [node("demo.noop"), node("demo.sum")],
};

describe("what a worker can run", () => {
  it("[A23] a worker's handlers are read from the manifests it reports: package, version, runtime, node type and capabilities", () => {
    const capabilities = ["demo.run", "demo.stop"];
    expect(readHandlers([{ name: "demo", version: "1.2.0", manifest }])).toEqual([
      { package: "demo", version: "1.2.0", runtime: "node", nodeType: "demo.noop", capabilities },
      { package: "demo", version: "1.2.0", runtime: "node", nodeType: "demo.sum", capabilities },
    ]);
    const older = { ...manifest, adapters: [{ ...manifest.adapters[0], runtime: "python" }], python: { requires: ">=3.12" } };
    expect(readHandlers([{ name: "demo", version: "1.2.0", manifest: older }])?.[0]).toMatchObject({ runtime: "python" });
  });

  it("[A23] the list of a worker's handlers leaves out invalid manifests, and stops at its size limit", () => {
    expect(
      readHandlers([
        { name: "x", version: "1.0.0", manifest: { name: "x" } },
        { name: "y", version: "1.0.0" },
      ]),
    ).toEqual([]);

    const many = readHandlers(Array.from({ length: 1_000 }, (_, n) => ({ name: `p${n}`, version: "1.0.0", manifest })));

    expect(Buffer.byteLength(JSON.stringify(many))).toBeLessThanOrEqual(8 * 1024);
    expect(many?.length).toBeGreaterThan(10);
  });
});
