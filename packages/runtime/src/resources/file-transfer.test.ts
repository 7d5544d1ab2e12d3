import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { fileTransferLimits, SchedulerFiles } from "./file-transfer.ts";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const chunkSize = 64 * 1024;

/** The scheduler's file store as far as a worker uses it. `disturb` may answer, or cut, a request itself; it then gives true. */
async function openFileStore(
  disturb: (request: IncomingMessage, response: ServerResponse, count: number) => boolean = () => false,
) {
  const parts = new Map<number, Buffer>();
  const requests: string[] = [];
  let begun: { sizeBytes: number; filename: string; metadata: unknown; visibility: string } | null = null;
  let content: Buffer = Buffer.alloc(0);
  const describeFile = () => ({ resourceId: "f1", ...begun, sizeBytes: content.length, sha256: sha256(content) });
  const state = () => {
    const totalParts = Math.ceil((begun?.sizeBytes ?? 0) / chunkSize);
    let nextPart = 0;
    while (parts.has(nextPart)) nextPart++;
    return { uploadId: "u1", totalParts, nextPart, chunkSize };
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    requests.push(`${request.method} ${request.url} ${request.headers.range ?? ""}`.trim());
    if (disturb(request, response, requests.length)) return;
    const pieces: Buffer[] = [];
    try {
      for await (const piece of request) pieces.push(piece as Buffer);
    } catch {
      // The worker has gone away in the middle.
      return;
    }
    const body = Buffer.concat(pieces);
    const send = (value: object, status = 200) => response.writeHead(status).end(JSON.stringify(value));
    const url = request.url ?? "";
    if (request.headers.authorization !== "Bearer secret") return send({ error: "E.AUTH.FORBIDDEN", message: "no" }, 403);
    if (url === "/api/v1/resources/uploads") {
      begun = JSON.parse(body.toString("utf8"));
      return send(state(), 201);
    }
    if (url === "/api/v1/resources/uploads/u1") return send(state());
    if (url === "/api/v1/resources/uploads/u1/complete") {
      content = Buffer.concat([...parts].sort(([one], [other]) => one - other).map(([, bytes]) => bytes));
      return send(describeFile());
    }
    if (url.includes("/parts/")) {
      parts.set(Number(url.split("/").at(-1)), body);
      return send(state());
    }
    if (url === "/api/v1/resources/f1") return send(describeFile());
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    return response.writeHead(206).end(content.subarray(from));
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const keep = (bytes: Buffer, metadata: unknown = { workerFile: {} }) => {
    content = bytes;
    begun = { sizeBytes: bytes.length, filename: "f.bin", metadata, visibility: "public" };
  };
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { origin, requests, keep, begun: () => begun, content: () => content };
}

function openTransfers(origins: readonly [string, ...string[]], authorization = "Bearer secret") {
  const folder = mkdtempSync(path.join(tmpdir(), "transfer-"));
  endings.push(() => rmSync(folder, { recursive: true, force: true }));
  const pauses: number[] = [];
  const files = new SchedulerFiles(
    {
      endpoint: () => ({ origins, authorization }),
      random: () => 1,
      after(ms, call) {
        pauses.push(ms);
        setImmediate(call);
        return () => {};
      },
    },
    { ...fileTransferLimits, partBytes: chunkSize, failuresMax: 4 },
  );
  const makeFile = (bytes: Uint8Array) => {
    const file = path.join(folder, "sent");
    writeFileSync(file, bytes);
    return file;
  };
  const upload = (file: string) => files.transfer({ type: "upload", path: file, workerName: "box", filename: "f.bin" });
  const target = path.join(folder, "received");
  const download = (bytesMax = 1e9) => files.transfer({ type: "download", path: target, resourceId: "f1", bytesMax });
  return { makeFile, upload, download, target, pauses };
}

describe("files between a worker and its scheduler", () => {
  it("[W1045] a file is sent in parts, and one that is interrupted continues with the part that is missing", async () => {
    const bytes = randomBytes(3.5 * chunkSize);
    let cuts = 0;
    const store = await openFileStore((request, response) => {
      if (request.url?.endsWith("/parts/1") !== true || cuts === 2) return false;
      cuts++;
      // Once in the middle of the body, once by an answer that says so.
      if (cuts === 1) request.once("data", () => request.destroy());
      else response.writeHead(503).end(JSON.stringify({ error: "E.STORE.BUSY", message: "later" }));
      return true;
    });
    const { makeFile, upload, pauses } = openTransfers([store.origin]);

    const stored = await upload(makeFile(bytes));

    expect(stored).toMatchObject({ resourceId: "f1", sizeBytes: bytes.length, sha256: sha256(bytes) });
    expect(stored.downloadUrl).toBe("/api/v1/resources/f1/download");
    expect(store.content().equals(bytes)).toBe(true);
    expect(store.begun()).toMatchObject({ visibility: "public", metadata: { workerFile: { workerName: "box" } } });
    expect(store.requests.filter((one) => one.startsWith("PUT")).map((one) => one.slice(-1))).toEqual([
      "0",
      "1",
      "1",
      "1",
      "2",
      "3",
    ]);
    expect(pauses).toEqual([200, 400]);
  });

  it("[W1045] a part that arrived although its answer was lost is not sent again", async () => {
    const bytes = randomBytes(2 * chunkSize);
    let isLost = false;
    const store = await openFileStore((request, response) => {
      if (request.url?.endsWith("/parts/0") !== true || isLost) return false;
      isLost = true;
      response.writeHead = () => {
        request.destroy();
        return response;
      };
      return false;
    });
    const { makeFile, upload } = openTransfers([store.origin]);

    await upload(makeFile(bytes));

    expect(store.requests.filter((one) => one.startsWith("PUT")).map((one) => one.slice(-1))).toEqual(["0", "1"]);
    expect(store.content().equals(bytes)).toBe(true);
  });

  it("[W1046] a download continues behind the bytes that it has, and is compared with the digest of the file", async () => {
    const bytes = randomBytes(300_000);
    let cuts = 0;
    let received = () => 0;
    const store = await openFileStore((request, response) => {
      if (request.url?.endsWith("/download") !== true || cuts === 1) return false;
      cuts++;
      response.writeHead(206, { "content-length": bytes.length });
      response.write(bytes.subarray(0, 100_000));
      // What is still on its way would be lost with the connection.
      const cut = (): unknown => (received() < 100_000 ? setImmediate(cut) : request.socket.destroy());
      cut();
      return true;
    });
    store.keep(bytes);
    const { download, target } = openTransfers([store.origin]);
    received = () => (existsSync(target) ? statSync(target).size : 0);

    await download();

    expect(readFileSync(target).equals(bytes)).toBe(true);
    expect(store.requests.slice(1)).toEqual([
      "GET /api/v1/resources/f1/download bytes=0-",
      "GET /api/v1/resources/f1/download bytes=100000-",
    ]);
  });

  it("[W1046] a download with other bytes than its digest says leaves nothing and fails with E.RESOURCE.DIGEST", async () => {
    const store = await openFileStore((request, response) => {
      if (request.url?.endsWith("/download") !== true) return false;
      response.writeHead(206).end("not the same file");
      return true;
    });
    store.keep(Buffer.from("the file as it is"));
    const { download, target } = openTransfers([store.origin]);

    await expect(download()).rejects.toMatchObject({ code: "E.RESOURCE.DIGEST" });
    expect(existsSync(target)).toBe(false);
  });

  it("[W1047] a worker fetches only files that workers have left, and none larger than it can keep", async () => {
    const store = await openFileStore();
    const { download, target } = openTransfers([store.origin]);

    for (const metadata of [null, {}, { note: "a person's own" }]) {
      store.keep(Buffer.from("a person's own"), metadata);
      await expect(download()).rejects.toMatchObject({ code: "E.AUTH.FORBIDDEN" });
    }
    store.keep(Buffer.from("large"));
    await expect(download(4)).rejects.toMatchObject({ code: "E.RESOURCE.FULL" });
    expect(existsSync(target)).toBe(false);
  });

  it("[W1048] a transfer that is refused fails at once with the code of the refusal, and one that breaks again and again after some tries", async () => {
    const store = await openFileStore();
    const refused = openTransfers([store.origin], "Bearer wrong");
    const gone = openTransfers(["http://127.0.0.1:1"]);

    await expect(refused.upload(refused.makeFile(Buffer.from("x")))).rejects.toMatchObject({ code: "E.AUTH.FORBIDDEN" });
    await expect(gone.upload(gone.makeFile(Buffer.from("x")))).rejects.toThrow(
      /4 tries in a row failed, the last one because http/,
    );
    await expect(refused.upload(refused.makeFile(Buffer.alloc(0)))).rejects.toMatchObject({ code: "E.PARAMS.INVALID" });

    expect(refused.pauses).toEqual([]);
    expect(gone.pauses).toEqual([200, 400, 800]);
  });

  it("[W1048] a transfer goes on with the next replica where one cannot be reached", async () => {
    const store = await openFileStore();
    const { makeFile, upload } = openTransfers(["http://127.0.0.1:1", store.origin]);

    expect(await upload(makeFile(Buffer.from("hello")))).toMatchObject({ sizeBytes: 5 });
  });
});
