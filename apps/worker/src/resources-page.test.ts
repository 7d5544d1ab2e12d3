// docs/resource-affinity-and-artifacts.md is where operators look for the limits of what tasks keep: it must name those that exist.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { listedSettings } from "./settings/setting-table.ts";

const page = readFileSync(new URL("../../../docs/resource-affinity-and-artifacts.md", import.meta.url), "utf8");

describe("the page about resources", () => {
  it("[W162] docs/resource-affinity-and-artifacts.md lists every resource limit with its default, and no other", () => {
    const known = listedSettings.filter(({ key }) => key.startsWith("RESOURCE_") || key.startsWith("INLINE_"));
    const named = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm)].map(([, name = "", otherwise = ""]) => ({
      name,
      otherwise,
    }));

    expect(named.length).toBeGreaterThan(0);
    expect(new Map(named.map((one) => [one.name, one.otherwise]))).toEqual(
      new Map(known.map((row) => [row.key, String(row.default)])),
    );
  });
});
