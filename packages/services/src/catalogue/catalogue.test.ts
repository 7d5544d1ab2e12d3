// What the catalogue knows besides the manifests that are kept: what workers list. The manifests themselves are in manifests.test.ts.

import { beforeEach, describe, expect, it } from "vitest";
import { createFakeDocumentStore, type FakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment, type FakeEnvironment } from "../testing/fake-environment.ts";
import { sampleManifest } from "../testing/sample-manifest.ts";
import { workerRow } from "../testing/sample-rows.ts";
import { CatalogueCache } from "./catalogue.ts";

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
