// What the catalogue knows besides the manifests that are kept: what workers list. The manifests themselves are in manifests.test.ts.

import { beforeEach, describe, expect, it } from "vitest";
import { type Catalogues, createCatalogues } from "./catalogue.ts";
import { createFakeDocs, type FakeDocs } from "./testing/docs.ts";
import { createFakeOutside, type FakeOutside } from "./testing/fake-outside.ts";
import { manifestOf } from "./testing/manifest.ts";
import { workerRow } from "./testing/rows.ts";

describe("packages that workers list", () => {
  let outside: FakeOutside;
  let docs: FakeDocs;
  let catalogues: Catalogues;
  beforeEach(() => {
    outside = createFakeOutside();
    const worker = workerRow("w1");
    const packages = [
      { name: "bare", version: "1.0.0", status: "installed" },
      { name: "demo", version: "2.0.0", status: "installed" },
    ];
    const about = JSON.stringify({ ...JSON.parse(worker.about), packages });
    docs = createFakeDocs({ now: () => outside.clock.now(), rows: { workers: [{ ...worker, about }] } });
    const manifest = manifestOf("demo", "1.0.0");
    const body = JSON.stringify({ manifest, digest: "d" });
    docs.write({ tenant: "default", puts: [{ collection: "package", name: "demo/1.0.0", rev: 0, body }] });
    catalogues = createCatalogues({ reader: docs.reader, outside });
  });
  const looks = () => docs.queries.filter(({ page }) => page === "workers").length;

  it("[A255] are known without a manifest to whoever looks anew, and from then on", async () => {
    expect((await catalogues.of("default")).isListed("bare")).toBe(false);

    const catalogue = await catalogues.anew("default");

    expect([catalogue.isListed("bare"), catalogue.isListed("demo", "2.0.0"), catalogue.isListed("demo", "3.0.0")]).toEqual([
      true,
      true,
      false,
    ]);
    // A manifest says more than a list.
    expect([catalogue.isListed("demo", "1.0.0"), catalogue.names]).toEqual([false, ["demo"]]);
    outside.advance(1_001);
    expect((await catalogues.of("default")).isListed("bare")).toBe(true);
    expect((await catalogues.anew("other")).isListed("bare")).toBe(false);
  });

  it("[A255] are looked for once for all that ask at once, and once more for those that came meanwhile", async () => {
    await Promise.all(Array.from({ length: 50 }, () => catalogues.anew("default")));

    expect(looks()).toBe(2);
    await catalogues.anew("default");
    expect(looks()).toBe(3);
  });
});
