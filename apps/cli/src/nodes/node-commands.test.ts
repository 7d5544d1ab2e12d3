import { readFileSync } from "node:fs";
import { Fault, readManifest, readWorkflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { searchNodes, showNode } from "./node-commands.ts";

const manifestFile = new URL("../../../../examples/packages/demo/1.0.0/manifest.json", import.meta.url);
const manifest = readManifest(JSON.parse(readFileSync(manifestFile, "utf8")));
if (manifest instanceof Fault) throw manifest;

/** The catalogue as a scheduler answers it. */
const items = manifest.nodes.map((template) => ({
  type: template.type,
  label: template.label,
  description: template.description,
  packageName: "demo",
  role: template.role,
  versions: [
    {
      version: "1.0.0",
      template,
      inputs: [{ key: "text", label: "Text", path: "parameters.text", type: "string", isRequired: true }],
      outputs: [],
    },
    { version: "0.9.0" },
  ],
  defaultVersion: "1.0.0",
}));
const answers = {
  searchNodes: { items, nextCursor: null, asOf: 1 },
  listWorkers: {
    items: [
      { id: "demo-worker", connected: true },
      { id: "gone", connected: false },
    ],
    nextCursor: null,
  },
};

describe("nodes search", () => {
  it("[L603] nodes search passes words and package on and lists type, package and description", async () => {
    const { context, calls, stdout } = createCommandFixture(answers);

    await searchNodes(context, { limit: 50, text: ["text", "case"], package: "demo" });

    expect(calls).toEqual([["searchNodes", { q: "text case", package: "demo", limit: 50, cursor: undefined }]]);
    expect(stdout()).toMatch(/^TYPE +PACKAGE +ABOUT\ndemo\.text +demo@1\.0\.0 +Hands a text on\.\n/);
  });

  it("[L603] nodes search explains an empty list: nothing matches, or no worker has announced a package", async () => {
    const { context, stderr } = createCommandFixture({ searchNodes: { items: [], nextCursor: null, asOf: 1 } });

    await searchNodes(context, { limit: 50, text: ["nothing"] });
    await searchNodes(context, { limit: 50 });

    expect(stderr()).toBe(
      "No node type matches. Show all with: astra nodes search\n" +
        "No worker has announced a package yet. Start one with: astra worker --packages-dir FOLDER\n",
    );
  });
});

describe("nodes show", () => {
  it("[L603] nodes show prints package, connected workers, parameters with types and defaults, results, ports and a node to paste", async () => {
    const { context, calls, stdout } = createCommandFixture(answers);

    await showNode(context, { type: "demo.transform" });

    expect(calls[1]).toEqual(["listWorkers", { limit: 200, packageName: "demo", packageVersion: "1.0.0", cursor: undefined }]);
    const shown = stdout();
    expect(shown).toMatch(/^package +demo@1\.0\.0 \(also 0\.9\.0\)$/m);
    expect(shown).toMatch(/^workers +demo-worker$/m);
    expect(shown).toMatch(/^PARAMETER +TYPE +REQUIRED +DEFAULT +ABOUT$/m);
    expect(shown).toMatch(/^text +string +yes +"" +The text to change\.$/m);
    expect(shown).toMatch(/^mode +"uppercase"\|"lowercase"\|"title"\|"reverse" +no +"uppercase" +How it is changed\.$/m);
    expect(shown).toMatch(/^INPUT PORT +TYPE +BOUND TO\ntext +string +parameters\.text$/m);
    expect(shown).toContain("\n\nno ports are declared: each result is an output port\n");
    const pasted: unknown = JSON.parse(shown.slice(shown.indexOf("\n{") + 1));
    expect(pasted).toMatchObject({
      type: "demo.transform",
      package: { name: "demo", version: "1.0.0" },
      parameters: { mode: "uppercase" },
    });
  });

  it("[L603] the node that nodes show prints can be read in a workflow, for every node type of the demo package", async () => {
    for (const { type } of items) {
      const { context, stdout } = createCommandFixture(answers, { json: true });
      await showNode(context, { type });

      const { example } = JSON.parse(stdout()) as { example: { id: string } };
      const workflow = { id: example.id, schemaVersion: "2025-10", metadata: { name: type }, nodes: [example], edges: [] };
      expect(readWorkflow(workflow)).toEqual(workflow);
    }
  });

  it("[L603] nodes show refuses an unknown type with the closest one, an unknown version with those that exist, and a type of two packages", async () => {
    const { context } = createCommandFixture(answers);
    const two = createCommandFixture({
      searchNodes: { items: [items[0], { ...items[0], packageName: "other" }], nextCursor: null, asOf: 1 },
    });

    await expect(showNode(context, { type: "demo.txt" })).rejects.toMatchObject({
      exitCode: 3,
      message: 'No node type "demo.txt" found. Did you mean "demo.text"?',
    });
    await expect(showNode(context, { type: "demo.text", version: "3.0.0" })).rejects.toMatchObject({
      exitCode: 3,
      message: "Package demo has no demo.text in version 3.0.0; it has 1.0.0, 0.9.0.",
    });
    await expect(showNode(two.context, { type: "demo.text" })).rejects.toMatchObject({
      exitCode: 2,
      message: "Several packages have demo.text: demo, other.",
      suggestedCommand: "astra nodes show demo.text --package demo",
    });
  });
});
