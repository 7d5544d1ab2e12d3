import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findRunningInstallation, noteInstallation, removeNote } from "./running-installation.ts";

let folder = "";
let http = "";
let server: Server;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "up-"));
  server = createServer((_, response) => void response.end("ok"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  http = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  rmSync(folder, { recursive: true });
  server.close();
});

it("[L913] a note counts only while its process lives and its address answers, and is removed by its own process only", async () => {
  const own = { pid: process.pid, http };
  expect(await findRunningInstallation(folder)).toBeNull();

  noteInstallation(folder, own);
  expect(await findRunningInstallation(folder)).toEqual(own);
  removeNote(folder, process.pid + 1);
  expect(await findRunningInstallation(folder)).toEqual(own);

  noteInstallation(folder, { ...own, http: "http://127.0.0.1:1" });
  expect(await findRunningInstallation(folder)).toBeNull();
  noteInstallation(folder, { ...own, pid: 2 ** 22 + 1 });
  expect(await findRunningInstallation(folder)).toBeNull();
  for (const broken of ["", "{", "[]", '{"pid":"1","http":7}', '{"pid":-1,"http":"x"}']) {
    writeFileSync(join(folder, "up.json"), broken);
    expect(await findRunningInstallation(folder)).toBeNull();
  }

  noteInstallation(folder, own);
  removeNote(folder, process.pid);
  expect(await findRunningInstallation(folder)).toBeNull();
});
