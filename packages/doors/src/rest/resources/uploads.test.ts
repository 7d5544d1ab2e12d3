import { createHash } from "node:crypto";
import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import { uploadLimits, withPartAdded } from "@astraflow/services";
import { describe, expect, it } from "vitest";
import { openRestCallFixture, type RestCallFixture, type RestCallInput } from "../../testing/rest-fixture.ts";

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const text = "0123456789abcdefghijkl!";
const wanted = { filename: "big.bin", sizeBytes: text.length, chunkSize: 10 };
async function* bytes(body: string): AsyncGenerator<Buffer> {
  for (const character of body) yield Buffer.from(character);
}
const bare = { "content-type": "application/octet-stream" };
const begin = async (fixture: RestCallFixture, more: object = {}, token = "secret-a"): Promise<string> =>
  String((await fixture.callRoute("createUpload", { token, body: { ...wanted, ...more } })).body["uploadId"]);
const put = (fixture: RestCallFixture, uploadId: string, part: number, body = text.slice(part * 10, part * 10 + 10)) =>
  fixture.callRoute("putUploadPart", { params: { uploadId, partNumber: String(part) }, headers: bare, stream: bytes(body) });
const at = (uploadId: string, token = "secret-a") => ({ token, params: { uploadId } });
const bytesOf = async (fixture: RestCallFixture, resourceId: string): Promise<string> => {
  const { bytes: open } = await fixture.callRouteRaw("downloadResource", { params: { resourceId } });
  const chunks: Uint8Array[] = [];
  for await (const chunk of open?.() ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
};
const left = (fixture: RestCallFixture, collection: string): number =>
  [...fixture.docs.docs.values()].filter((doc) => doc.collection === collection).length;

describe("an upload in parts", () => {
  it("[A105] an upload takes its parts in any order, reports its progress, and becomes a resource", async () => {
    const fixture = openRestCallFixture();
    const { status, body } = await fixture.callRoute("createUpload", {
      body: { ...wanted, sha256: sha(text), mimeType: "text/plain", metadata: { a: 1 } },
    });
    const id = String(body["uploadId"]);
    expect(
      createSchemaReader(routes.getUpload.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body),
    ).toEqual(body);
    expect([status, body["status"], body["totalParts"], body["nextPart"]]).toEqual([201, "pending", 3, 0]);

    expect((await put(fixture, id, 2)).body).toEqual({
      uploadId: id,
      partNumber: 2,
      uploadedBytes: 3,
      nextPart: 0,
      status: "pending",
      receivedBytes: 3,
    });
    await put(fixture, id, 0);
    expect((await fixture.callRoute("getUpload", at(id))).body).toMatchObject({
      completedParts: [0, 2],
      uploadedBytes: 13,
      nextPart: 1,
    });
    expect((await put(fixture, id, 1)).body).toMatchObject({ status: "completed", nextPart: 3, uploadedBytes: 23 });

    const done = await fixture.callRoute("completeUpload", at(id));
    expect([done.status, done.body]).toMatchObject([
      200,
      { filename: "big.bin", sizeBytes: 23, sha256: sha(text), mimeType: "text/plain", metadata: { a: 1 }, ownerId: "ann" },
    ]);
    expect(await bytesOf(fixture, String(done.body["resourceId"]))).toBe(text);
    expect((await fixture.callRoute("getUpload", at(id))).body).toMatchObject({
      status: "completed",
      resourceId: done.body["resourceId"],
    });
    // The head and the one piece of the resource: the parts are gone.
    expect(left(fixture, "blob")).toBe(2);
  });

  it("[A105] an upload takes a part as a multipart form too, and does not overwrite a part that it has", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture);
    const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="p"\r\n\r\n';
    const stream = bytes(`${head}${text.slice(0, 10)}\r\n--b--`);
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    const params = { uploadId: id, partNumber: "0" };

    expect((await fixture.callRoute("putUploadPart", { params, headers, stream })).status).toBe(200);
    expect((await put(fixture, id, 0, "something else of another length")).body).toMatchObject({
      uploadedBytes: 10,
      receivedBytes: 10,
    });
    await Promise.all([put(fixture, id, 1), put(fixture, id, 2)]);

    const { body } = await fixture.callRoute("completeUpload", at(id));
    expect(await bytesOf(fixture, String(body["resourceId"]))).toBe(text);
  });

  it("[A105] an upload takes many parts at the same time", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture, { chunkSize: 1 });

    await Promise.all(Array.from(text, (character, part) => put(fixture, id, part, character)));

    const { body } = await fixture.callRoute("completeUpload", at(id));
    expect(body["sha256"]).toBe(sha(text));
  });

  it.each([
    [0, "012345678"],
    [0, "0123456789a"],
    [2, "jk"],
    [2, text.slice(20, 23) + "more"],
    [1, ""],
  ])("[A105] an upload refuses part %i with the bytes %j, which have the wrong length", async (part, body) => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture);

    const answer = await put(fixture, id, part, body);

    expect([answer.status, answer.body["error"]]).toEqual([400, "E.REQUEST.INVALID"]);
    expect(answer.body["message"]).toMatch(/^chunk size mismatch/);
    expect((await fixture.callRoute("getUpload", at(id))).body["completedParts"]).toEqual([]);
  });

  it("[A105] an upload is created once under one Idempotency-Key", async () => {
    const fixture = openRestCallFixture();
    const keyed = (body: object) => fixture.callRoute("createUpload", { headers: { "idempotency-key": "k1" }, body });

    const one = await keyed(wanted);
    await put(fixture, String(one.body["uploadId"]), 0);
    const two = await keyed(wanted);

    expect([two.body["uploadId"], two.body["completedParts"]]).toEqual([one.body["uploadId"], [0]]);
    expect((await keyed({ ...wanted, sizeBytes: 9 })).body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
  });

  it("[A106] an upload of bytes that are already stored is complete at once, but only for a user who may see them", async () => {
    const fixture = openRestCallFixture();
    const ann = await fixture.signIn("ann", ["workflow.editor"]);
    const bob = await fixture.signIn("bob", ["workflow.editor"]);
    const first = await begin(fixture, { sha256: sha(text) }, ann.token);
    for (const part of [0, 1, 2]) await put(fixture, first, part);
    const { body } = await fixture.callRoute("completeUpload", at(first, ann.token));
    const again = (token: string, more: object = {}) =>
      fixture.callRoute("createUpload", { token, body: { ...wanted, sha256: sha(text).toUpperCase(), ...more } });

    const same = await again(ann.token);

    expect(same.body).toMatchObject({ status: "completed", resourceId: body["resourceId"], nextPart: 3, uploadedBytes: 23 });
    expect(same.body["completedParts"]).toEqual([0, 1, 2]);
    expect((await fixture.callRoute("completeUpload", at(String(same.body["uploadId"]), ann.token))).body["resourceId"]).toBe(
      body["resourceId"],
    );
    expect((await again(bob.token)).body["status"]).toBe("pending");
    expect((await again(ann.token, { sizeBytes: 22 })).body["status"]).toBe("pending");
  });

  it("[A107] an upload is completed only with all its parts, and only once", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture);
    await put(fixture, id, 0);
    await put(fixture, id, 2);
    const early = await fixture.callRoute("completeUpload", at(id));
    expect([early.status, early.body["message"]]).toEqual([409, "part 1 is missing: 13 of 23 bytes are here"]);
    await put(fixture, id, 1);

    const [one, two] = await Promise.all([
      fixture.callRoute("completeUpload", at(id)),
      fixture.callRoute("completeUpload", at(id)),
    ]);
    const three = await fixture.callRoute("completeUpload", at(id));

    expect([one.status, two.status, three.status]).toEqual([200, 200, 200]);
    expect(new Set([one, two, three].map(({ body }) => body["resourceId"])).size).toBe(1);
    expect([left(fixture, "resource"), left(fixture, "upload"), left(fixture, "blob")]).toEqual([1, 1, 2]);
  });

  it("[A107] an upload whose digest is not the stated one creates no resource, and stays pending", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture, { sha256: sha("other") });
    for (const part of [0, 1, 2]) await put(fixture, id, part);

    const answer = await fixture.callRoute("completeUpload", at(id));

    expect([answer.status, answer.body["error"], left(fixture, "resource")]).toEqual([400, "E.RESOURCE.DIGEST", 0]);
    expect((await fixture.callRoute("getUpload", at(id))).body["status"]).toBe("pending");
  });

  it("[A108] an aborted upload is removed together with its bytes", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture);
    await put(fixture, id, 1);

    expect((await fixture.callRoute("abortUpload", at(id))).status).toBe(204);

    for (const name of ["getUpload", "abortUpload", "completeUpload"] as const)
      expect((await fixture.callRoute(name, at(id))).body).toMatchObject({
        error: "E.NOT_FOUND",
        message: `there is no upload ${id}`,
      });
    expect((await put(fixture, id, 0)).status).toBe(404);
    expect([left(fixture, "upload"), left(fixture, "blob")]).toEqual([0, 0]);
  });

  it("[A108] an upload without activity for a day expires, and the next sweep removes its bytes", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture);
    fixture.environment.advance(uploadLimits.expireAfterMs);
    await put(fixture, id, 1);
    fixture.environment.advance(uploadLimits.expireAfterMs);
    expect((await fixture.callRoute("getUpload", at(id))).status).toBe(200);
    fixture.environment.advance(1);

    expect((await fixture.callRoute("getUpload", at(id))).status).toBe(404);
    expect(left(fixture, "blob")).toBe(2);
    await begin(fixture);
    expect([left(fixture, "upload"), left(fixture, "blob")]).toEqual([1, 0]);
  });

  it("[A108] an upload belongs to its creator: another user or tenant cannot read, abort or complete it", async () => {
    const fixture = openRestCallFixture();
    const ann = await fixture.signIn("ann", ["workflow.editor"]);
    const bob = await fixture.signIn("bob", ["workflow.editor"]);
    const id = await begin(fixture, {}, ann.token);

    for (const name of ["getUpload", "abortUpload", "completeUpload"] as const) {
      expect((await fixture.callRoute(name, at(id, bob.token))).status).toBe(404);
      expect((await fixture.callRoute(name, at(id, "secret-b"))).status).toBe(404);
    }
    expect((await fixture.callRoute("getUpload", at(id))).status).toBe(200);
  });

  it.each([
    [[], 3, [[3, 3]]],
    [[[0, 2]], 3, [[0, 3]]],
    [[[4, 5]], 3, [[3, 5]]],
    [
      [
        [0, 2],
        [4, 5],
      ],
      3,
      [[0, 5]],
    ],
    [
      [
        [0, 1],
        [5, 6],
      ],
      3,
      [
        [0, 1],
        [3, 3],
        [5, 6],
      ],
    ],
    [[[0, 4]], 3, [[0, 4]]],
  ] as [[number, number][], number, [number, number][]][])(
    "[A105] the received part ranges %j with part %i added are %j",
    (parts, part, merged) => {
      expect(withPartAdded(parts, part)).toEqual(merged);
    },
  );
});

describe("wrong input about resources and uploads", () => {
  const form = { "content-type": "multipart/form-data; boundary=b" };
  const part = { uploadId: "u", partNumber: "0" };
  const file = (fields: string): AsyncIterable<Buffer> =>
    bytes(`${fields}--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--b--`);
  const field = (name: string, value: string): string =>
    `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const cases: [RouteName, RestCallInput, number, string][] = [
    ["createUpload", { body: {} }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, sizeBytes: 0 } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, sizeBytes: "10" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, chunkSize: 0 } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, chunkSize: 65 * 1024 * 1024 } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, sizeBytes: 20_001, chunkSize: 2 } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, filename: "" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, filename: "a\nb" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, sha256: "abc" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, mimeType: "text" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, provider: "s3" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, provider: "local" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, visibility: "all" } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, metadata: { a: "x".repeat(20_000) } } }, 400, "E.REQUEST.INVALID"],
    ["createUpload", { body: { ...wanted, sizeBytes: 5 * 1024 * 1024, chunkSize: 1_000_000 } }, 413, "E.REQUEST.TOO_LARGE"],
    ["createUpload", { body: "x", headers: { "content-type": "text/plain" } }, 415, "E.REQUEST.MEDIA"],
    ["createUpload", { body: wanted, token: "viewer" }, 403, "E.AUTH.FORBIDDEN"],
    ["putUploadPart", { params: { ...part, partNumber: "-1" }, headers: form }, 400, "E.REQUEST.INVALID"],
    ["putUploadPart", { params: { ...part, partNumber: "one" }, headers: form }, 400, "E.REQUEST.INVALID"],
    ["putUploadPart", { params: part, headers: form }, 404, "E.NOT_FOUND"],
    ["completeUpload", { params: part }, 404, "E.NOT_FOUND"],
    ["createResource", { headers: { "content-type": "application/json" }, stream: file("") }, 415, "E.REQUEST.MEDIA"],
    ["createResource", { headers: form, stream: bytes("nonsense") }, 400, "E.REQUEST.INVALID"],
    ["createResource", { headers: form }, 400, "E.REQUEST.INVALID"],
    ["createResource", { headers: form, stream: file(field("color", "red")) }, 400, "E.REQUEST.INVALID"],
    ["createResource", { headers: form, stream: file(field("provider", "s3")) }, 400, "E.REQUEST.INVALID"],
    ["createResource", { headers: form, stream: file(field("provider", "local")) }, 400, "E.REQUEST.INVALID"],
    ["createResource", { headers: form, stream: file(field("sha256", "x")) }, 400, "E.REQUEST.INVALID"],
    ["createResource", { headers: form, stream: file(field("visibility", "x")) }, 400, "E.REQUEST.INVALID"],
    ["getResource", { params: { resourceId: "r" } }, 404, "E.NOT_FOUND"],
    ["getResource", { params: { resourceId: "../user/x" } }, 404, "E.NOT_FOUND"],
    ["deleteResource", { params: { resourceId: "r" } }, 404, "E.NOT_FOUND"],
    ["downloadResource", { params: { resourceId: "r" } }, 404, "E.NOT_FOUND"],
    ["listResources", { query: { limit: "x" } }, 400, "E.REQUEST.INVALID"],
    ["listResources", { query: { cursor: "x" } }, 404, "E.CURSOR.UNKNOWN"],
    ["listResources", { query: { owner: "x" } }, 400, "E.REQUEST.INVALID"],
  ];

  it.each(cases)("[A115] the resource or upload route %s refuses the request %j with %i", async (name, asking, status, error) => {
    const fixture = openRestCallFixture();

    const answer = await fixture.callRoute(name, asking);

    expect([answer.status, answer.body["error"]]).toEqual([status, error]);
    expect([left(fixture, "resource"), left(fixture, "upload"), left(fixture, "blob")]).toEqual([0, 0, 0]);
  });

  it("[A115] an upload refuses a part number that it does not have, and a part of another media type", async () => {
    const fixture = openRestCallFixture();
    const id = await begin(fixture);

    expect((await put(fixture, id, 3, "x")).body).toMatchObject({
      error: "E.NOT_FOUND",
      message: `upload ${id} has no part 3: it has the parts 0 to 2`,
    });
    const params = { uploadId: id, partNumber: "0" };
    const text = await fixture.callRoute("putUploadPart", {
      params,
      headers: { "content-type": "text/plain" },
      stream: bytes("x"),
    });
    expect([text.status, text.body["error"]]).toEqual([415, "E.REQUEST.MEDIA"]);
  });
});
