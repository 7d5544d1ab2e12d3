// What the catalogue knows besides the manifests that are kept: what workers list. The manifests themselves are in manifests.test.ts.

import type { WorkerRow } from "@astraflow/engine";
import { omitUndefined } from "@astraflow/protocol";
import { beforeEach, describe, expect, it } from "vitest";
import { createFakeDocumentStore, type FakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment, type FakeEnvironment } from "../testing/fake-environment.ts";
import { sampleManifest } from "../testing/sample-manifest.ts";
import { workerRow } from "../testing/sample-rows.ts";
import { listWorkers } from "../workers/worker-reader.ts";
import { CatalogueCache } from "./catalogue.ts";
import { getPackage, searchNodes } from "./node-search.ts";

describe("the schema mode", () => {
  it("[A401] the catalogue has the schema mode that is set for its tenant, and that of a node type, else of its package", async () => {
    const environment = createFakeEnvironment();
    const docs = createFakeDocumentStore({ now: () => environment.clock.now() });
    const manifest = sampleManifest("demo", "1.0.0") as { nodes: object[] };
    const [first, ...others] = manifest.nodes;
    const strict = { ...manifest, schemaMode: "enforce", nodes: [{ ...first, schemaMode: "warn" }, ...others] };
    const body = JSON.stringify({ manifest: strict, digest: "d" });
    docs.write({ tenant: "acme", puts: [{ collection: "package", name: "demo/1.0.0", rev: 0, body }] });
    const schemaModeOf = (tenant: string) => (tenant === "acme" ? "enforce" : "warn");
    const catalogues = new CatalogueCache({ reader: docs.reader, environment, schemaModeOf });

    const catalogue = await catalogues.current("acme");

    const types = (strict.nodes as { type: string }[]).map(({ type }) => type);
    expect([catalogue.schemaMode, (await catalogues.current("other")).schemaMode]).toEqual(["enforce", undefined]);
    expect(types.map((type) => catalogue.node("demo", "1.0.0", type)?.schemaMode)).toEqual([
      "warn",
      ...others.map(() => "enforce"),
    ]);
  });
});

describe("idempotency", () => {
  it("[A1155] the catalogue has what a manifest declares for the adapter of each node type", async () => {
    const environment = createFakeEnvironment();
    const docs = createFakeDocumentStore({ now: () => environment.clock.now() });
    const manifest = sampleManifest("demo", "1.0.0") as { adapters: object[]; nodes: object[] };
    const [echo, each] = manifest.nodes;
    const adapters = [...manifest.adapters, { ...manifest.adapters[0], name: "once", idempotency: "at_most_once" }];
    const declared = { ...manifest, adapters, nodes: [{ ...echo, adapter: "once" }, each] };
    const body = JSON.stringify({ manifest: declared, digest: "d" });
    docs.write({ tenant: "acme", puts: [{ collection: "package", name: "demo/1.0.0", rev: 0, body }] });

    const catalogue = await new CatalogueCache({ reader: docs.reader, environment }).current("acme");

    expect(catalogue.node("demo", "1.0.0", "demo.echo")?.idempotency).toBe("at_most_once");
    expect(catalogue.node("demo", "1.0.0", "demo.each")).not.toHaveProperty("idempotency");
  });
});

describe("manifests that conflict", () => {
  const environment = createFakeEnvironment();
  const packagesOf = (manifest?: string) => [
    { name: "demo", version: "1.0.0", status: "installed", ...omitUndefined({ manifest }) },
  ];
  const worker = (name: string, manifest?: string, phase: "online" | "lost" = "online") => {
    const row = workerRow(name, { name, phase });
    return { ...row, about: JSON.stringify({ ...JSON.parse(row.about), packages: packagesOf(manifest) }) } as WorkerRow;
  };
  const workers = [worker("a", "m1"), worker("b", "m2"), worker("c", "m1"), worker("d"), worker("e", "m3", "lost")];
  const open = (others: readonly string[]) => {
    const docs = createFakeDocumentStore({ now: () => environment.clock.now(), rows: { workers } });
    const manifest = sampleManifest("demo", "1.0.0");
    const body = JSON.stringify({ manifest, digest: "m1", others: others.map((digest) => ({ digest, manifest })) });
    docs.write({ tenant: "default", puts: [{ collection: "package", name: "demo/1.0.0", rev: 0, body }] });
    const catalogues = new CatalogueCache({ reader: docs.reader, environment });
    return { docs, catalogues };
  };
  const holders = [
    { manifest: "m1", workers: ["a", "c"], workerCount: 2 },
    { manifest: "m2", workers: ["b"], workerCount: 1 },
  ];

  it("[A404] a package, its node types and each worker show which workers announced which manifest of a version", async () => {
    const { docs, catalogues } = open(["m2"]);

    const shown = await getPackage(catalogues, "default", "demo", undefined);
    const { items } = await searchNodes(catalogues, "default", {});
    const context = { reader: docs.reader, environment, catalogues, gauge: () => null } as never;
    const list = await listWorkers(context, "default", { limit: 10, cursor: undefined, filter: {} });

    expect(shown).toMatchObject({ digest: "m1", manifestConflict: holders });
    expect(items.map(({ versions }) => versions[0]?.manifestConflict)).toEqual(items.map(() => holders));
    expect(list.items.map(({ id, packages }) => [id, packages?.[0]?.manifest, packages?.[0]?.otherManifests])).toEqual([
      ["a", "m1", [holders[1]]],
      ["b", "m2", [holders[0]]],
      ["c", "m1", [holders[1]]],
      ["d", undefined, undefined],
      ["e", "m3", holders],
    ]);
  });

  it("[A404] nothing is shown and no worker is read where every version has one manifest", async () => {
    const { docs, catalogues } = open([]);

    const shown = await getPackage(catalogues, "default", "demo", undefined);

    expect(shown).not.toHaveProperty("manifestConflict");
    expect(docs.queries.filter(({ page }) => page === "workers")).toEqual([]);
  });
});

describe("packages that workers list", () => {
  let environment: FakeEnvironment;
  let docs: FakeDocumentStore;
  let catalogues: CatalogueCache;
  beforeEach(() => {
    environment = createFakeEnvironment();
    const worker = workerRow("w1");
    const packages = [
      { name: "bare", version: "1.0.0", status: "installed" },
      { name: "demo", version: "2.0.0", status: "installed" },
    ];
    const about = JSON.stringify({ ...JSON.parse(worker.about), packages });
    docs = createFakeDocumentStore({ now: () => environment.clock.now(), rows: { workers: [{ ...worker, about }] } });
    const manifest = sampleManifest("demo", "1.0.0");
    const body = JSON.stringify({ manifest, digest: "d" });
    docs.write({ tenant: "default", puts: [{ collection: "package", name: "demo/1.0.0", rev: 0, body }] });
    catalogues = new CatalogueCache({ reader: docs.reader, environment });
  });
  const looks = () => docs.queries.filter(({ page }) => page === "workers").length;

  it("[A255] packages that workers list without a manifest are known to the catalogue from its next reload on", async () => {
    expect((await catalogues.current("default")).isListed("bare")).toBe(false);

    const catalogue = await catalogues.reload("default");

    expect([catalogue.isListed("bare"), catalogue.isListed("demo", "2.0.0"), catalogue.isListed("demo", "3.0.0")]).toEqual([
      true,
      true,
      false,
    ]);
    // A package with a manifest does not count as listed.
    expect([catalogue.isListed("demo", "1.0.0"), catalogue.names]).toEqual([false, ["demo"]]);
    environment.advance(1_001);
    expect((await catalogues.current("default")).isListed("bare")).toBe(true);
    expect((await catalogues.reload("other")).isListed("bare")).toBe(false);
  });

  it("[A255] catalogue reloads requested at once share one read of the workers, and those that arrive meanwhile share one more", async () => {
    await Promise.all(Array.from({ length: 50 }, () => catalogues.reload("default")));

    expect(looks()).toBe(2);
    await catalogues.reload("default");
    expect(looks()).toBe(3);
  });
});
