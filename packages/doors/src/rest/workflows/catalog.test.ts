import type { CatalogNode } from "@astraflow/protocol";
import { ManifestRecorder } from "@astraflow/services";
import { sampleManifest } from "@astraflow/services/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const packages = [
  ["demo", "1.0.0"],
  ["demo", "1.10.0"],
  ["demo", "1.9.0"],
  ["demo", "2.0.0-rc.1"],
  ["mail", "0.1.0"],
] as const;

describe("packages and the catalogue of nodes", () => {
  let bench: WorkflowFixture;
  beforeEach(async () => {
    bench = openWorkflowFixture();
    const { docs, environment } = bench;
    const manifestRecorder = new ManifestRecorder({
      engineClient: docs.engineClient,
      reader: docs.reader,
      digest: (text) => text,
      environment,
    });
    manifestRecorder.recordManifests(
      "default",
      packages.map(([name, version]) => ({ name, version, manifest: sampleManifest(name, version) })),
    );
    await manifestRecorder.whenIdle();
  });

  it("[A54] packages are listed by name with their versions newest first, and the default version is not a pre-release", async () => {
    const { body } = await bench.callRoute("listPackages", { as: "vic" });

    expect(body).toEqual({
      items: [
        {
          name: "demo",
          versions: ["2.0.0-rc.1", "1.10.0", "1.9.0", "1.0.0"],
          description: "what demo does",
          latestVersion: "2.0.0-rc.1",
          defaultVersion: "1.10.0",
        },
        { name: "mail", versions: ["0.1.0"], description: "what mail does", latestVersion: "0.1.0", defaultVersion: "0.1.0" },
      ],
      nextCursor: null,
      asOf: 0,
    });
  });

  it("[A54] packages are listed in pages", async () => {
    const first = await bench.callRoute("listPackages", { query: { limit: "1" } });
    const second = await bench.callRoute("listPackages", { query: { limit: "1", cursor: first.body.nextCursor } });

    expect([first, second].map(({ body }) => body.items.map((one: { name: string }) => one.name))).toEqual([["demo"], ["mail"]]);
    expect(second.body.nextCursor).toBeNull();
  });

  it("[A381] more packages than a page usually has are listed at once if no limit is given", async () => {
    const many = Array.from({ length: 60 }, (_, n) => `many-${String(n).padStart(2, "0")}`);
    const { docs, environment } = bench;
    const recorder = new ManifestRecorder({ engineClient: docs.engineClient, reader: docs.reader, digest: String, environment });
    recorder.recordManifests(
      "default",
      many.map((name) => ({ name, version: "1.0.0", manifest: sampleManifest(name, "1.0.0") })),
    );
    await recorder.whenIdle();
    bench.environment.advance(60_000);

    const { body } = await bench.callRoute("listPackages", { as: "vic" });

    expect(body.items).toHaveLength(62);
    expect(body.nextCursor).toBeNull();
  });

  it("[A54] a package is shown with the manifest of its newest version, or of the one named", async () => {
    const newest = await bench.callRoute("getPackage", { params: { packageName: "demo" } });
    const older = await bench.callRoute("getPackage", { params: { packageName: "demo" }, query: { version: "1.9.0" } });

    expect(newest.body).toMatchObject({ version: "2.0.0-rc.1", manifest: { version: "2.0.0-rc.1" }, asOf: 0 });
    expect(older.body).toMatchObject({ version: "1.9.0", availableVersions: ["2.0.0-rc.1", "1.10.0", "1.9.0", "1.0.0"] });
  });

  it("[A54] an unknown package or version is answered with 404, as another tenant's is", async () => {
    const ask = (packageName: string, version?: string, as = "ann") =>
      bench.callRoute("getPackage", { as, params: { packageName }, query: version === undefined ? {} : { version } });

    expect(await ask("none")).toMatchObject({ status: 404, body: { error: "E.NOT_FOUND", message: "there is no package none" } });
    expect(await ask("demo", "9.9.9")).toMatchObject({ status: 404, body: { message: expect.stringContaining("1.10.0") } });
    expect(await ask("demo", undefined, "mallory")).toMatchObject({ status: 404, body: { message: "there is no package demo" } });
    expect((await bench.callRoute("listPackages", { as: "mallory" })).body.items).toEqual([]);
  });

  it("[A55] node types are found by search terms from their descriptions, and all are listed without search terms", async () => {
    const types = async (query: Record<string, string>) =>
      (await bench.callRoute("searchNodes", { query })).body.items.map((node: CatalogNode) => node.type);

    expect(await types({})).toEqual(["demo.each", "demo.echo", "mail.each", "mail.echo"]);
    expect(await types({ q: "*" })).toHaveLength(4);
    expect(await types({ q: "  ECHO  voice " })).toEqual(["demo.echo", "mail.echo"]);
    expect(await types({ q: "flow", package: "mail" })).toEqual(["mail.each"]);
    expect(await types({ q: "nothing such" })).toEqual([]);
    expect(await types({ package: "none" })).toEqual([]);
  });

  it("[A342] node types are visible to every token of the tenant; packages need the grant", async () => {
    expect((await bench.callRoute("searchNodes", { as: "wes" })).body.items.length).toBeGreaterThan(0);
    expect((await bench.callRoute("searchNodes", { as: "mallory" })).body.items).toEqual([]);
    expect((await bench.callRoute("listPackages", { as: "wes" })).status).toBe(403);
  });

  it("[A55] node types are shown with every version, its template and the types of its ports", async () => {
    const { body } = await bench.callRoute("searchNodes", { query: { q: "demo.echo" } });

    const [node] = body.items as CatalogNode[];
    expect(node).toMatchObject({
      type: "demo.echo",
      label: "Echo a text",
      packageName: "demo",
      role: "node",
      category: "Texts",
      status: "published",
      latestVersion: "2.0.0-rc.1",
      defaultVersion: "1.10.0",
    });
    expect(node?.versions.map(({ version }) => version)).toEqual(["2.0.0-rc.1", "1.10.0", "1.9.0", "1.0.0"]);
    const [newest] = node?.versions ?? [];
    expect(newest?.template).toMatchObject({ type: "demo.echo", handler: "echo" });
    expect(newest?.inputs?.map(({ key, type, isRequired, default: value }) => [key, type, isRequired, value])).toEqual([
      ["text", "string", true, undefined],
      ["times", "integer|null", undefined, 1],
      ["mode", "string", undefined, undefined],
      ["first", "number", undefined, undefined],
      ["far", "any", undefined, undefined],
      ["unknown", "any", undefined, undefined],
    ]);
    expect(newest?.outputs).toEqual([{ key: "said", label: "Said", path: "results.said", type: "string|null" }]);
  });

  it("[A55] node types are listed in pages if a limit is given", async () => {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const { body } = await bench.callRoute("searchNodes", { query: { limit: "3", ...(cursor !== null && { cursor }) } });
      seen.push(...body.items.map((node: CatalogNode) => node.type));
      cursor = body.nextCursor;
    } while (cursor !== null);

    expect(seen).toEqual(["demo.each", "demo.echo", "mail.each", "mail.echo"]);
  });

  it.each([
    ["listPackages", { limit: "0" }, "query.limit"],
    ["listPackages", { cursor: "!" }, "query.cursor"],
    ["searchNodes", { limit: "many" }, "query.limit"],
    ["searchNodes", { cursor: "not one" }, "query.cursor"],
    ["searchNodes", { query: "x" }, "query"],
  ] as const)("[A56] the catalogue route %s refuses the query %j with 400 and names the field", async (route, query, path) => {
    const response = await bench.callRoute(route, { query });

    expect(response).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID", details: { path } } });
  });
});
