import { describe, expect, it } from "vitest";
import { exampleManifest, findManifestProblems } from "./manifest-problems.ts";

describe("problems of a manifest", () => {
  it("[C910] a manifest that misspells a field is refused with both names and an example", () => {
    const { nodes, adapters, ...rest } = exampleManifest;
    const { entrypoint, ...adapter } = adapters[0] ?? { entrypoint: "" };
    const misspelt = { ...rest, adapters: [{ ...adapter, entyrpoint: entrypoint }], ndoes: nodes };

    const messages = findManifestProblems(misspelt).map(({ message }) => message);

    expect(messages).toEqual([
      expect.stringMatching(/^manifest must have nodes; it has ndoes, did you mean nodes\? For example \{"nodes":\[/),
      expect.stringMatching(
        /^manifest\.adapters\.0 must have entrypoint; it has entyrpoint, did you mean entrypoint\? For example \{/,
      ),
    ]);
  });

  it("[C910] a node that misspells its handler or adapter is refused with both names", () => {
    const [node] = exampleManifest.nodes;
    const { handler, adapter, ...rest } = node as { handler: string; adapter: string };
    const messageOf = (written: object) =>
      findManifestProblems({ ...exampleManifest, nodes: [{ ...rest, ...written }] }).map(({ message }) => message);

    expect(messageOf({ adapter, handlr: handler })).toEqual([
      expect.stringMatching(/^manifest\.nodes\.0 must have handler beside adapter; it has handlr, did you mean handler\?/),
    ]);
    expect(messageOf({ handler })).toEqual([expect.stringMatching(/^manifest\.nodes\.0 must have adapter beside handler/)]);
  });
});
