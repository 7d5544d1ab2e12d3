// The repository of packages over HTTP on the real engine: keys, downloads, and which worker holds what.

import { createHash } from "node:crypto";
import { createSigningKey, nodePackageFiles, signFiles } from "@astraflow/archive/testing";
import { createMemoryFixture } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";
import { packageForm } from "./route-examples.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});
async function openFixture(): Promise<RestFixture> {
  const opened = await openRestFixture(await createMemoryFixture("strong"));
  cleanups.push(opened.close);
  return opened;
}

describe("downloads", () => {
  it("[A937] an archive is downloaded whole, by range and by workers, with its SHA-256 as ETag", async () => {
    const { send, ownSamples } = await openFixture();
    const { body: version } = await send("getPackageVersion");

    const whole = await send("downloadPackage");
    const part = await send("downloadPackage", { headers: { range: "bytes=0-1" } });
    const byWorker = await send("downloadPackage", { token: "t1-but-read" });
    const byOther = await send("downloadPackage", { token: "t2-all" });
    const beyond = await send("downloadPackage", { headers: { range: "bytes=99999999-" } });

    expect(whole.headers).toMatchObject({
      etag: `"${version.sha256}"`,
      "content-type": "application/zip",
      "content-length": String(version.sizeBytes),
      "content-disposition": expect.stringContaining(`${ownSamples.packageName}-1.0.0.cwx`),
    });
    expect([part.status, part.body, part.headers["content-range"]]).toEqual([206, "PK", `bytes 0-1/${version.sizeBytes}`]);
    expect([byWorker.status, byOther.status, beyond.status]).toEqual([200, 404, 416]);
    expect(version).toMatchObject({ signature: { keyId: ownSamples.keyId, signedBy: "Anna" }, publishedBy: "t1-boss" });
  });

  it("[A937] the versions of a package are listed newest first, in pages, with the workers that hold them", async () => {
    const { send, harness, ownSamples } = await openFixture();
    const { packageName: name, packageSigningKey: key } = ownSamples;
    for (const version of ["1.10.0", "1.9.0", "2.0.0-rc.1"])
      await send("publishPackage", { body: packageForm(key, name, version) });
    await harness.joinWorker("holder", { tenant: "t1", packages: [{ name, version: "1.9.0", status: "installed" }] });

    const first = await send("listPackageVersions", { url: `/api/v1/packages/${name}/versions?limit=2` });
    const rest = await send("listPackageVersions", {
      url: `/api/v1/packages/${name}/versions?limit=2&cursor=${first.body.nextCursor}`,
    });

    const items = [...first.body.items, ...rest.body.items];
    expect(items.map((item) => item.version)).toEqual(["2.0.0-rc.1", "1.10.0", "1.9.0", "1.0.0"]);
    expect(items.map((item) => item.workerCount)).toEqual([0, 0, 1, 0]);
    expect(items[2].workers).toEqual([{ name: "holder", workerId: "holder", connected: true, status: "installed" }]);
    expect(rest.body.nextCursor).toBeNull();
  });
});

describe("trusted keys", () => {
  it("[A936] a key is added once with what it may sign, shown in PEM, audited, and deleted; nothing that it signed is published then", async () => {
    const { send, ownSamples } = await openFixture();
    const { packageName: name } = ownSamples;
    const key = createSigningKey();
    const wanted = { publicKey: key.publicKey, name: "Release", packages: [`${name}*`] };
    const der = Buffer.from(key.publicKey.split("\n").slice(1, -2).join(""), "base64").subarray(12);
    const keyId = createHash("sha256").update(der).digest("hex").slice(0, 32);

    const added = await send("addPackageKey", { body: wanted });
    const again = await send("addPackageKey", { body: wanted });
    const other = await send("addPackageKey", { body: { ...wanted, name: "Another" } });
    const published = await send("publishPackage", { body: packageForm(key.privateKey, name, "3.0.0") });
    const foreign = await send("publishPackage", { body: packageForm(key.privateKey, "other", "3.0.0") });
    const removed = await send("deletePackageKey", { url: `/api/v1/package-keys/${keyId}` });
    const refused = await send("publishPackage", { body: packageForm(key.privateKey, name, "3.1.0") });
    const { body: audit } = await send("listAudit", { url: "/api/v1/audit?limit=200" });

    expect([added.status, added.body.keyId, added.body.publicKey]).toEqual([201, keyId, key.publicKey]);
    expect([again.body.keyId, other.body.error]).toEqual([keyId, "E.CONFLICT"]);
    expect([published.status, foreign.body.error, removed.status]).toEqual([201, "E.PKG.PERMISSION", 204]);
    expect(refused.body).toMatchObject({ error: "E.PKG.PERMISSION", message: expect.stringContaining("not trusted") });
    const actions = audit.items.map(
      (item: { action: string; metadata?: { outcome?: string } }) => `${item.action} ${item.metadata?.outcome}`,
    );
    for (const wantedAction of [
      "package-key.add ok",
      "package-key.delete ok",
      "package.publish ok",
      "package.publish E.PKG.PERMISSION",
    ])
      expect(actions).toContain(wantedAction);
  });

  it("[A936] a key that cannot be used is refused by the name of its field", async () => {
    const { send } = await openFixture();
    const weak = Buffer.alloc(32).toString("base64");
    const rsa = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK\n-----END PUBLIC KEY-----\n";

    for (const publicKey of ["no key", weak, rsa]) {
      const { body } = await send("addPackageKey", { body: { publicKey, name: "x" } });
      expect(body).toMatchObject({ error: "E.REQUEST.INVALID", details: { path: "body.publicKey" } });
    }
    const pattern = await send("addPackageKey", {
      body: { publicKey: createSigningKey().publicKey, name: "x", packages: ["*a"] },
    });
    expect(pattern.status).toBe(400);
  });
});

describe("installs from the repository", () => {
  const ordersOf = ({ harness }: RestFixture) =>
    harness.effects.flatMap((effect) => (effect.type === "order" && effect.order.type === "pkg.install" ? [effect.order] : []));
  const install = (fields: object, name: string) => ({ body: { type: "pkg.install", name, ...fields } });

  it("[A938] an install without a URL is ordered with the SHA-256 and the signature of the newest version that is no pre-release, and recorded without the signature's bytes", async () => {
    const fixture = await openFixture();
    const { send, harness, ownSamples } = fixture;
    const { packageName: name, packageSigningKey: key, keyId } = ownSamples;
    for (const version of ["1.9.0", "1.10.0", "2.0.0-rc.1"])
      await send("publishPackage", { body: packageForm(key, name, version) });
    const { body: newest } = await send("getPackageVersion", { url: `/api/v1/packages/${name}/versions/1.10.0` });

    const sent = await send("commandWorker", install({ allowOlder: true }, name));
    await harness.settle();
    const { body: record } = await send("getCommand", { url: `/api/v1/commands/${sent.body.commandId}` });

    expect(ordersOf(fixture).at(-1)).toEqual({
      ...{ type: "pkg.install", name, version: "1.10.0", sha256: newest.sha256, allowOlder: true, fromRepository: true },
      signature: { keyId, ed25519: expect.any(String), signedAt: expect.any(String), signedBy: "Anna", tenant: "*" },
    });
    expect(record.request).toMatchObject({ version: "1.10.0", signature: { keyId, signedBy: "Anna" }, fromRepository: true });
    expect(JSON.stringify(record)).not.toContain("ed25519");
  });

  it("[A938] an install of what is not published, of other bytes, or signed by a key that was deleted is refused and reaches no worker", async () => {
    const fixture = await openFixture();
    const { send, ownSamples } = fixture;
    const { packageName: name, keyId } = ownSamples;
    const before = ordersOf(fixture).length;

    const unknown = await send("commandWorker", install({ version: "9.0.0" }, name));
    const other = await send("commandWorker", install({ sha256: "0".repeat(64) }, name));
    await send("deletePackageKey", { url: `/api/v1/package-keys/${keyId}` });
    const revoked = await send("commandWorker", install({ version: "1.0.0" }, name));

    expect(unknown.body).toMatchObject({ error: "E.REQUEST.INVALID", details: { path: "body.url" } });
    expect([other.body.error, revoked.body.error]).toEqual(["E.PKG.INVALID", "E.PKG.PERMISSION"]);
    expect(ordersOf(fixture).length).toBe(before);
    const { body: audit } = await send("listAudit", { url: "/api/v1/audit?limit=200" });
    const refusals = audit.items.filter((item: { action: string }) => item.action === "pkg.install");
    expect(refusals.map((item: { metadata: { outcome: string } }) => item.metadata.outcome)).toContain("E.PKG.PERMISSION");
  });

  it("[A938] a repeated install with the same idempotency key is one order, though a newer version was published meanwhile, and another request is refused", async () => {
    const fixture = await openFixture();
    const { send, harness, ownSamples } = fixture;
    const { packageName: name, packageSigningKey: key } = ownSamples;
    const headers = { "idempotency-key": "install-1" };
    const before = ordersOf(fixture).length;

    const first = await send("commandWorker", { ...install({}, name), headers });
    await send("publishPackage", { body: packageForm(key, name, "2.0.0") });
    const again = await send("commandWorker", { ...install({}, name), headers });
    const older = await send("commandWorker", { ...install({ allowOlder: true }, name), headers });
    const byUrl = await send("commandWorker", { ...install({ url: "https://packages.test/a.cwx" }, name), headers });
    await harness.settle();

    expect([first.status, again.body]).toEqual([202, first.body]);
    expect([older.body.error, byUrl.body.error]).toEqual(["E.IDEMPOTENCY.MISMATCH", "E.IDEMPOTENCY.MISMATCH"]);
    expect(ordersOf(fixture).length).toBe(before + 1);
  });

  it("[D930] a worker of an older dialect is not told to install what it has no address for", async () => {
    const { send, harness, ownSamples } = await openFixture();
    await harness.joinWorker("old", { tenant: "t1", dialect: "v1", features: ["pkg"] });

    const refused = await send("commandWorker", {
      url: "/api/v1/workers/old/commands",
      ...install({}, ownSamples.packageName),
    });

    expect(refused.body).toMatchObject({ error: "E.REQUEST.INVALID", message: expect.stringContaining("--public-url") });
  });

  it("[A939] an install by URL may bring its signature, which does not go with the repository", async () => {
    const fixture = await openFixture();
    const { send, harness, ownSamples } = fixture;
    const { packageName: name, packageSigningKey: key } = ownSamples;
    const { signature } = signFiles(key, nodePackageFiles(name, "5.0.0"));
    const url = "https://packages.test/a.cwx";

    const sent = await send("commandWorker", install({ version: "5.0.0", url, signature, allowOlder: true }, name));
    const refused = await send("commandWorker", install({ signature }, name));
    await harness.settle();

    expect([sent.status, refused.body.details]).toEqual([202, { path: "body.signature" }]);
    expect(ordersOf(fixture).at(-1)).toMatchObject({ url, allowOlder: true, signature: { ed25519: signature.ed25519 } });
  });
});

describe("resources of a version", () => {
  it("[A940] files of the archive's folder and files that the manifest names are read by their path, slashes and all, also by workers", async () => {
    const { send, ownSamples } = await openFixture();
    const base = `/api/v1/packages/${ownSamples.packageName}/1.0.0/resources`;

    const texts = [];
    for (const path of ["resources/data/words.txt", "data/words.txt", "resources%2Fdata%2Fwords.txt", "resources/model.bin"]) {
      const { status, body } = await send("downloadPackageResource", { url: `${base}/${path}`, token: "t1-but-read" });
      texts.push(`${status} ${body}`);
    }
    const refused = [];
    for (const path of ["main.mjs", "resources/nothing", "resources/../main.mjs", "..%2Fmain.mjs", "manifest.json"])
      refused.push((await send("downloadPackageResource", { url: `${base}/${path}` })).status);

    expect(texts).toEqual(["200 hello", "200 hello", "200 hello", "200 the weights"]);
    expect(refused).toEqual([404, 404, 404, 404, 404]);
  });

  it("[A941] a resource that the manifest names by its digest is put beside the archive once, with just these bytes, and is shown as missing until then", async () => {
    const { send, ownSamples } = await openFixture();
    const { packageName: name, packageSigningKey: key } = ownSamples;
    await send("publishPackage", { body: packageForm(key, name, "2.0.0") });
    const url = `/api/v1/packages/${name}/2.0.0/resources/resources/model.bin`;
    const media = { "content-type": "application/octet-stream" };
    const before = await send("getPackageVersion", { url: `/api/v1/packages/${name}/versions/2.0.0` });

    const early = await send("downloadPackageResource", { url });
    const wrong = await send("putPackageResource", { url, body: Buffer.from("other"), headers: media });
    const put = await send("putPackageResource", { url, body: Buffer.from("the weights"), headers: media });
    const again = await send("putPackageResource", { url, body: Buffer.from("other"), headers: media });
    const { body } = await send("downloadPackageResource", { url });
    const archived = await send("putPackageResource", { url: url.replace("model.bin", "data/words.txt") });

    expect([before.body.missingResources, early.status]).toEqual([["resources/model.bin"], 404]);
    expect([wrong.body.error, put.status, put.body.missingResources]).toEqual(["E.RESOURCE.DIGEST", 200, undefined]);
    expect([again.status, body, archived.body.error]).toEqual([200, "the weights", "E.CONFLICT"]);
  });
});

describe("deleting a version", () => {
  it("[A942] a version is deleted with its bytes, and not while a worker holds it", async () => {
    const { send, harness, ownSamples } = await openFixture();
    const { packageName: name, packageSigningKey: key } = ownSamples;
    const holder = await harness.joinWorker("holder", { packages: [{ name, version: "1.0.0", status: "installed" }] });
    const blobs = async () => (await harness.store.page({ page: "docs", tenant: "t1", collection: "blob", limit: 100 })).items;
    const before = (await blobs()).length;

    const held = await send("deletePackageVersion");
    await harness.joinWorker("holder", { boot: "another", session: "another", packages: [] });
    const deleted = await send("deletePackageVersion");
    const gone = await send("downloadPackage");
    const again = await send("deletePackageVersion");
    const republished = await send("publishPackage", { body: packageForm(key, name, "1.0.0") });

    expect(holder).toBeDefined();
    expect(held.body).toMatchObject({ error: "E.CONFLICT", message: expect.stringContaining("holder") });
    expect([deleted.status, gone.status, again.status]).toEqual([204, 404, 404]);
    expect(republished.status).toBe(201);
    // The archive in two documents, and the file beside it, are gone; the archive has come again.
    expect(before - (await blobs()).length).toBe(2);
  });
});
