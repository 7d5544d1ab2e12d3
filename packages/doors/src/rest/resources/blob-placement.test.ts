// Where the bytes of a file go that came in one piece, and whose they are under one key. Other tests of resources: resources.test.ts.

import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDocumentBlobStore, createFolderBlobStore } from "@astraflow/services";
import { createFakeDocumentStore, createFakeEnvironment } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { multipartForm, multipartType } from "../../testing/multipart-form.ts";
import { openRestCallFixture, type RestCallFixture } from "../../testing/rest-fixture.ts";

const post = (fixture: RestCallFixture, body: string) =>
  fixture.callRoute("createResource", { headers: { "content-type": multipartType }, stream: multipartForm(body) });
const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const uploadsLeft = (fixture: RestCallFixture) => [...fixture.docs.docs.values()].filter((doc) => doc.collection === "upload");
const behind = (name: string, value: string): string =>
  `hello\r\n--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}`;

async function textOf(bytes: (() => AsyncIterable<Uint8Array>) | undefined): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes?.() ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

describe("with a provider behind their file", () => {
  /** A folder and documents, as a scheduler has them. */
  async function twoPlaces() {
    const folder = await mkdtemp(join(tmpdir(), "astra-provider-"));
    folders.push(folder);
    const docs = createFakeDocumentStore({ now: () => 1_000 });
    const blobs = {
      local: createFolderBlobStore({ folder, ids: createFakeEnvironment().ids }),
      db: createDocumentBlobStore(docs),
    };
    const fixture = openRestCallFixture({ shared: docs, calls: { blobs } });
    const files = async () => (await readdir(folder, { recursive: true, withFileTypes: true })).filter((one) => one.isFile());
    return { scene: fixture, files };
  }

  it("[A371] a file that is followed by a provider field in its form is stored with that provider, and nowhere else", async () => {
    const { scene: fixture, files } = await twoPlaces();

    const { status, body } = await post(fixture, behind("provider", "db"));

    expect([status, body]).toMatchObject([201, { provider: "db", sizeBytes: 5, sha256: sha("hello") }]);
    const { bytes } = await fixture.callRouteRaw("downloadResource", { params: { resourceId: body["resourceId"] } });
    expect(await textOf(bytes)).toBe("hello");
    expect([await files(), uploadsLeft(fixture)]).toEqual([[], []]);
    expect((await post(fixture, behind("provider", "local"))).body).toMatchObject({ provider: "local" });
    expect((await files()).length).toBe(1);
  });

  it.each([
    ["that is none", behind("provider", "moon"), 400],
    ["that takes no file as large", behind("provider", "db").replace("hello", "x".repeat(5 * 1024 * 1024)), 413],
    ["and another digest", `${behind("provider", "db")}\r\n--b\r\n${behind("sha256", sha("other")).slice(12)}`, 400],
  ])("[A371] a file that is followed in its form by a provider %s is refused, and nothing is stored", async (_, text, status) => {
    const { scene: fixture, files } = await twoPlaces();

    expect((await post(fixture, text)).status).toBe(status);

    expect([fixture.docs.docs.size, await files()]).toEqual([0, []]);
  });
});

it("[A371] when two requests under one Idempotency-Key send a file at once, the first one's file stays: the slower removes nothing", async () => {
  const fixture = openRestCallFixture();
  const keyed = (stream: AsyncIterable<Buffer>) =>
    fixture.callRoute("createResource", { headers: { "content-type": multipartType, "idempotency-key": "k1" }, stream });
  const slow = Promise.withResolvers<void>();
  const waiting = keyed(
    (async function* () {
      await slow.promise;
      yield* multipartForm("other");
    })(),
  );
  const first = await keyed(multipartForm("hello"));
  slow.resolve();

  expect((await waiting).body).toMatchObject({ error: "E.CONFLICT" });
  const { bytes } = await fixture.callRouteRaw("downloadResource", { params: { resourceId: first.body["resourceId"] } });
  expect(await textOf(bytes)).toBe("hello");
  expect(uploadsLeft(fixture)).toEqual([]);
});

it("[A370] a file under an Idempotency-Key that another request has used is refused, and nothing is stored", async () => {
  const fixture = openRestCallFixture();
  const headers = { "idempotency-key": "k1" };
  await fixture.callRoute("createView", { headers, body: { name: "mine", page: "runs", query: {} } });
  const before = fixture.docs.docs.size;

  const refused = await fixture.callRoute("createResource", {
    headers: { ...headers, "content-type": multipartType },
    stream: multipartForm("hello"),
  });

  expect([refused.body["error"], fixture.docs.docs.size]).toEqual(["E.IDEMPOTENCY.MISMATCH", before]);
});
