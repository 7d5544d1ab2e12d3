import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeZip } from "@astraflow/archive";
import { buildRawZip, createSigningKey, nodePackageFiles, signBytes, signFiles } from "@astraflow/archive/testing";
import type { Command } from "@astraflow/engine";
import { fault, type PackageSignature } from "@astraflow/protocol";
import { afterAll, describe, expect, it } from "vitest";
import type { EngineClient } from "../environment/engine-client.ts";
import type { Caller } from "../identity/identity.ts";
import { createDocumentBlobStore } from "../resources/blob-store.ts";
import { createFolderBlobStore } from "../resources/folder-blob-store.ts";
import { uploadLimits } from "../resources/resource-repository.ts";
import { createServices, type ServicesOptions } from "../services.ts";
import { createFakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment } from "../testing/fake-environment.ts";

const home = mkdtempSync(join(tmpdir(), "packages-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
let folders = 0;

const caller: Caller = { identity: { tenant: "default", user: "ann", grants: ["edit", "admin"] }, requestId: "request-1" };
const signer = createSigningKey();
const stranger = createSigningKey();

async function openRepository(options: Partial<ServicesOptions> & { readonly trusts?: boolean } = {}) {
  const { trusts = true, ...rest } = options;
  const environment = createFakeEnvironment();
  const store = createFakeDocumentStore({ now: () => environment.clock.now() });
  const { reader } = store;
  /** Between the services and the store. */
  let intercept: ((send: () => Promise<unknown>) => Promise<unknown>) | null = null;
  const engineClient = {
    request: (command: Command) => {
      const send = () => store.engineClient.request(command);
      return intercept === null ? send() : intercept(send);
    },
  } as unknown as EngineClient;
  const folder = join(home, String(++folders));
  const blobs = {
    local: createFolderBlobStore({ folder, ids: environment.ids }),
    db: createDocumentBlobStore({ engineClient, reader }),
  };
  const digest = (text: string): string => `digest-${Buffer.from(text).toString("base64url").slice(-40)}-${text.length}`;
  const context = { engineClient, reader, environment, digest, blobs, gauge: () => null };
  const services = createServices({ ...context, ...rest } as unknown as ServicesOptions);
  if (trusts) await services.packageKeys.add(caller, { publicKey: signer.publicKey, name: "Acme" }, null);
  const files = (): string[] => {
    try {
      return readdirSync(join(folder, "default"));
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw cause;
    }
  };
  const collection = (name: string): string[] => [...store.docs.keys()].filter((id) => id.startsWith(`default/${name}/`));
  return {
    services,
    store,
    environment,
    interceptWrites: (how: typeof intercept) => {
      intercept = how;
    },
    files,
    collection,
    /** What a publishing could leave behind. */
    leftovers: () => [...files(), ...collection("upload"), ...collection("package-version"), ...collection("package")],
    publish: (archive: Buffer, signature?: PackageSignature | string, key: string | null = null) =>
      services.packages.publish(caller, {
        bytes: inPieces(archive),
        readSignature: () => (typeof signature === "object" ? JSON.stringify(signature) : signature),
        key,
      }),
  };
}

async function* inPieces(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 1_000) yield bytes.subarray(at, at + 1_000);
}

const acme = (version = "1.0.0", files: Readonly<Record<string, string>> = {}) =>
  signFiles(signer.privateKey, nodePackageFiles("acme.tools", version, { files }));

describe("publishing", () => {
  it("[A930] a version is published with its archive, its signature and its manifest in the catalogue, in one write", async () => {
    const { services, publish, files, collection, store } = await openRepository();
    const { archive, signature } = acme();

    const { record, wasThere } = await publish(archive, signature);

    expect(record).toMatchObject({ name: "acme.tools", version: "1.0.0", sizeBytes: archive.length, sha256: signature.sha256 });
    expect([wasThere, files(), collection("upload")]).toEqual([false, [record.blob], []]);
    expect(store.body("default", "package", "acme.tools/1.0.0")).toMatchObject({ manifest: { name: "acme.tools" } });
    expect(await services.packages.show("default", record)).toMatchObject({
      status: "published",
      signature: { keyId: signature.keyId, signedBy: "Anna" },
      workerCount: 0,
    });
    const writes = store.engine.commands.filter((command) => command.type === "docs.write");
    const [publishing] = writes.filter(({ puts }) => puts.some((put) => put.collection === "package-version"));
    expect(publishing?.puts.map((put) => put.collection)).toEqual(["package-version", "package"]);
    expect(publishing?.drops?.map((drop) => drop.collection)).toEqual(["upload"]);
  });

  it("[A931] the same archive published again changes nothing, and other bytes for the version are refused", async () => {
    const { publish, files } = await openRepository();
    const { archive, signature } = acme();
    const first = await publish(archive, signature);
    const other = acme("1.0.0", { "other.txt": "x" });

    const again = await publish(archive, signature);

    expect([again.wasThere, again.record]).toEqual([true, first.record]);
    await expect(publish(other.archive, other.signature)).rejects.toMatchObject({ code: "E.VERSION.EXISTS" });
    expect(files()).toEqual([first.record.blob]);
  });

  it("[A931] the same archive with the signature of another trusted key gets that signature", async () => {
    const { services, publish } = await openRepository();
    const { archive, signature } = acme();
    const { record } = await publish(archive, signature);
    await services.packageKeys.add(caller, { publicKey: stranger.publicKey, name: "Second" }, null);
    const second = { ...signBytes(stranger.privateKey, archive, "acme.tools", "1.0.0") };

    const again = await publish(archive, second);

    expect([record.signature?.keyId, again.record.signature?.keyId]).toEqual([signature.keyId, second.keyId]);
    expect(again.record.publishedAt).toBe(record.publishedAt);
  });

  it("[A931] a repeated publishing under one idempotency key is answered as the first, and the key is refused for another archive or signature", async () => {
    const { services, publish, files } = await openRepository();
    await services.packageKeys.add(caller, { publicKey: stranger.publicKey, name: "Second" }, null);
    const { archive, signature } = acme();
    const other = acme("1.1.0");
    const mismatch = { code: "E.IDEMPOTENCY.MISMATCH" };

    const first = await publish(archive, signature, "key-1");
    const again = await publish(archive, signature, "key-1");

    expect([first.repeated, again.repeated, again.record]).toEqual([false, true, first.record]);
    await expect(publish(other.archive, other.signature, "key-1")).rejects.toMatchObject(mismatch);
    const resigned = publish(archive, signBytes(stranger.privateKey, archive, "acme.tools", "1.0.0"), "key-1");
    await expect(resigned).rejects.toMatchObject(mismatch);
    expect(files()).toEqual([first.record.blob]);
  });

  it("[A931] of two publishings of one version at the same time one wins, and the other leaves no bytes", async () => {
    const { publish, files } = await openRepository();
    const [one, other] = [acme(), acme("1.0.0", { "other.txt": "x" })];

    const outcomes = await Promise.allSettled([publish(one.archive, one.signature), publish(other.archive, other.signature)]);

    const won = outcomes.filter((outcome) => outcome.status === "fulfilled").map(({ value }) => value.record.blob);
    const lost = outcomes.filter((outcome) => outcome.status === "rejected");
    expect(lost.map(({ reason }) => (reason as { code: string }).code)).toEqual(["E.VERSION.EXISTS"]);
    expect(files()).toEqual(won);
  });
});

describe("refused archives", () => {
  const entry = (name: string, content = "x") => ({ name, content });
  const hostile: [string, Buffer][] = [
    ["no zip", Buffer.from("this is no archive")],
    ["nothing", Buffer.alloc(0)],
    ["no manifest", writeZip([{ name: "a.txt", content: Buffer.from("x") }])],
    ["a path out of the package", buildRawZip({ entries: [entry("manifest.json", "{}"), entry("../a")] })],
    ["a symbolic link", buildRawZip({ entries: [{ ...entry("a", "/etc/passwd"), mode: 0o120777 }] })],
    ["two entries of one name", buildRawZip({ entries: [entry("a"), entry("a")] })],
    ["names that differ in case alone", buildRawZip({ entries: [entry("a"), entry("A")] })],
    [
      "more than it says",
      buildRawZip({ entries: [...rawPackage(), { name: "big", content: "x".repeat(9_000), isDeflated: true, bytes: 10 }] }),
    ],
    [
      "a bomb",
      buildRawZip({ entries: [...rawPackage(), { name: "bomb", content: Buffer.alloc(40 * 1024 * 1024), isDeflated: true }] }),
    ],
    ["a name of the installer", buildRawZip({ entries: [...rawPackage(), entry(".astra/receipt.json")] })],
    ["a manifest that is none", writeZip([{ name: "manifest.json", content: Buffer.from('{"name":"acme"}') }])],
  ];

  function rawPackage() {
    return nodePackageFiles("acme.tools", "1.0.0").map(({ name, content }) => ({ name, content: Buffer.from(content) }));
  }

  it.each(hostile)(
    "[A932] an archive with %s is refused with E.PKG.INVALID although it is signed, and leaves nothing",
    async (_, archive) => {
      const { publish, leftovers } = await openRepository();

      const refusal = publish(archive, signBytes(signer.privateKey, archive, "acme.tools", "1.0.0"));

      await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID" });
      expect(leftovers()).toEqual([]);
    },
  );

  it("[A932] all problems of a manifest are named at once", async () => {
    const { publish } = await openRepository();
    const files = nodePackageFiles("acme.tools", "1.0.0", { manifest: { version: "one", adapters: [] } });
    const archive = writeZip(files);

    const refusal = await publish(archive, signBytes(signer.privateKey, archive, "acme.tools", "1.0.0")).catch((why) => why);

    expect(refusal.details.problems.length).toBeGreaterThan(1);
  });

  it("[A933] an archive without a signature, or with one that does not fit, is refused with E.PKG.PERMISSION before it is opened, audited, and leaves nothing", async () => {
    let opened = 0;
    const checkArchiveElsewhere = async () => {
      opened += 1;
      throw new Error("opened");
    };
    const { publish, leftovers, store } = await openRepository({ checkArchiveElsewhere });
    const { archive, signature } = acme();
    const foreign = signFiles(stranger.privateKey, nodePackageFiles("acme.tools", "1.0.0"));
    const otherTenant = signFiles(signer.privateKey, nodePackageFiles("acme.tools", "1.0.0"), "other");
    const refused: [Buffer, PackageSignature | string | undefined][] = [
      [archive, undefined],
      [archive, ""],
      [archive, "{}"],
      [archive, "no json"],
      [archive, foreign.signature],
      [foreign.archive, foreign.signature],
      [otherTenant.archive, otherTenant.signature],
      [Buffer.concat([archive, Buffer.from("x")]), signature],
      [archive, { ...signature, signedBy: "Berta" }],
      [archive, { ...signature, package: { name: "acme.tools", version: "2.0.0" } }],
    ];

    for (const [bytes, written] of refused)
      await expect(publish(bytes, written)).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });

    expect([opened, leftovers()]).toEqual([0, []]);
    const audits = store.engine.commands.flatMap((command) => (command.type === "docs.write" ? (command.audit ?? []) : []));
    const refusals = audits.filter(({ outcome }) => outcome === "E.PKG.PERMISSION");
    expect(refusals.map(({ action, target }) => `${action} ${target}`)).toContain("package.publish acme.tools/2.0.0");
  });

  it("[A933] the signature of one package is not accepted for another, nor one whose key is for other packages", async () => {
    const { services, publish, leftovers } = await openRepository({ trusts: false });
    await services.packageKeys.add(caller, { publicKey: signer.publicKey, name: "Acme", packages: ["acme.*"] }, null);
    const { archive } = acme();
    const other = signFiles(signer.privateKey, nodePackageFiles("other.tools", "1.0.0"));

    const renamed = publish(archive, signBytes(signer.privateKey, archive, "acme.other", "1.0.0"));

    await expect(renamed).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });
    await expect(publish(other.archive, other.signature)).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });
    expect(leftovers()).toEqual([]);
  });

  it("[A934] an unsigned archive is published only if the scheduler allows it and the tenant trusts no key", async () => {
    const archive = writeZip(nodePackageFiles("acme.tools", "1.0.0"));
    const outcomeOf = async (options: Parameters<typeof openRepository>[0]) =>
      (await openRepository(options)).publish(archive).then(
        ({ record }) => record.signature,
        (why: { code: string }) => why.code,
      );

    expect(await outcomeOf({ trusts: false, allowsUnsignedPackages: true })).toBeNull();
    expect(await outcomeOf({ trusts: true, allowsUnsignedPackages: true })).toBe("E.PKG.PERMISSION");
    expect(await outcomeOf({ trusts: false })).toBe("E.PKG.PERMISSION");
  });
});

describe("a publishing that breaks off", () => {
  it("[A935] a version is absent or complete after a failure at any write, and bytes that belong to nothing are removed by the sweep", async () => {
    const { archive, signature } = acme();
    const writesOf = async () => {
      const { publish, store } = await openRepository();
      const before = store.engine.commands.length;
      await publish(archive, signature);
      return store.engine.commands.length - before;
    };
    const count = await writesOf();
    expect(count).toBeGreaterThanOrEqual(2);

    for (let failing = 0; failing < count; failing += 1)
      for (const isDone of [false, true]) {
        const repository = await openRepository();
        const { interceptWrites, publish, services, files, collection, environment } = repository;
        // From this write on the process is dead: nothing more reaches the store.
        const lost = fault("E.STORE.UNKNOWN_OUTCOME", "the process was killed");
        let writes = -1;
        interceptWrites(async (send) => {
          writes += 1;
          if (writes < failing) return send();
          if (writes === failing && isDone) await send();
          throw lost;
        });
        await expect(publish(archive, signature)).rejects.toBe(lost);
        interceptWrites(null);

        const isThere = collection("package-version").length === 1;
        expect(collection("package").length).toBe(isThere ? 1 : 0);
        expect(isThere && files().length === 0).toBe(false);
        environment.jumpClock(uploadLimits.expireAfterMs + uploadLimits.sweepIntervalMs);
        await services.resources.sweepExpiredUploads("default");
        expect([failing, isDone, files().length, collection("upload")]).toEqual([failing, isDone, isThere ? 1 : 0, []]);
      }
  });

  it("[A935] a source of bytes that fails leaves nothing", async () => {
    const { services, leftovers } = await openRepository();
    const bytes = (async function* () {
      yield Buffer.from("PK");
      throw fault("E.REQUEST.INVALID", "the body broke off");
    })();

    const publishing = services.packages.publish(caller, { bytes, readSignature: () => undefined, key: null });

    await expect(publishing).rejects.toMatchObject({ code: "E.REQUEST.INVALID" });
    expect(leftovers()).toEqual([]);
  });
});
