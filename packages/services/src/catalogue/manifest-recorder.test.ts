import type { PackageDocument } from "@astraflow/engine";
import type { Manifest } from "@astraflow/protocol";
import { beforeEach, describe, expect, it } from "vitest";
import { createFakeDocumentStore, type FakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment, type FakeEnvironment } from "../testing/fake-environment.ts";
import { sampleManifest } from "../testing/sample-manifest.ts";
import { CatalogueCache } from "./catalogue.ts";
import { ManifestRecorder } from "./manifest-recorder.ts";

const shown = (name: string, version: string, more: object = {}) => ({
  name,
  version,
  manifest: { ...sampleManifest(name, version), ...more },
});

describe("manifests that workers bring", () => {
  let docs: FakeDocumentStore;
  let environment: FakeEnvironment;
  let manifestRecorder: ManifestRecorder;
  let catalogues: CatalogueCache;
  beforeEach(() => {
    environment = createFakeEnvironment();
    docs = createFakeDocumentStore({ now: () => environment.clock.now() });
    manifestRecorder = new ManifestRecorder({
      engineClient: docs.engineClient,
      reader: docs.reader,
      digest: (text) => text,
      environment,
    });
    catalogues = new CatalogueCache({ reader: docs.reader, environment });
  });
  const note = async (...list: Parameters<ManifestRecorder["recordManifests"]>[1]) => {
    manifestRecorder.recordManifests("default", list);
    await manifestRecorder.whenIdle();
  };
  const writes = () => docs.engine.commands.length;

  it("[A52] manifests that workers report are stored as documents by name and version, and written again only where they differ", async () => {
    await note(shown("demo", "1.0.0"), shown("demo", "1.1.0"), shown("mail", "1.0.0"));
    await note(shown("demo", "1.0.0"));

    expect([...docs.docs.keys()]).toEqual([
      "default/package/demo/1.0.0",
      "default/package/demo/1.1.0",
      "default/package/mail/1.0.0",
    ]);
    expect(writes()).toBe(1);
    await note(shown("demo", "1.0.0", { description: "another" }));
    expect(docs.body("default", "package", "demo/1.0.0")).toMatchObject({ manifest: { description: "another" } });
    expect(writes()).toBe(2);
  });

  it("[A613] manifests beyond the first Mi characters of a report are read one at a time, with others in between, and all are stored", async () => {
    let pauses = 0;
    const yieldLoop = async () => void (pauses += 1);
    const { engineClient, reader } = docs;
    const recorder = new ManifestRecorder({
      engineClient,
      reader,
      digest: (text) => text,
      environment: { ...environment, yieldLoop },
    });
    const large = (name: string) => {
      const [node] = sampleManifest(name, "1.0.0")["nodes"] as object[];
      const description = "d".repeat(60_000);
      return shown(name, "1.0.0", {
        nodes: Array.from({ length: 10 }, (_, at) => ({ ...node, type: `${name}.n${at}`, description })),
      });
    };

    recorder.recordManifests("default", ["a", "b", "c", "d", "e"].map(large));
    await recorder.whenIdle();

    expect([...docs.docs.keys()]).toEqual(["a", "b", "c", "d", "e"].map((name) => `default/package/${name}/1.0.0`));
    expect(pauses).toBeGreaterThanOrEqual(4);
    expect(writes()).toBe(2);
  });

  it("[A403] different manifests of one version are stored once each, the newest five, and one that is announced again comes first again after a minute", async () => {
    const stored = () => {
      const { manifest, others = [] } = docs.body("default", "package", "demo/1.0.0") as unknown as PackageDocument;
      return [manifest, ...others.map((one) => one.manifest)].map(({ description }) => description);
    };
    for (const description of ["a", "b", "a", "b", "a"]) await note(shown("demo", "1.0.0", { description }));

    expect([stored(), writes()]).toEqual([["b", "a"], 2]);
    environment.advance(60_000);
    await note(shown("demo", "1.0.0", { description: "b" }), shown("demo", "1.0.0", { description: "a" }));
    expect([stored(), writes()]).toEqual([["a", "b"], 3]);
    for (const description of ["c", "d", "e", "f"]) await note(shown("demo", "1.0.0", { description }));
    expect(stored()).toEqual(["f", "e", "d", "c", "a"]);
  });

  it("[A52] a scheduler does not write a manifest that another scheduler has already stored", async () => {
    await note(shown("demo", "1.0.0"));
    const second = new ManifestRecorder({
      engineClient: docs.engineClient,
      reader: docs.reader,
      digest: (text) => text,
      environment,
    });
    second.recordManifests("default", [shown("demo", "1.0.0")]);
    await second.whenIdle();

    expect(writes()).toBe(1);
  });

  it("[A52] the manifest recorder leaves out invalid manifests and those of another package, and stores the rest", async () => {
    await note(
      { name: "none", version: "1.0.0", manifest: { name: "none" } },
      { name: "absent", version: "1.0.0" },
      { ...shown("other", "1.0.0"), name: "borrowed" },
      shown("demo", "1.0.0"),
    );

    expect([...docs.docs.keys()]).toEqual(["default/package/demo/1.0.0"]);
  });

  it("[A52] a manifest that the store does not take is logged, and is stored when a worker reports it again", async () => {
    docs.engine.answerWith("docs.write", () => ({ fault: { code: "E.STORE.BUSY", message: "the store is away" } }));
    await note(shown("demo", "1.0.0"));

    expect(environment.logRecords).toMatchObject([{ level: "warn", event: "manifests.not_kept", packages: ["demo/1.0.0"] }]);
    const again = createFakeDocumentStore();
    manifestRecorder = new ManifestRecorder({
      engineClient: again.engineClient,
      reader: again.reader,
      digest: (text) => text,
      environment,
    });
    await note(shown("demo", "1.0.0"));
    expect(again.docs.size).toBe(1);
  });

  it("[A52] a manifest is written on top of what another scheduler wrote at the same moment", async () => {
    const { manifest } = shown("demo", "1.0.0", { description: "theirs" });
    docs.engine.holdAnswers("docs.write");
    manifestRecorder.recordManifests("default", [shown("demo", "1.0.0")]);
    await docs.engine.nextCommand("docs.write");
    docs.write({
      tenant: "default",
      puts: [{ collection: "package", name: "demo/1.0.0", body: JSON.stringify({ manifest, digest: "theirs" }) }],
    });
    docs.engine.stopHolding("docs.write");
    docs.engine.releaseAnswers("docs.write");
    await manifestRecorder.whenIdle();

    expect(docs.docs.get("default/package/demo/1.0.0")?.rev).toBe(2);
  });

  it("[A53] recorded manifests form the catalogue of their tenant alone, versions newest first", async () => {
    await note(shown("demo", "1.9.0"), shown("demo", "1.10.0"), shown("demo", "2.0.0-rc.1"));

    const catalogue = await catalogues.current("default");
    expect(catalogue.packages).toEqual([{ name: "demo", versions: ["2.0.0-rc.1", "1.10.0", "1.9.0"] }]);
    expect(catalogue.node("demo", "1.10.0", "demo.echo")).toMatchObject({ role: "node" });
    expect(catalogue.node("demo", "1.10.0", "demo.none")).toBeNull();
    expect(catalogue.versions("none")).toEqual([]);
    expect((await catalogues.current("other")).packages).toEqual([]);
  });

  it("[A53] the catalogue shows a recorded manifest a second after it was stored, and follows when one is added or removed", async () => {
    const versions = async (): Promise<readonly string[]> => (await catalogues.current("default")).versions("demo");
    await note(shown("demo", "1.0.0"));
    expect(await versions()).toEqual(["1.0.0"]);
    environment.advance(5);
    await note(shown("demo", "1.1.0"));
    expect(await versions()).toEqual(["1.0.0"]);
    environment.advance(1_000);
    expect(await versions()).toEqual(["1.1.0", "1.0.0"]);
    docs.docs.delete("default/package/demo/1.0.0");
    environment.advance(300_000);
    expect(await versions()).toEqual(["1.1.0"]);
  });

  it("[A53] the catalogue reads manifests once for many concurrent requests, and hardly at all while nothing changes", async () => {
    await note(...Array.from({ length: 250 }, (_, n) => shown("demo", `1.${n}.0`)));
    await Promise.all([catalogues.current("default"), catalogues.current("default"), catalogues.current("default")]);
    const whole = docs.queries.filter(({ page }) => page === "docs").length;
    environment.advance(2_000);
    await catalogues.current("default");

    expect(whole).toBe(11);
    expect(docs.queries.filter(({ page }) => page === "docs")).toHaveLength(whole + 1);
    expect((await catalogues.current("default")).versions("demo")).toHaveLength(250);
  });

  it("[A53] recorded manifests are what the catalogue shows", async () => {
    await note(shown("demo", "1.0.0"));
    const manifest: Manifest | null = (await catalogues.current("default")).manifest("demo", "1.0.0");

    expect(manifest?.nodes[0]).toMatchObject({ type: "demo.echo", role: "node", adapter: "main", config: {} });
  });
});
