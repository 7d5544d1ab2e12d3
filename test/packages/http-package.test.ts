// The package `http` in a real child host, against real servers on this machine.

import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { sha256Hex } from "@astraflow/archive";
import { classifyIpAddress } from "@astraflow/protocol";
import { describe, expect, it, onTestFinished } from "vitest";
import { ExamplePackage, importExample } from "./harness/example-package.ts";

interface SeenRequest extends Pick<IncomingMessage, "method" | "url" | "headers"> {
  readonly body: string;
}

/** A server that remembers what it was sent. */
async function serve(answer: RequestListener) {
  const seen: SeenRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      answer(request, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { seen, port, host: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}` };
}

const answerJson = (value: unknown): RequestListener => {
  return (_, response) => response.setHeader("content-type", "application/json").end(JSON.stringify(value));
};

/** The package at a worker whose operator allows the servers of this test. */
const openHttp = (hosts: readonly string[], env: Record<string, string> = {}) =>
  ExamplePackage.open("http", { HTTP_PACKAGE_PRIVATE_HOSTS: hosts.join(","), ...env });

const secretPart = (value: string) => ({
  __resourceBindings: {
    authorization: { resourceId: "r", type: "secret", filename: "s", mimeType: null, sizeBytes: 1, metadata: null, value },
  },
});

describe("http.request", () => {
  it("[W1350] a request has the method, query, headers and the one body of its parameters, and its JSON answer is a value", async () => {
    const server = await serve(answerJson({ id: 7 }));
    const http = await openHttp([server.host]);
    const base = { method: "POST", url: `${server.url}/a?x=1`, query: { y: "two words" }, headers: { "X-Team": "blue" } };

    const { result } = await http.run("http.request", { ...base, json: { name: "ada" } });
    await http.run("http.request", { ...base, text: "plain" });
    await http.run("http.request", { ...base, form: { a: "1 2", b: true } });

    expect(result).toMatchObject({ statusCode: 200, body: { id: 7 }, file: null, redirects: 0 });
    expect(server.seen.map(({ body, headers }) => [headers["content-type"], body])).toEqual([
      ["application/json", '{"name":"ada"}'],
      ["text/plain; charset=utf-8", "plain"],
      ["application/x-www-form-urlencoded", "a=1+2&b=true"],
    ]);
    expect(server.seen[0]).toMatchObject({ method: "POST", url: "/a?x=1&y=two+words", headers: { "x-team": "blue" } });
    expect(server.seen[0]?.headers["idempotency-key"]).toBe("task-0");
  });

  it("[W1350] a large or binary answer, and one that is wanted as a file, is stored, and text stays text", async () => {
    const large = "x".repeat(300_000);
    const server = await serve((request, response) => {
      if (request.url === "/large.txt") return response.setHeader("content-type", "text/plain").end(large);
      if (request.url === "/logo.png") return response.setHeader("content-type", "image/png").end(Buffer.from([1, 2]));
      return response.setHeader("content-type", "text/html").end("<p>hi</p>");
    });
    const http = await openHttp([server.host]);
    const get = (path: string, more = {}) => http.run("http.request", { url: server.url + path, ...more });

    const [text, big, image, wanted] = [
      await get("/page"),
      await get("/large.txt"),
      await get("/logo.png"),
      await get("/page", { response: "artifact", filename: "page.html" }),
    ];

    expect(text.result).toMatchObject({ body: "<p>hi</p>", file: null });
    expect(big.result).toMatchObject({ body: null, file: { filename: "large.txt", sizeBytes: 300_000 } });
    expect(http.readStored(big.result["file"]).toString()).toBe(large);
    expect(image.result).toMatchObject({ body: null, file: { filename: "logo.png", sizeBytes: 2 } });
    expect(wanted.result).toMatchObject({ file: { filename: "page.html", sizeBytes: 9 } });
    expect(wanted.artifacts).toHaveLength(1);
  });

  it.each([
    [429, "E.RUNNER.FAILURE"],
    [503, "E.RUNNER.FAILURE"],
    [404, "E.RUNNER.REFUSED"],
    [401, "E.RUNNER.REFUSED"],
  ])("[W1351] status %i fails the task with %s, the status and the beginning of the answer", async (status, code) => {
    const server = await serve((_, response) => response.writeHead(status, { "retry-after": "7" }).end("no such\n thing"));
    const http = await openHttp([server.host]);
    const url = `${server.url}/a?key=hidden`;

    const failed = http.run("http.request", { url });

    await expect(failed).rejects.toMatchObject({
      code,
      message: `GET ${server.url}/a answered ${status}, expected 2xx; it asks to wait (Retry-After: 7): no such thing`,
    });
    expect(await http.result("http.request", { url, expectStatus: ["2xx", String(status)] })).toMatchObject({
      statusCode: status,
    });
  });

  const wrongParams = [
    ["a scheme other than http", { url: "file:///etc/passwd" }, "url must begin with http: or https:, not file:"],
    ["a password in the address", { url: "http://ann:secret@a.example/" }, "url must not hold a user name or password"],
    ["two bodies", { url: "http://a.example/", text: "a", json: 1 }, "one body, but json and text are set"],
    ["a header of the connection", { url: "http://a.example/", headers: { Host: "b" } }, "headers must not set host"],
  ] as const;

  it("[W1357] another scheme, a password in the address, two bodies and headers of the connection are E.PARAMS.INVALID before anything is sent", async () => {
    const http = await openHttp([]);

    for (const [what, params, message] of wrongParams) {
      const thrown: unknown = await http.run("http.request", params).catch((failed: unknown) => failed);
      expect([what, thrown]).toMatchObject([what, { code: "E.PARAMS.INVALID", message: expect.stringContaining(message) }]);
    }
  });
});

describe("where requests may go", () => {
  it("[W1352] an address that is not public is refused, also behind a name and behind a redirect, unless its host and port are listed", async () => {
    const target = await serve(answerJson({ secret: true }));
    const server = await serve((request, response) => {
      const to = request.url === "/by-name" ? `http://localhost:${target.port}/` : `${target.url}/`;
      response.writeHead(302, { location: to }).end();
    });
    const http = await openHttp([server.host]);
    const get = (url: string) => http.run("http.request", { url });
    const refused = {
      code: "E.RUNNER.REFUSED",
      message: expect.stringContaining("is not a public address; the worker's HTTP_PA"),
    };

    await expect(get(target.url)).rejects.toMatchObject(refused);
    await expect(get(`http://[::ffff:127.0.0.1]:${target.port}/`)).rejects.toMatchObject(refused);
    await expect(get(`http://localhost:${target.port}/`)).rejects.toMatchObject(refused);
    await expect(get(`${server.url}/by-address`)).rejects.toMatchObject(refused);
    await expect(get(`${server.url}/by-name`)).rejects.toMatchObject(refused);
    expect(target.seen).toEqual([]);

    const open = await openHttp([server.host, target.host]);
    expect(await open.result("http.request", { url: `${server.url}/by-address` })).toMatchObject({
      body: { secret: true },
      url: `${target.url}/`,
      redirects: 1,
    });
  });

  it("[W1352] the package takes no address for public that the scheduler does not", async () => {
    const { isPublicAddress } = (await importExample("http", "addresses.ts")) as { isPublicAddress(address: string): boolean };
    const first = ["0", "9", "10", "11", "100", "126", "127", "128", "169", "172", "192", "198", "203", "223", "224", "255"];
    const second = ["0", "15", "16", "18", "20", "31", "32", "51", "63", "64", "88", "127", "128", "168", "254"];
    const ipv4 = first.flatMap((a) => second.flatMap((b) => ["0", "2", "99", "100", "113"].map((c) => `${a}.${b}.${c}.1`)));
    const heads = [
      "::",
      "::1",
      "64:ff9b::a00:1",
      "64:ff9b:1::1",
      "100::1",
      "2001::1",
      "2001:200::1",
      "2001:db8::1",
      "2002:a00:1::",
    ];
    const ipv6 = [
      ...heads,
      "2606:4700::1",
      "3fff::1",
      "4000::1",
      "fc00::1",
      "fdff::1",
      "fe80::1%eth0",
      "fec0::1",
      "ff02::1",
      "::ffff:a00:1",
    ];

    const wrong = [...ipv4, ...ipv6].filter((one) => isPublicAddress(one) && classifyIpAddress(one) !== "public");

    expect(wrong).toEqual([]);
    expect(ipv4.filter((one) => isPublicAddress(one) !== (classifyIpAddress(one) === "public"))).toEqual([]);
    expect(["2606:4700::1", "2001:200::1"].every(isPublicAddress)).toBe(true);
    expect(["", "localhost", "1.2.3"].some(isPublicAddress)).toBe(false);
  });

  it("[W1354] the granted secret goes to a listed origin only, and not along with a redirect to another", async () => {
    const other = await serve(answerJson({}));
    const server = await serve((request, response) =>
      request.url === "/away"
        ? response.writeHead(307, { location: other.url }).end()
        : response.end(request.headers.authorization),
    );
    const http = await openHttp([server.host, other.host], { HTTP_PACKAGE_SECRET_ORIGINS: server.url });
    const token = "an-api-token-of-ann";
    const ask = (url: string, auth: string, part: object = secretPart(token)) => http.result("http.request", { url, auth }, part);

    const echoed = await ask(server.url, "bearer");
    await ask(server.url, "basic");
    await ask(`${server.url}/away`, "raw");

    expect(server.seen.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${token}`,
      `Basic ${Buffer.from(token).toString("base64")}`,
      token,
    ]);
    expect(echoed["body"]).toBe("Bearer ***");
    expect(other.seen.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    await expect(ask(other.url, "bearer")).rejects.toMatchObject({
      code: "E.RUNNER.REFUSED",
      message: `the granted secret is not for ${other.url}; the worker's HTTP_PACKAGE_SECRET_ORIGINS lists the origins it is for`,
    });
    await expect(ask(server.url, "bearer", {})).rejects.toMatchObject({
      code: "E.RUNNER.REFUSED",
      message: expect.stringContaining("no secret is granted to the package http under the key authorization"),
    });
  });
});

describe("limits of requests", () => {
  it("[W1353] a server that does not answer, or not completely, ends the task with E.TIMEOUT", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/half") response.writeHead(200, { "content-type": "text/plain" }).write("half");
    });
    const http = await openHttp([server.host]);

    for (const path of ["/never", "/half"])
      await expect(http.run("http.request", { url: server.url + path, timeoutMs: 300 })).rejects.toMatchObject({
        code: "E.TIMEOUT",
        message: `GET ${server.url}${path} took more than 300 ms`,
      });
  });

  it("[W1353] a body above its limit is refused, by its announced length, as it arrives, and when it is decompressed", async () => {
    const server = await serve((request, response) => {
      response.setHeader("content-type", "text/plain");
      if (request.url === "/announced") return response.end("x".repeat(2_000));
      if (request.url === "/packed") return response.setHeader("content-encoding", "gzip").end(gzipSync("x".repeat(1_000_000)));
      response.write("x".repeat(1_500));
      return response.end("x".repeat(1_500));
    });
    const http = await openHttp([server.host]);

    for (const path of ["/announced", "/streamed", "/packed"])
      await expect(http.run("http.request", { url: server.url + path, maxBytes: 1_000, response: "text" })).rejects.toMatchObject(
        {
          code: "E.RUNNER.REFUSED",
          message: expect.stringContaining("has more than 1000 bytes; raise maxBytes"),
        },
      );
    const whole = await http.result("http.request", { url: `${server.url}/packed`, maxBytes: 1_000_000, response: "text" });
    expect(whole["body"]).toBe("x".repeat(1_000_000));
  });

  it("[W1353] redirects are followed as often as allowed, a POST that is redirected elsewhere becomes a GET, and with 0 the redirect is the answer", async () => {
    const server = await serve((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) return response.setHeader("content-type", "text/plain").end("here");
      return response.writeHead(302, { location: `/${left - 1}` }).end();
    });
    const http = await openHttp([server.host]);
    const post = { method: "POST", json: {}, redirects: 2 };

    const found = await http.result("http.request", { ...post, url: `${server.url}/2` });

    expect(found).toMatchObject({ body: "here", redirects: 2 });
    expect(server.seen.map(({ method, body }) => `${method} ${body}`)).toEqual(["POST {}", "GET ", "GET "]);
    await expect(http.run("http.request", { ...post, url: `${server.url}/3` })).rejects.toMatchObject({
      code: "E.RUNNER.REFUSED",
      message: `${server.url}/3 redirects more than 2 times`,
    });
    const kept = await http.result("http.request", { url: `${server.url}/1`, redirects: 0, expectStatus: ["302"] });
    expect(kept).toMatchObject({ statusCode: 302, headers: { location: "/0" } });
  });

  it("[W1353] a cancelled task ends its request", async () => {
    const [received, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const server = await serve((_, response) => {
      response.once("close", closed.resolve);
      received.resolve();
    });
    const http = await openHttp([server.host]);
    const task = http.start("http.request", { url: server.url });
    await received.promise;

    await http.cancel(task);

    await closed.promise;
    await expect(http.end(task, "http.request")).rejects.toThrow("cancelled");
  });
});

describe("http.download and http.wait_for", () => {
  const bytes = Buffer.alloc(3 * 1024 * 1024, "astra");

  it("[W1355] a download is stored with its SHA-256 and name, and reports how far it is", async () => {
    const server = await serve((_, response) => response.setHeader("content-length", bytes.length).end(bytes));
    const http = await openHttp([server.host]);
    const sha256 = sha256Hex(bytes);

    const { result, artifacts } = await http.run("http.download", { url: `${server.url}/data/set.bin`, sha256 });

    expect(result).toMatchObject({ sha256, sizeBytes: bytes.length, file: { filename: "set.bin", sha256 } });
    expect(http.readStored(result["file"]).equals(bytes)).toBe(true);
    expect(artifacts).toHaveLength(1);
    const shares = http.feedback.flatMap(({ input }) => (input.stage === "downloading" ? [input.progress ?? 0] : []));
    expect(shares.at(-1)).toBe(1);
    expect(shares.length).toBeGreaterThan(2);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));
  });

  it("[W1355] a download with another SHA-256 than expected fails with E.RESOURCE.DIGEST, and one that breaks off with E.RUNNER.FAILURE", async () => {
    const server = await serve((request, response) => {
      response.setHeader("content-length", bytes.length);
      if (request.url !== "/broken") return response.end(bytes);
      response.write(bytes.subarray(0, 1_000));
      return setImmediate(() => request.socket.destroy());
    });
    const http = await openHttp([server.host]);

    await expect(http.run("http.download", { url: server.url, sha256: "0".repeat(64) })).rejects.toMatchObject({
      code: "E.RESOURCE.DIGEST",
      message: `${server.url}/ has the SHA-256 ${sha256Hex(bytes)}, not ${"0".repeat(64)}`,
    });
    await expect(http.run("http.download", { url: `${server.url}/broken` })).rejects.toMatchObject({ code: "E.RUNNER.FAILURE" });
  });

  it("[W1356] waiting asks until the value at a path is the wanted one, reports each answer, and survives errors in between", async () => {
    let asked = 0;
    const server = await serve((request, response) => {
      asked++;
      if (asked === 1) return request.socket.destroy();
      if (asked === 2) return response.writeHead(503).end();
      return answerJson({ jobs: [{ state: asked < 5 ? "running" : "done" }] })(request, response);
    });
    const http = await openHttp([server.host]);

    const result = await http.result("http.wait_for", { url: server.url, path: "jobs.0.state", equals: "done", intervalMs: 10 });

    expect(result).toMatchObject({ polls: 5, statusCode: 200, body: { jobs: [{ state: "done" }] } });
    const messages = http.feedback.map(({ input }) => input.message ?? "");
    expect(messages[1]).toBe("2. answer: status 503");
    expect(messages.at(-1)).toBe('4. answer: jobs.0.state is "running"');
  });

  it("[W1356] waiting ends with E.TIMEOUT and the last answer, and at once where the address is refused", async () => {
    const server = await serve((_, response) => response.setHeader("content-type", "text/plain").end("not ready"));
    const http = await openHttp([server.host]);
    const wait = { url: server.url, contains: "all ready", intervalMs: 10, timeoutMs: 400 };

    await expect(http.run("http.wait_for", wait)).rejects.toMatchObject({
      code: "E.TIMEOUT",
      message: `${server.url}/ did not become what was waited for; the last answer: the text is not in it`,
    });
    expect(await http.result("http.wait_for", { ...wait, contains: "ready" })).toMatchObject({ polls: 1, body: "not ready" });
    await expect(http.run("http.wait_for", { ...wait, url: "http://127.0.0.1:1/" })).rejects.toMatchObject({
      code: "E.RUNNER.REFUSED",
    });
  });
});
