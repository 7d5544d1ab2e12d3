import { generateKeyPairSync } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { buildPackage } from "./build-command.ts";
import { createPackage, signArchiveFile, verifyArchiveFile } from "./package-commands.ts";
import { packageRuntimes } from "./package-template.ts";

let root = "";
const inRoot = (name: string) => path.join(root, name);
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "packages-"));
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(inRoot("key.pem"), privateKey.export({ format: "pem", type: "pkcs8" }));
  writeFileSync(inRoot("public.pem"), publicKey.export({ format: "pem", type: "spki" }));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const { context } = createCommandFixture({}, { now: () => Date.UTC(2026, 0, 2) });
const buildContext = { ...context, env: process.env, stopSignal: context.signal };
const newPackage = (runtime: (typeof packageRuntimes)[number] = "python") =>
  createPackage(context, { folder: inRoot("tools"), name: "acme.tools", runtime });
const build = (out: string) => buildPackage(buildContext, { folder: inRoot("tools"), python: "python3", out: inRoot(out) });
const sign = (tenant = "default") =>
  signArchiveFile(context, { archive: inRoot("a.cwx"), key: inRoot("key.pem"), by: "Ann", tenant });
const verify = (more: { key?: string; tenant?: string } = { key: "public.pem" }) =>
  verifyArchiveFile(context, {
    archive: inRoot("a.cwx"),
    tenant: more.tenant ?? "default",
    ...(more.key !== undefined && { key: inRoot(more.key) }),
  });

describe("the commands of package authors", () => {
  it.each(packageRuntimes)(
    "[L740] packages new --runtime %s writes a package that builds, twice to the same bytes, and replaces no folder",
    async (runtime) => {
      expect(await newPackage(runtime)).toBe(0);
      expect(await build("a.cwx")).toBe(0);
      await build("b.cwx");

      expect(readFileSync(inRoot("a.cwx"))).toEqual(readFileSync(inRoot("b.cwx")));
      await expect(newPackage()).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringContaining("exists and is not changed"),
      });
      for (const name of ["manifest.json", "requirements.txt", "resources", "scripts", "adapters/acme_tools"])
        expect(existsSync(inRoot(`tools/${name}`))).toBe(true);
    },
  );

  it("[L741] packages build lists all problems of a package, and one without a manifest is refused", async () => {
    await newPackage();
    const manifest = JSON.parse(readFileSync(inRoot("tools/manifest.json"), "utf8")) as object;
    writeFileSync(
      inRoot("tools/manifest.json"),
      JSON.stringify({ ...manifest, hooks: { install: ["scripts/a.sh", "scripts/b.sh"] } }),
    );

    await expect(build("a.cwx")).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/hooks\.install\.0 .*\n.*hooks\.install\.1 /),
    });
    await expect(buildPackage(buildContext, { folder: root, python: "python3" })).rejects.toMatchObject({
      message: expect.stringContaining("has no manifest.json"),
    });
    expect(existsSync(inRoot("a.cwx"))).toBe(false);
  });

  it("[L910] packages build shows where a manifest is not JSON, and so does packages verify for a signature", async () => {
    await newPackage();
    writeFileSync(inRoot("tools/manifest.json"), '{\n  "name": "tools",\n}');
    const { message } = await build("a.cwx").then(
      () => ({ message: "built" }),
      (failure: Error) => failure,
    );

    expect(message.split("\n")).toEqual([
      `${inRoot("tools/manifest.json")}:2:18 is not JSON: no "," may stand before "}"`,
      '    "name": "tools",',
      "                   ^",
    ]);
    rmSync(inRoot("tools"), { recursive: true });
    await newPackage();
    await build("a.cwx");
    writeFileSync(inRoot("a.cwx.sig"), "{");
    await expect(verify()).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining("a.cwx.sig:1:2 is not JSON") });
  });

  it("[L742] packages sign fills the manifest's signature and writes a signature that packages verify accepts with its key alone", async () => {
    await newPackage();
    await build("a.cwx");
    await expect(verify()).rejects.toMatchObject({ exitCode: 4, message: expect.stringContaining("is not signed") });

    expect(await sign()).toBe(0);
    expect(await verify()).toBe(0);

    expect(JSON.parse(readFileSync(inRoot("a.cwx.sig"), "utf8"))).toMatchObject({
      signedBy: "Ann",
      signedAt: "2026-01-02T00:00:00.000Z",
      package: { name: "acme.tools", version: "0.1.0" },
    });
    expect(readFileSync(inRoot("a.cwx"), "latin1")).toContain('"signedBy": "Ann"');
    const other = generateKeyPairSync("ed25519").publicKey.export({ format: "pem", type: "spki" });
    writeFileSync(inRoot("other.pem"), other);
    await expect(verify({ key: "other.pem" })).rejects.toMatchObject({ message: expect.stringContaining("not trusted") });
    await expect(verify({ key: "public.pem", tenant: "acme" })).rejects.toMatchObject({
      message: expect.stringContaining("for tenant default"),
    });
    await sign("*");
    expect(await verify({ key: "public.pem", tenant: "acme" })).toBe(0);
  });

  it("[L742] packages verify refuses an archive that was changed, also without a key", async () => {
    await newPackage();
    await build("a.cwx");
    await sign();
    const bytes = readFileSync(inRoot("a.cwx"));
    bytes[40] = (bytes[40] ?? 0) ^ 1;
    writeFileSync(inRoot("a.cwx"), bytes);

    await expect(verify({})).rejects.toMatchObject({ exitCode: 2, body: { error: "E.PKG.INVALID" } });
  });

  it("[L740] [L741] [L742] the package commands print one JSON document each with --json", async () => {
    const { context: jsonContext, stdout } = createCommandFixture({}, { json: true, now: () => Date.UTC(2026, 0, 2) });
    const archive = inRoot("a.cwx");

    await createPackage(jsonContext, { folder: inRoot("tools"), name: "acme.tools", runtime: "node" });
    await buildPackage(
      { ...jsonContext, env: {}, stopSignal: jsonContext.signal },
      { folder: inRoot("tools"), python: "python3", out: archive },
    );
    await signArchiveFile(jsonContext, { archive, key: inRoot("key.pem"), by: "Ann", tenant: "default" });
    await verifyArchiveFile(jsonContext, { archive, tenant: "default", key: inRoot("public.pem") });

    const documents = stdout()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    expect(documents.map((document) => Object.keys(document))).toEqual([
      ["folder", "name", "runtime", "files"],
      ["archive", "name", "version", "sha256", "bytes", "files", "ignored", "isLockWritten"],
      ["format", "package", "tenant", "sha256", "bytes", "signedAt", "signedBy", "keyId", "ed25519"],
      ["name", "version", "sha256", "keyId", "isVerified"],
    ]);
  });
});
