import { existsSync, readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo, LookupFunction } from "node:net";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PackageRepository, sha256 } from "../testing/package-repository.ts";
import { type InstallLimits, installLimits } from "./install-settings.ts";
import { type DownloadOptions, downloadFile } from "./package-download.ts";

let repository: PackageRepository;
let count = 0;
beforeEach(async () => {
  repository = await PackageRepository.open();
});
afterEach(() => repository.close());

const limited = (limits: Partial<InstallLimits>): InstallLimits => ({ ...installLimits, ...limits });
function download(address: string, options: Partial<DownloadOptions> = {}) {
  const file = path.join(repository.root, `file-${count++}`);
  const all = { allowedOrigins: [repository.origin], limits: installLimits, ...options };
  return downloadFile(address.startsWith("/") ? `${repository.origin}${address}` : address, file, all).then((result) => ({
    ...result,
    file,
  }));
}

describe("where packages may be downloaded from", () => {
  it.each([
    ["file:///etc/passwd", "not fetched by file:"],
    ["ftp://example.com/a", "not fetched by ftp:"],
    ["no url", "is not a URL"],
    ["http://example.com/a", "is not https"],
    ["https://user:secret@example.com/a", "a user or a password"],
    ["https://127.0.0.1/a", "loopback address"],
    ["https://2130706433/a", "127.0.0.1 is a loopback"],
    ["https://0177.0.0.1/a", "127.0.0.1 is a loopback"],
    ["https://0x7f.1/a", "127.0.0.1 is a loopback"],
    ["https://169.254.169.254/latest/meta-data", "link-local"],
    ["https://10.1.2.3/a", "private"],
    ["https://100.64.0.1/a", "private"],
    ["https://[::1]/a", "loopback"],
    ["https://[::ffff:127.0.0.1]/a", "loopback"],
    ["https://[64:ff9b::7f00:1]/a", "loopback"],
    ["https://[fe80::1]/a", "link-local"],
  ])("[W745] %s is refused with E.PKG.PERMISSION before anything is connected", async (address, reason) => {
    await expect(download(address)).rejects.toMatchObject({ code: "E.PKG.PERMISSION", message: expect.stringContaining(reason) });
  });

  it.each([["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:10.0.0.1"]])(
    "[W745] a name that resolves to %s is refused where the socket connects, whatever else it resolves to",
    async (address) => {
      const asked: string[] = [];
      const lookup: LookupFunction = (hostname, options, callback) => {
        asked.push(hostname);
        const family = address.includes(":") ? 6 : 4;
        if (options.all)
          callback(null, [
            { address: "93.184.216.34", family: 4 },
            { address, family },
          ]);
        else callback(null, address, family);
      };

      const refusal = download("https://packages.example.com/a.cwx", { lookup });

      await expect(refusal).rejects.toMatchObject({ code: "E.PKG.PERMISSION", message: expect.stringContaining(address) });
      expect(asked).toEqual(["packages.example.com"]);
    },
  );

  it("[W745] a redirect is judged like the address itself, credentials stay at their origin, and the fourth redirect is refused", async () => {
    const other = createServer((_, response) => response.end("secret of the network"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const otherOrigin = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const redirect =
      (to: string): RequestListener =>
      (_, response) =>
        response.writeHead(302, { location: to }).end();
    repository.files.set("/out", redirect(`${otherOrigin}/a`));
    for (const [from, to] of [
      [1, 2],
      [2, 3],
      [3, 4],
      [4, 5],
    ])
      repository.files.set(`/hop${from}`, redirect(`/hop${to}`));
    repository.files.set("/hop5", Buffer.from("far"));
    const authorization = { origin: repository.origin, value: "Bearer token" };

    await expect(download("/out", { authorization })).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });
    await expect(download("/hop1")).rejects.toThrow("redirects more than 3 times");
    const fetched = await download("/hop2", { authorization });
    other.close();

    expect(fetched.sha256).toBe(sha256("far"));
    expect(repository.requests.at(-1)).toBe("/hop5 Bearer token");
    await expect(download("/hop5", { authorization: { origin: otherOrigin, value: "Bearer other" } })).resolves.toMatchObject({
      bytes: 3,
    });
    expect(repository.requests.at(-1)).toBe("/hop5 -");
  });
});

describe("how much a download may cost", () => {
  it("[W746] a file is saved with its digest and size, and its progress is reported", async () => {
    const content = Buffer.alloc(300_000, "a");
    repository.files.set("/a", content);
    let last: unknown;

    const { file, ...fetched } = await download("/a", { progress: (bytes, total) => (last = [bytes, total]) });

    expect(fetched).toEqual({ sha256: sha256(content), bytes: content.length });
    expect(readFileSync(file)).toEqual(content);
    expect(last).toEqual([content.length, content.length]);
  });

  it.each<[string, RequestListener, string]>([
    [
      "announces too much",
      (_, response) => response.writeHead(200, { "content-length": 5_000_000 }).flushHeaders(),
      "larger than 1000 bytes",
    ],
    ["sends too much", (_, response) => void response.end(Buffer.alloc(5_000)), "larger than 1000 bytes"],
    [
      "sends less than it announces",
      (_, response) => void response.writeHead(200, { "content-length": 900 }).write("a", () => response.destroy()),
      "failed",
    ],
    ["is broken", (_, response) => void response.writeHead(500).end(), "answered 500"],
    [
      "sends something encoded",
      (_, response) => void response.writeHead(200, { "content-encoding": "gzip" }).end("x"),
      "encoded",
    ],
    ["never answers", () => {}, "nothing came for too long"],
    ["never ends", (_, response) => void response.writeHead(200).write("a"), "failed"],
  ])("[W746] a server that %s is given up with E.PKG.INVALID", async (_, listener, reason) => {
    repository.files.set("/a", listener);

    const refusal = download("/a", { limits: limited({ downloadBytesMax: 1_000, downloadIdleMsMax: 300 }) });

    await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID", message: expect.stringContaining(reason) });
  });

  it("[W746] a server that sends a byte now and then is given up, and so is a download that takes too long", async () => {
    const drip: RequestListener = (_, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write("a"), 20);
      response.on("close", () => clearInterval(timer));
    };
    repository.files.set("/a", drip);

    await expect(download("/a", { limits: limited({ downloadIdleMsMax: 1_000 }) })).rejects.toThrow(
      "less than 1024 bytes a second",
    );
    await expect(download("/a", { limits: limited({ downloadMsMax: 200 }) })).rejects.toThrow("took longer than 0.2 s");
    expect(existsSync(repository.packagesDir)).toBe(false);
  });
});
