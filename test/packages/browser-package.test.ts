// The package `browser` without a browser: its manifest beside the print of the specification, its two names, and what it refuses.
// On a real page it is tested by test/system/worker/browser-package.test.ts.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildPackageArchive, createMemorySource, readArchiveFiles, readPackageArchive } from "@astraflow/archive";
import type { Manifest } from "@astraflow/protocol";
import { loadPackages } from "@astraflow/runtime";
import { describe, expect, it } from "vitest";
import type { HandlerContext } from "@astraflow/sdk";
import { browserPackageNames, readBrowserPackage } from "../../scripts/browser-packages.ts";
import { repositoryRoot } from "../../scripts/repository-files.ts";

const readJson = (file: string) => JSON.parse(readFileSync(join(repositoryRoot, file), "utf8"));
const manifest = readJson("examples/packages/browser/1.0.0/manifest.json") as { nodes: { type: string }[] };
const nodeOf = (type: string) => manifest.nodes.find((node) => node.type === type);

const loaded = await loadPackages(join(repositoryRoot, "examples/packages"));

async function run(name: string, params: object, part: object = {}): Promise<unknown> {
  const context = { params, leased: [], signal: new AbortController().signal, ...part };
  const found = loaded.handlers.findHandler("browser", "1.0.0", `playwright.${name}`);
  return found?.handler(context as unknown as HandlerContext);
}

describe("the package browser", () => {
  it("[W1049] its nodes open_page and click are those that the specification prints, in manifest and workflow", () => {
    const printedManifest = readJson("test/system/worker/printed/manifest.jsonc");
    const printedWorkflow = readJson("test/system/worker/printed/workflow.json");

    expect(nodeOf("playwright.open_page")).toEqual(printedManifest.nodes[0]);
    const { schema, ui } = printedWorkflow.nodes[1];
    expect(nodeOf("playwright.click")).toMatchObject({ schema, ui });
    const printedTypes = printedManifest.adapters[0].capabilities.filter((type: string) => !type.startsWith("..."));
    expect(manifest.nodes.map(({ type }) => type)).toEqual(expect.arrayContaining(printedTypes));
  });

  it("[W1050] its archives are the same files under two names, the own one and that of the printed workflow, and each is made the same twice", async () => {
    const [own, printed] = await Promise.all(browserPackageNames.map(readBrowserPackage));
    if (own === undefined || printed === undefined) throw new Error("a name is missing");

    const { archive } = buildPackageArchive(printed);
    const source = createMemorySource(archive);
    const read = await readPackageArchive(source);
    const files = await readArchiveFiles(source, read);

    expect(read.manifest).toMatchObject({ name: "crawlerx_playwright", version: "2025.10.0" } satisfies Partial<Manifest>);
    expect(archive.equals(buildPackageArchive(await readBrowserPackage(browserPackageNames[1])).archive)).toBe(true);
    const others = (all: typeof own) =>
      all.filter(({ name }) => name !== "manifest.json").map(({ name, content }) => [name, content]);
    expect(others(files)).toEqual(others(own));
    expect(others(own).map(([name]) => name)).toEqual(["adapter.ts", "chromium.ts", "package-lock.json", "package.json"]);
    // A worker installs what the repository tests with.
    expect(readJson("examples/packages/browser/1.0.0/package.json").dependencies).toEqual({
      "playwright-core": readJson("package.json").devDependencies["playwright-core"],
    });
  });

  it.each([
    ["an address of the worker's own files", ["open_page", { url: "file:///etc/passwd" }] as const, "http: or https:, not file:"],
    ["what is no address", ["open_page", { url: "example" }] as const, "url is not an address: example"],
    ["another way to wait", ["open_page", { url: "http://a/", waitFor: "for ever" }] as const, "waitFor must be one of"],
    ["a click without a page", ["click", { selector: "a" }] as const, "no page was given; connect the port page"],
    ["a picture of what is no page", ["screenshot", { page: {} }] as const, "page is no open page"],
  ])("[W1051] %s is refused with E.PARAMS.INVALID before Chromium is started", async (_, [name, params], message) => {
    await expect(run(name, params)).rejects.toMatchObject({
      code: "E.PARAMS.INVALID",
      message: expect.stringContaining(message),
    });
  });

  it("[W1051] a page that its Chromium has lost is dropped, and the task fails with E.RESOURCE.MISSING", async () => {
    const dropped: string[] = [];
    const lost = { id: "page 1", type: "playwright.page", value: { page: { isClosed: () => true } } };
    const resources = { drop: (id: string, reason: string) => dropped.push(`${id} ${reason}`) };

    await expect(run("click", { selector: "a" }, { leased: [lost], resources })).rejects.toMatchObject({
      code: "E.RESOURCE.MISSING",
      message: expect.stringContaining("open the page again"),
    });
    expect(dropped).toEqual(["page 1 lost"]);
  });
});
