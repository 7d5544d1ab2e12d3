import { createHash } from "node:crypto";
import { request } from "node:http";
import { createSchemaReader, routes } from "@astraflow/protocol";
import { type BlobStore, createDocumentBlobStore, measureBytes, UserAccounts } from "@astraflow/services";
import { createFakeDocumentStore } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { multipartForm, multipartType } from "../../testing/multipart-form.ts";
import { cheapPasswordCost, openRestCallFixture, type RestCallFixture } from "../../testing/rest-fixture.ts";
import { attachmentHeader, parseRange } from "./resource-routes.ts";

const post = (
  fixture: RestCallFixture,
  body: string,
  more: { token?: string; fields?: Record<string, string>; filename?: string } = {},
) =>
  fixture.callRoute("createResource", {
    token: more.token ?? "secret-a",
    headers: { "content-type": multipartType },
    stream: multipartForm(body, more.fields, more.filename),
  });
const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const idsOf = (answer: { body: Record<string, unknown> }): string[] =>
  (answer.body["items"] as { filename: string }[]).map(({ filename }) => filename);
/** Names of documents that are left. */
const left = (fixture: RestCallFixture, collection: string): string[] =>
  [...fixture.docs.docs.values()].filter((doc) => doc.collection === collection).map(({ id }) => id);

describe("resources", () => {
  it("[A100] a resource is created from a multipart form, with its size and digest, and can be shown", async () => {
    const fixture = openRestCallFixture();

    const { status, body, headers } = await post(fixture, "hello", { fields: { sha256: sha("hello").toUpperCase() } });

    expect([status, headers["location"]]).toEqual([201, `/api/v1/resources/${body["resourceId"]}`]);
    expect(
      createSchemaReader(routes.getResource.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(
        body,
      ),
    ).toEqual(body);
    expect(body).toMatchObject({
      provider: "db",
      type: "file",
      filename: "a.txt",
      sizeBytes: 5,
      mimeType: "text/plain",
      sha256: sha("hello"),
      ownerId: "ann",
      visibility: "private",
    });
    const again = await fixture.callRoute("getResource", { params: { resourceId: body["resourceId"] } });
    expect(again.body).toEqual(body);
    expect(left(fixture, "upload")).toEqual([]);
    expect(fixture.docs.log.at(-1)).toMatchObject({
      type: "audit.resource.create",
      data: { by: "ann", target: body["resourceId"] },
    });
  });

  it("[A100] a resource that is too large, or whose digest is not the stated one, is refused and leaves nothing behind", async () => {
    const fixture = openRestCallFixture();

    expect((await post(fixture, "hello", { fields: { sha256: sha("other") } })).body).toMatchObject({
      error: "E.RESOURCE.DIGEST",
    });
    expect((await post(fixture, "x".repeat(5 * 1024 * 1024))).body).toMatchObject({ error: "E.REQUEST.TOO_LARGE" });

    expect(fixture.docs.docs.size).toBe(0);
  });

  const behind = (name: string, value: string): string =>
    `hello\r\n--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}`;

  it("[A340] a resource may be described by form fields after its file", async () => {
    const fixture = openRestCallFixture();

    const { status, body } = await post(fixture, behind("visibility", "public"));

    expect([status, body]).toMatchObject([201, { visibility: "public", sizeBytes: 5, sha256: sha("hello") }]);
    expect((await post(fixture, behind("provider", "db"))).status).toBe(201);
  });

  it.each([
    ["a provider that is not here", behind("provider", "local")],
    ["another digest", behind("sha256", sha("other"))],
    ["a word that is none", behind("visibility", "some")],
    ["a second file", behind("file", "again")],
    ["no end", "hello\r\n--b\r\nContent-Disp"],
  ])("[A340] a resource form with %s after its file is refused, and nothing is stored", async (_, body) => {
    const fixture = openRestCallFixture();

    expect((await post(fixture, body)).status).toBe(400);

    expect(fixture.docs.docs.size).toBe(0);
  });

  it("[A100] a resource is created once under one Idempotency-Key", async () => {
    const fixture = openRestCallFixture();
    const keyed = (body: string) =>
      fixture.callRoute("createResource", {
        headers: { "content-type": multipartType, "idempotency-key": "k1" },
        stream: multipartForm(body),
      });

    const [one, two, other] = [await keyed("hello"), await keyed("hello"), await keyed("another")];

    expect([two.body, two.headers["idempotent-replayed"]]).toEqual([one.body, "true"]);
    expect([other.status, other.body["error"]]).toEqual([409, "E.IDEMPOTENCY.MISMATCH"]);
    expect([left(fixture, "resource").length, left(fixture, "upload").length]).toEqual([1, 0]);
  });

  it("[A104] the sweep removes the bytes of a resource whose document could not be written and whose cleanup failed", async () => {
    const fixture = openRestCallFixture();
    const { engineClient } = fixture.docs;
    const ask = engineClient.request.bind(engineClient);
    // The last write of each upload is lost, and so is the tidying up after it.
    let isAway = false;
    engineClient.request = (command) => {
      isAway ||= command.type === "docs.write" && command.puts.some(({ collection }) => collection === "resource");
      return isAway ? Promise.reject(new Error("away")) : ask(command);
    };
    expect((await post(fixture, "hello")).status).toBe(500);
    isAway = false;
    engineClient.request = ask;
    expect([left(fixture, "upload").length, left(fixture, "blob").length]).toEqual([1, 2]);

    fixture.environment.advance(86_400_001);
    await fixture.callRoute("createUpload", { body: { filename: "x", sizeBytes: 1 } });

    expect([left(fixture, "upload").length, left(fixture, "blob").length, left(fixture, "resource").length]).toEqual([1, 0, 0]);
  });

  it("[A102] a resource is visible to its owner and to admins, and to everybody if it is public", async () => {
    const fixture = openRestCallFixture();
    const ann = await fixture.signIn("ann", ["workflow.editor"]);
    const bob = await fixture.signIn("bob", ["workflow.editor"]);
    const mine = await post(fixture, "1", { token: ann.token, filename: "mine" });
    fixture.environment.advance(1);
    const open = await post(fixture, "2", { token: ann.token, filename: "open", fields: { visibility: "public" } });
    const at = (answer: typeof mine) => ({ params: { resourceId: String(answer.body["resourceId"]) } });

    expect(idsOf(await fixture.callRoute("listResources", { token: ann.token }))).toEqual(["open", "mine"]);
    expect(idsOf(await fixture.callRoute("listResources", { token: bob.token }))).toEqual(["open"]);
    expect(idsOf(await fixture.callRoute("listResources", { query: { ownerId: ann.id } }))).toEqual(["open", "mine"]);
    expect(idsOf(await fixture.callRoute("listResources", { token: ann.token, query: { search: "mi" } }))).toEqual(["mine"]);
    expect(idsOf(await fixture.callRoute("listResources", { token: bob.token, query: { ownerId: "me" } }))).toEqual([]);
    expect((await fixture.callRoute("listResources", { token: bob.token, query: { ownerId: ann.id } })).status).toBe(403);
    for (const name of ["getResource", "downloadResource", "deleteResource"] as const) {
      const hidden = await fixture.callRoute(name, { ...at(mine), token: bob.token });
      expect([name, hidden.status, hidden.body["message"]]).toEqual([
        name,
        404,
        `there is no resource ${mine.body["resourceId"]}`,
      ]);
    }
    expect((await fixture.callRoute("getResource", { ...at(open), token: bob.token })).status).toBe(200);
    expect((await fixture.callRoute("deleteResource", { ...at(open), token: bob.token })).status).toBe(403);
    expect((await fixture.callRoute("deleteResource", { ...at(mine), token: ann.token })).status).toBe(204);
    expect((await fixture.callRoute("deleteResource", at(open))).status).toBe(204);
    expect([left(fixture, "resource"), left(fixture, "blob"), left(fixture, "upload")]).toEqual([[], [], []]);
  });

  it("[A103] a resource is downloaded whole or as a byte range, with the headers that a browser needs", async () => {
    const fixture = openRestCallFixture();
    const { body } = await post(fixture, "0123456789", { filename: "na\u00efve \u20ac.txt" });
    const params = { resourceId: String(body["resourceId"]) };
    const text = async (headers: Record<string, string> = {}) => {
      const answer = await fixture.callRouteRaw("downloadResource", { params, headers });
      const chunks: Uint8Array[] = [];
      for await (const chunk of answer.bytes?.() ?? []) chunks.push(chunk);
      return { ...answer, text: Buffer.concat(chunks).toString() };
    };

    const whole = await text();
    expect([whole.status, whole.text]).toEqual([200, "0123456789"]);
    expect(whole.headers).toMatchObject({
      "content-type": "text/plain",
      "content-length": "10",
      "accept-ranges": "bytes",
      etag: `"${sha("0123456789")}"`,
      "x-content-type-options": "nosniff",
    });
    const part = await text({ range: "bytes=2-4" });
    expect([part.status, part.text, part.headers["content-range"], part.headers["content-length"]]).toEqual([
      206,
      "234",
      "bytes 2-4/10",
      "3",
    ]);
    expect((await text({ range: "bytes=-2" })).text).toBe("89");
    const beyond = await fixture.callRoute("downloadResource", { params, headers: { range: "bytes=10-" } });
    expect([beyond.status, beyond.body["error"]]).toEqual([416, "E.RESOURCE.RANGE"]);
  });

  it("[A103] the download of a resource whose bytes are missing is answered with 404 before anything is sent", async () => {
    const fixture = openRestCallFixture();
    const { body } = await post(fixture, "hello");
    for (const id of left(fixture, "blob")) fixture.docs.docs.delete(id);

    const answer = await fixture.callRoute("downloadResource", { params: { resourceId: String(body["resourceId"]) } });

    expect([answer.status, answer.body["error"]]).toEqual([404, "E.NOT_FOUND"]);
  });

  it.each([
    [undefined, null],
    ["bytes=0-", { start: 0, end: 9 }],
    ["bytes=3-100", { start: 3, end: 9 }],
    ["bytes=-3", { start: 7, end: 9 }],
    ["bytes=-30", { start: 0, end: 9 }],
    ["bytes=5-2", null],
    ["bytes=0-1,3-4", null],
    ["lines=1-2", null],
    ["bytes=-", null],
  ])("[A103] the Range header %s of a ten-byte resource is read as %j", (header, range) => {
    expect(parseRange(header, 10)).toEqual(range);
  });

  it.each([
    ["a.txt", "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"],
    ['a"b\\c\r\n.txt', "attachment; filename=\"a_b_c__.txt\"; filename*=UTF-8''a%22b%5Cc%0D%0A.txt"],
    ["\u20ac'(x)*.txt", "attachment; filename=\"_'(x)*.txt\"; filename*=UTF-8''%E2%82%AC%27%28x%29%2A.txt"],
  ])("[A103] the file name %j is sent in the Content-Disposition header %s", (filename, header) => {
    expect(attachmentHeader(filename)).toBe(header);
  });
});

describe("resources over HTTP", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const authorization = "Bearer secret-a";

  const open = async (blobs?: BlobStore) => {
    const docs = createFakeDocumentStore();
    const { engineClient, reader } = docs;
    const outside = { clock: { now: () => 1_000, monotonic: () => 1_000 }, ids: { next: () => crypto.randomUUID() } };
    const people = new UserAccounts({ engineClient, reader, environment: outside as never, passwordCost: cheapPasswordCost });
    fixture = await openDoorsFixture({ engineClient, reader, people, blobs: { db: blobs ?? createDocumentBlobStore(docs) } });
  };

  it("[A100] a resource uploaded by a browser's own form is downloaded unchanged over HTTP, and HEAD sends no bytes", async () => {
    await open();
    const data = new FormData();
    data.set("visibility", "public");
    data.set("file", new Blob([Buffer.alloc(600_000, "xyz")], { type: "image/png" }), "pic.png");

    const made = await fetch(`${fixture.http}/api/v1/resources`, { method: "POST", headers: { authorization }, body: data });
    const resource = (await made.json()) as { downloadUrl: string; sizeBytes: number; mimeType: string };

    expect([made.status, resource.sizeBytes, resource.mimeType]).toEqual([201, 600_000, "image/png"]);
    const out = await fetch(`${fixture.http}${resource.downloadUrl}`, { headers: { authorization } });
    expect(Buffer.from(await out.arrayBuffer()).equals(Buffer.alloc(600_000, "xyz"))).toBe(true);
    const head = await fetch(`${fixture.http}${resource.downloadUrl}`, { method: "HEAD", headers: { authorization } });
    expect([head.status, head.headers.get("content-length"), (await head.arrayBuffer()).byteLength]).toEqual([200, "600000", 0]);
    const gone = await fetch(`${fixture.http}${resource.downloadUrl.replace("/download", "")}`, {
      method: "DELETE",
      headers: { authorization },
    });
    expect([gone.status, gone.headers.get("content-type"), await gone.text()]).toEqual([204, null, ""]);
  });

  it("[A111] the bytes of a resource are passed to the blob store as they arrive, and the write fails when the caller disconnects", async () => {
    const seen = Promise.withResolvers<number>();
    const ended = Promise.withResolvers<unknown>();
    const unused = () => Promise.reject(new Error("not asked for"));
    await open({
      bytesMax: 1e9,
      async write(_place, source, bytesMax) {
        try {
          for await (const chunk of measureBytes(source, bytesMax, () => undefined)) seen.resolve(chunk.length);
        } catch (why) {
          ended.resolve(why);
          throw why;
        }
        return { sizeBytes: 0, sha256: "" };
      },
      delete: async () => undefined,
      stat: unused,
      read: () => {
        throw new Error("not asked for");
      },
    });
    const sending = request(`${fixture.http}/api/v1/resources`, {
      method: "POST",
      headers: { authorization, "content-type": multipartType, "content-length": "60000000" },
    });
    sending.on("error", () => undefined);

    sending.write(`--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n${"x".repeat(50_000)}`);
    expect(await seen.promise).toBeGreaterThan(0);
    sending.destroy();

    expect(await ended.promise).toMatchObject({ code: "E.REQUEST.INVALID" });
  });

  it("[A111] a resource larger than one request may carry is refused by its Content-Length alone", async () => {
    await open();

    const status = await new Promise<number>((resolve, reject) => {
      const sending = request(`${fixture.http}/api/v1/resources`, {
        method: "POST",
        headers: { authorization, "content-type": multipartType, "content-length": "70000000" },
      });
      sending.on("response", (response) => resolve(response.statusCode ?? 0));
      sending.on("error", reject);
      sending.write("--b");
    });

    expect(status).toBe(413);
  });

  it("[A111] a resource of undeclared length that exceeds its provider's limit is refused with 413 and an error body", async () => {
    await open();
    async function* endless(): AsyncGenerator<Buffer> {
      yield Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n');
      for (let n = 0; n < 100; n += 1) yield Buffer.alloc(65_536);
    }

    const answer = await fetch(`${fixture.http}/api/v1/resources`, {
      method: "POST",
      headers: { authorization, "content-type": multipartType },
      body: endless() as never,
      duplex: "half",
    } as RequestInit);

    expect([answer.status, ((await answer.json()) as { error: string }).error]).toEqual([413, "E.REQUEST.TOO_LARGE"]);
  });

  it("[A80] a login request without a token is refused with 413 if its body is large", async () => {
    await open();

    const answer = await fetch(`${fixture.http}/api/v1/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "x", password: "y".repeat(100_000) }),
    });

    expect(answer.status).toBe(413);
  });
});
