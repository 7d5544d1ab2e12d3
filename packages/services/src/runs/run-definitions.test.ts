import { canonicalJson, type PackageCatalogue, type WorkflowCheckOptions } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createDefinitionCache, definitionCacheLimits } from "./run-definitions.ts";

const workflow = (name: string, label = "one"): Workflow => ({
  id: "0de70000-0000-4000-8000-000000000009",
  schemaVersion: "2025-10",
  metadata: { name },
  nodes: [
    {
      id: "0de70000-0000-4000-8000-000000000001",
      type: "demo.noop",
      package: { name: "demo", version: "1.0.0" },
      label,
      position: { x: 0, y: 0 },
    },
  ],
  edges: [],
});

/** Nobody has brought anything. */
const nothing: PackageCatalogue = { node: () => null, versions: () => [], names: [], isListed: () => false };

/** Definitions with a digest that counts its calls. */
function counted() {
  const asked: string[] = [];
  const made = createDefinitionCache((text) => `d${asked.push(text)}`);
  const define = (given: Workflow, catalogue: PackageCatalogue = nothing, options: WorkflowCheckOptions = {}) =>
    made(given, catalogue, options);
  return { asked, define };
}

describe("definitions", () => {
  it("[A2] the definition cache returns the canonical text and its digest, computed once for a definition that is given again", () => {
    const { asked, define } = counted();

    const first = define(workflow("a"));
    const again = define(workflow("a"));

    expect(first).toMatchObject({ body: canonicalJson(workflow("a")), digest: "d1", workflow: workflow("a") });
    expect(first.problems.map(({ severity }) => severity)).toEqual(["warning"]);
    expect(again).toEqual(first);
    expect(asked).toEqual([first.body]);
  });

  it("[A2] the definition cache treats definitions that differ in one character as different", () => {
    const { define } = counted();

    const [one, other] = [define(workflow("a", "one")), define(workflow("a", "onE"))];

    expect(one.digest).not.toBe(other.digest);
    expect(other.body).toBe(canonicalJson(workflow("a", "onE")));
  });

  it("[A212] the definition cache checks a definition again when the catalogue is another", () => {
    const { asked, define } = counted();
    const other: PackageCatalogue = { ...nothing, versions: () => ["9.9.9"], names: ["demo"] };
    define(workflow("a"));

    expect(define(workflow("a"), other).problems).toMatchObject([{ severity: "error", path: "/nodes/0/package/version" }]);
    expect(define(workflow("a")).digest).toBe("d2");
    expect(asked).toHaveLength(2);
  });

  it("[A254] the definition cache keeps checks with and without unknown packages allowed apart, in either order", () => {
    const { define } = counted();
    const others: PackageCatalogue = { ...nothing, names: ["mail"] };
    const severities = (allowUnknown: boolean) =>
      define(workflow("a"), others, { allowUnknown }).problems.map(({ severity }) => severity);

    expect([severities(true), severities(false), severities(true)]).toEqual([["warning"], ["error"], ["warning"]]);
  });

  it("[A2] the definition cache keeps a bounded number of definitions, those that were used last", () => {
    const { asked, define } = counted();
    define(workflow("kept"));
    define(workflow("forgotten"));
    for (let at = 0; at < definitionCacheLimits.entriesMax - 1; at++) {
      define(workflow(`w${at}`));
      define(workflow("kept"));
    }
    const before = asked.length;

    define(workflow("kept"));
    expect(asked.length).toBe(before);
    define(workflow("forgotten"));

    expect(asked.length).toBe(before + 1);
  });

  it("[A4] the definition cache finds the same problems each time for an invalid workflow, and keeps neither it nor a very large one", () => {
    const { asked, define } = counted();
    const node = workflow("a").nodes[0] as Workflow["nodes"][number];
    const wrong = { ...workflow("a"), nodes: [node, node] };
    const large = workflow("a", "x".repeat(definitionCacheLimits.charsMax));

    expect(define(wrong).problems).not.toEqual([]);
    expect(define(wrong).problems).toEqual(define(wrong).problems);
    expect(asked).toHaveLength(0);
    define(large);
    define(large);

    expect(asked).toHaveLength(2);
  });
});
