import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createMemorySource, findSignatureProblem, readPackageArchive, readPublicKey, sha256Hex } from "@astraflow/archive";
import { Fault, type PackageSignature } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type CommandFixture, createCommandFixture } from "../testing/command-fixture.ts";
import { type FakeApi, startFakeApi } from "../testing/fake-api.ts";
import { buildPackage } from "./build-command.ts";
import { createPackage, signArchiveFile } from "./package-commands.ts";
import { publishPackage } from "./publish-command.ts";
import { addPackageKey, listPackages, removePackageKey } from "./repository-commands.ts";

let root = "";
const inRoot = (name: string) => path.join(root, name);
beforeEach(async () => {
  root = mkdtempSync(path.join(tmpdir(), "publish-"));
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(inRoot("key.pem"), privateKey.export({ format: "pem", type: "pkcs8" }));
  writeFileSync(inRoot("public.pem"), publicKey.export({ format: "pem", type: "spki" }));
  const { context } = createCommandFixture({});
  await createPackage(context, { folder: inRoot("tools"), name: "acme.tools", runtime: "node" });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const version = {
  name: "acme.tools",
  version: "0.1.0",
  sha256: "a".repeat(64),
  sizeBytes: 5,
  signature: { keyId: "b".repeat(32), signedBy: "Ann", signedAt: "2026-01-02T00:00:00.000Z" },
  publishedAt: "2026-01-02T03:04:05.000Z",
  publishedBy: "ada",
  status: "published",
  workerCount: 0,
  workers: [],
};

const environment = { env: {}, stopSignal: new AbortController().signal };
const publish = ({ context }: CommandFixture, input: Record<string, string>) =>
  publishPackage({ ...context, environment }, { path: inRoot("tools"), tenant: "default", python: "python3", ...input });
const sentForm = ({ calls }: CommandFixture): FormData =>
  (calls.at(-1)?.[1] as { body: FormData } | undefined)?.body ?? new FormData();
const sentArchive = async (form: FormData): Promise<Buffer> => Buffer.from(await (form.get("file") as File).arrayBuffer());

describe("packages publish", () => {
  it("[L1253] sends an archive as it is with the signature beside it", async () => {
    const { context } = createCommandFixture({});
    const archive = inRoot("a.cwx");
    await buildPackage({ ...context, ...environment }, { folder: inRoot("tools"), python: "python3", out: archive });
    await signArchiveFile(context, { archive, key: inRoot("key.pem"), by: "Ann", tenant: "default" });
    const fixture = createCommandFixture({ publishPackage: { ...version, missingResources: ["resources/model.bin"] } });

    expect(await publish(fixture, { path: archive })).toBe(0);

    const form = sentForm(fixture);
    expect(await sentArchive(form)).toEqual(readFileSync(archive));
    expect(JSON.parse(String(form.get("signature")))).toEqual(JSON.parse(readFileSync(`${archive}.sig`, "utf8")));
    expect([...form.keys()]).toEqual(["signature", "file"]);
    expect(fixture.stdout()).toBe("acme.tools 0.1.0 is published\n");
    expect(fixture.stderr()).toContain("signed by Ann; next: astra packages install acme.tools@0.1.0 --all");
    expect(fixture.stderr()).toContain("missing: resources/model.bin");
  });

  it("[L1253] packs a folder first, signed with --key and --by, and changes nothing in it", async () => {
    const fixture = createCommandFixture({ publishPackage: version }, { now: () => Date.UTC(2026, 0, 2) });

    await publish(fixture, { key: inRoot("key.pem"), by: "Ann" });
    const form = sentForm(fixture);
    const archive = await sentArchive(form);
    await publish(fixture, {});

    expect(sentForm(fixture).has("signature")).toBe(false);
    expect((await readPackageArchive(createMemorySource(archive))).manifest).toMatchObject({ signature: { signedBy: "Ann" } });
    const key = readPublicKey(readFileSync(inRoot("public.pem"), "utf8"));
    if (key instanceof Fault) throw key;
    const signature = JSON.parse(String(form.get("signature"))) as PackageSignature;
    const identity = {
      name: "acme.tools",
      version: "0.1.0",
      tenant: "default",
      sha256: sha256Hex(archive),
      bytes: archive.length,
    };
    expect(findSignatureProblem(signature, identity, [key])).toBeNull();
    expect(readFileSync(inRoot("tools/manifest.json"), "utf8")).not.toContain("signature");
  });

  it("[L1253] refuses a file that is not there, a key without a name, and a key for an archive, before anything is sent", async () => {
    const fixture = createCommandFixture({});

    await expect(publish(fixture, { path: inRoot("none.cwx") })).rejects.toMatchObject({ exitCode: 2 });
    await expect(publish(fixture, { key: inRoot("key.pem") })).rejects.toThrow("--key and --by go together");
    writeFileSync(inRoot("a.cwx"), "x");
    await expect(publish(fixture, { path: inRoot("a.cwx"), key: inRoot("key.pem"), by: "Ann" })).rejects.toThrow(
      "astra packages sign",
    );
    expect(fixture.calls).toEqual([]);
  });

  it("[L1253] [L25] a dry run of publish names the archive and its size in place of its bytes", async () => {
    const api: FakeApi = await startFakeApi();
    try {
      const end = await api.run(["packages", "publish", inRoot("tools"), "--dry-run", "--json"]);

      expect(JSON.parse(end.out)).toEqual({
        dryRun: true,
        method: "POST",
        path: "/api/v1/packages",
        body: { file: { name: "acme.tools-0.1.0.cwx", bytes: expect.any(Number) } },
      });
      expect(api.requests).toEqual([]);
    } finally {
      await api.close();
    }
  });
});

describe("packages list and keys", () => {
  it("[L1254] packages list NAME shows the status of each version and who holds it, with what is unusual about them", async () => {
    const holder = (name: string, status = "installed", connected = true) => ({ name, workerId: name, status, connected });
    const held = { workerCount: 103, workers: [holder("w-1"), holder("w-2", "installing"), holder("w-3", "installed", false)] };
    const { context, stdout } = createCommandFixture({
      listPackageVersions: {
        items: [
          { ...version, version: "0.2.0", status: "withdrawn", signature: null },
          { ...version, ...held, missingResources: ["x"] },
        ],
        nextCursor: null,
      },
    });

    await listPackages(context, { package: "acme.tools", limit: 50 });

    expect(
      stdout()
        .split("\n")
        .map((line) => line.split(/ {2,}/)),
    ).toEqual([
      ["VERSION", "STATUS", "WORKERS", "PUBLISHED", "SIGNATURE"],
      ["0.2.0", "withdrawn", "none", "2026-01-02 03:04:05Z", "not signed"],
      [
        "0.1.0",
        "published, 1 file missing",
        "w-1, w-2 (installing), w-3 (away), and 100 more",
        "2026-01-02 03:04:05Z",
        "signed by Ann",
      ],
      [""],
    ]);
  });

  it("[L1254] packages list tells a package that is only in folders of workers from one that nobody knows", async () => {
    const answers = {
      listPackageVersions: { items: [], nextCursor: null },
      listPackages: { items: [{ name: "demo", versions: [] }] },
    };
    const { context, stderr } = createCommandFixture(answers);

    expect(await listPackages(context, { package: "demo", limit: 50 })).toBe(0);

    expect(stderr()).toContain("no version of it is published here");
    await expect(listPackages(context, { package: "acme", limit: 50 })).rejects.toMatchObject({ exitCode: 3 });
  });

  it("[L1255] packages keys add sends the key and what it may sign; keys remove finds it by name or part of its id and asks first", async () => {
    const keyId = `${"0".repeat(24)}89abcdef`;
    const asked: string[] = [];
    const fixture = createCommandFixture(
      {
        addPackageKey: { keyId, name: "Release", packages: ["acme.*"] },
        listPackageKeys: { items: [{ keyId, name: "Release" }] },
        deletePackageKey: undefined,
      },
      { confirm: async (action) => void asked.push(action) },
    );

    await addPackageKey(fixture.context, { file: inRoot("public.pem"), name: "Release", package: ["acme.*"] });
    await removePackageKey(fixture.context, { keyId: "89abcdef" });
    await removePackageKey(fixture.context, { keyId: "release" });

    const publicKey = readFileSync(inRoot("public.pem"), "utf8");
    expect(fixture.calls[0]).toEqual(["addPackageKey", { body: { name: "Release", publicKey, packages: ["acme.*"] } }]);
    expect(fixture.calls.filter(([name]) => name === "deletePackageKey")).toEqual(Array(2).fill(["deletePackageKey", { keyId }]));
    expect(asked).toEqual(Array(2).fill(`trust the key ${keyId} (Release) no longer; what it signed stays installed`));
    expect(fixture.stdout()).toContain(`${keyId} is trusted for acme.*\n`);
  });
});
