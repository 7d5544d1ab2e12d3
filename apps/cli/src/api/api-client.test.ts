import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { exitCodes } from "../output/cli-failure.ts";
import { createCliClient } from "./api-client.ts";
import { resolveApiEndpoint } from "./api-endpoint.ts";

const cleaning: (() => void)[] = [];
afterEach(() => {
  for (const clean of cleaning.splice(0)) clean();
});

async function serve(
  status: number,
  body: string,
  logRequest: (headers: Record<string, unknown>) => void = () => undefined,
): Promise<string> {
  const server = createServer((request, response) => {
    logRequest(request.headers);
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleaning.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it("[L3] the CLI takes the scheduler's address and token from flags, then the environment, then defaults for a local scheduler", () => {
  expect(resolveApiEndpoint({}, {})).toEqual({ url: "http://127.0.0.1:8080", token: "dev-token" });
  expect(resolveApiEndpoint({}, { ASTRA_URL: "http://10.0.0.1:1/", ASTRA_TOKEN: "t" })).toEqual({
    url: "http://10.0.0.1:1",
    token: "t",
  });
  expect(resolveApiEndpoint({ url: "https://a.example" }, { ASTRA_URL: "http://b" }).url).toBe("https://a.example");
});

it("[L3] an endpoint error names the flag or variable of each bad value, and a misspelt variable gets a warning with the right name", () => {
  const warnings: string[] = [];

  expect(() => resolveApiEndpoint({ token: "s3cret" }, { ASTRA_URL: "8080" })).toThrow(
    /^ASTRA_URL is not .* --token must not hold/,
  );
  expect(resolveApiEndpoint({}, { ASTRA_TOKN: "t", ASTRA_WORKER_POOL: "p" }, (line) => warnings.push(line)).token).toBe(
    "dev-token",
  );
  expect(warnings).toEqual([expect.stringMatching(/^ASTRA_TOKN is not a setting .*did you mean ASTRA_TOKEN/)]);
});

it("[L3] the CLI never sends the published dev token to another machine by default", () => {
  expect(resolveApiEndpoint({ url: "https://a.example" }, {}).token).toBe("");
});

it("[L3] the CLI takes a token from a file or the environment, never from the command line itself", () => {
  const folder = mkdtempSync(join(tmpdir(), "astra-cli-"));
  cleaning.push(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "token"), "s3cret\n");

  expect(resolveApiEndpoint({ token: `@${join(folder, "token")}` }, {}).token).toBe("s3cret");
  expect(() => resolveApiEndpoint({ token: "s3cret" }, {})).toThrow(/can be read by everyone/);
  expect(() => resolveApiEndpoint({ token: "@/nowhere/at/all" }, {})).toThrow(/cannot be read/);
  expect(() => resolveApiEndpoint({ url: "8080" }, {})).toThrow(/not a valid scheduler URL/);
});

it("[L3] the CLI sends the first line of a token file with a new and an old secret, and refuses an empty or malformed token", () => {
  const folder = mkdtempSync(join(tmpdir(), "astra-cli-"));
  cleaning.push(() => rmSync(folder, { recursive: true }));
  const write = (text: string): string => {
    writeFileSync(join(folder, "token"), text);
    return `@${join(folder, "token")}`;
  };

  expect(resolveApiEndpoint({ token: write("\nnew-one \r\nold-one\n") }, {}).token).toBe("new-one");
  expect(() => resolveApiEndpoint({ token: write("\n") }, {})).toThrow(/token file that is empty/);
  expect(() => resolveApiEndpoint({ token: write("two words") }, {})).toThrow(/^--token is not a valid token/);
  expect(() => resolveApiEndpoint({}, { ASTRA_TOKEN: "new\nold" })).toThrow(/^ASTRA_TOKEN is not a valid token/);
});

it("[L3] the CLI takes the CA of an https scheduler from --ca, then ASTRA_CA, and it must be a certificate", () => {
  const folder = mkdtempSync(join(tmpdir(), "astra-cli-"));
  cleaning.push(() => rmSync(folder, { recursive: true }));
  const [one, two] = ["one", "two"].map((word) => `-----BEGIN CERTIFICATE-----\n${word}\n-----END CERTIFICATE-----\n`);
  writeFileSync(join(folder, "one"), one ?? "");
  writeFileSync(join(folder, "two"), two ?? "");
  writeFileSync(join(folder, "none"), "-----BEGIN PRIVATE KEY-----\nsecret\n");
  const env = { ASTRA_CA: join(folder, "one") };

  expect(resolveApiEndpoint({}, env)).toMatchObject({ caCertificate: one });
  expect(resolveApiEndpoint({ ca: join(folder, "two") }, env)).toMatchObject({ caCertificate: two });
  expect(() => resolveApiEndpoint({ ca: join(folder, "none") }, {})).toThrow(/contains no PEM certificate/);
  expect(() => resolveApiEndpoint({ ca: "/nowhere/at/all" }, {})).toThrow(/--ca cannot be read/);
});

it("[L2] the error for an unreachable scheduler contains its address and suggests astra up", async () => {
  const url = await serve(200, "{}");
  for (const clean of cleaning.splice(0)) clean();

  await expect(createCliClient({ url, token: "t" }).getRun({ runId: "x" })).rejects.toMatchObject({
    exitCode: exitCodes.unreachable,
    message: expect.stringContaining(url),
    suggestedCommand: "astra up",
  });
});

it("[L2] the error for an address that closes plain HTTP connections suggests that it may need https", async () => {
  const server = createTcpServer((socket) => socket.on("data", () => socket.end()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleaning.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  await expect(createCliClient({ url, token: "t" }).getRun({ runId: "x" })).rejects.toThrow(
    /If it uses TLS, its URL begins with https:/,
  );
});

it("[L2] the error for a scheduler that does not answer in time reports a timeout, not an absent scheduler", async () => {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleaning.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  await expect(createCliClient({ url, token: "t" }, { waitMs: 1 }).listRuns({ limit: 1 })).rejects.toMatchObject({
    exitCode: exitCodes.unreachable,
    message: expect.stringMatching(/did not answer within 0\.001 s/),
    suggestedCommand: `curl ${url}/readyz`,
  });
});

it("[L2] [L56] the CLI keeps the scheduler's own error code on a refusal, and reports a server that is not a scheduler as such", async () => {
  const refusing = await serve(409, JSON.stringify({ error: "E.RUN.TERMINAL", message: "run x has ended" }));
  const foreign = await serve(200, "<html>");
  const elsewhere = await serve(404, "<html>");

  await expect(createCliClient({ url: elsewhere, token: "t" }).getRun({ runId: "x" })).rejects.toMatchObject({
    exitCode: exitCodes.unreachable,
    message: expect.stringMatching(/is not an AstraFlow scheduler \(HTTP 404\)/),
  });

  await expect(createCliClient({ url: refusing, token: "t" }).cancelRun({ runId: "x" })).rejects.toMatchObject({
    exitCode: 6,
    body: { error: "E.RUN.TERMINAL" },
  });
  await expect(createCliClient({ url: foreign, token: "t" }).getRun({ runId: "x" })).rejects.toThrow(/the response is not JSON/);
});

it("[L3] a CLI request carries the bearer token, the idempotency key and a JSON content type", async () => {
  const seen: Record<string, unknown>[] = [];
  const url = await serve(202, "{}", (headers) => seen.push(headers));

  await createCliClient({ url, token: "tok" }).startRun({ body: { clientId: "c" } }, { key: "key-1" });

  expect(seen[0]).toMatchObject({ authorization: "Bearer tok", "idempotency-key": "key-1", "content-type": "application/json" });
});
