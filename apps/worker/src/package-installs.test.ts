import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { type PackageRepository, packageFiles } from "@astraflow/runtime/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { InstallingWorkers } from "../test/installing-workers.ts";
import type { StubScheduler } from "../test/stub-scheduler.ts";

let workers: InstallingWorkers;
let repository: PackageRepository;
let door: StubScheduler;
let dataDir: string;
beforeEach(async () => {
  workers = await InstallingWorkers.open();
  ({ repository, door, dataDir } = workers);
});
afterEach(() => workers.close());

const trustingSettings = () => workers.trustingSettings();
const startWorker = (settings: readonly string[]) => workers.start(settings);
const nextOutcome = (command: string) => workers.nextOutcome(command);
const installed = () => path.join(dataDir, "packages/acme.tools");
const acme = { package_name: "acme.tools" };

describe("a worker that installs packages", () => {
  it("[W757] a package is installed at the scheduler's command, announced with its manifest, run without a restart beside another version, and removed", async () => {
    const { features, log } = await startWorker(trustingSettings());
    door.sendPackageCommand("biz.pkg.install", { ...repository.publish(packageFiles("1.0.0")), command_id: "c-1" });
    const first = await nextOutcome("c-1");
    door.sendPackageCommand("biz.pkg.install", { ...repository.publish(packageFiles("1.1.0")), command_id: "c-2" });
    await nextOutcome("c-2");

    const results = [door.nextFrame("biz.exec.result"), door.nextFrame("biz.exec.result")];
    door.dispatch("t1", "acme.greet", {}, { ...acme, package_version: "1.0.0" });
    door.dispatch("t2", "acme.greet", {}, { ...acme, package_version: "1.1.0" });
    const versions = (await Promise.all(results)).map(({ payload }) => [
      payload["task_id"],
      (payload["result"] as { version?: string }).version,
    ]);
    door.sendPackageCommand("biz.pkg.uninstall", { name: "acme.tools", version: "1.0.0", command_id: "c-3" });
    const removed = await nextOutcome("c-3");

    expect(features).toContain("pkg.install");
    expect(first).toMatchObject({ status: "installed", details: { signedBy: "Ann" } });
    const stages = door.receivedFrames.flatMap(({ payload }) =>
      payload["command_id"] === "c-1" && "stage" in payload ? [payload["stage"]] : [],
    );
    expect([...new Set(stages)]).toEqual([
      "download",
      "verify",
      "unpack",
      "dependencies",
      "resources",
      "hooks",
      "load",
      "publish",
    ]);
    expect(new Map(versions as [string, string][])).toEqual(
      new Map([
        ["t1", "1.0.0"],
        ["t2", "1.1.0"],
      ]),
    );
    expect(removed).toMatchObject({ status: "removed", version: "1.0.0" });
    expect(readdirSync(installed())).toEqual(["1.1.0"]);
    const catalogs = door.receivedFrames.filter(({ type }) => type === "biz.pkg.catalog");
    expect(catalogs.at(-1)?.payload["packages"]).toMatchObject([
      { name: "acme.tools", version: "1.1.0", manifest: { description: "Tools of Acme" } },
    ]);
    const line =
      log()
        .split("\n")
        .find((text) => text.includes("install of acme.tools 1.0.0 is done")) ?? "{}";
    expect(JSON.parse(line)).toMatchObject({
      level: 30,
      tenant: "default",
      "sender.id": expect.any(String),
      type: "biz.pkg.install",
      id: expect.any(String),
      corr: "c-1",
      seq: 0,
      code: "OK",
    });
    expect(log()).not.toContain("secret-token");
  }, 120_000);

  it("[W757] a worker that is killed in the middle of an install goes on with it after its restart and reports the end", async () => {
    const request = repository.publish(packageFiles("1.0.0"));
    const archive = repository.files.get("/acme.tools-1.0.0.cwx");
    const asked = Promise.withResolvers<void>();
    repository.files.set("/acme.tools-1.0.0.cwx", (_, response) => {
      response.writeHead(200).write("PK");
      asked.resolve();
    });
    const { child } = await startWorker(trustingSettings());
    door.sendPackageCommand("biz.pkg.install", { ...request, command_id: "c-1" });
    await asked.promise;
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    const leftovers = existsSync(path.join(dataDir, "packages/.staging"));
    repository.files.set("/acme.tools-1.0.0.cwx", archive as Uint8Array);

    await startWorker(trustingSettings());

    expect(await nextOutcome("c-1")).toMatchObject({ status: "installed" });
    expect(leftovers).toBe(true);
    expect(readdirSync(installed())).toEqual(["1.0.0"]);
    expect(readdirSync(path.join(dataDir, "packages/.staging"))).toEqual([]);
  }, 120_000);

  it("[W1102] a version whose adapter cannot be imported is not installed: its command fails with the import's message, nothing is left behind, and the reason is in the log", async () => {
    const { log } = await startWorker(trustingSettings());
    const broken = packageFiles("1.0.0", {}, { "main.mjs": 'import "module-that-is-not-there";' });
    door.sendPackageCommand("biz.pkg.install", { ...repository.publish(broken), command_id: "c-1" });

    expect(await nextOutcome("c-1")).toMatchObject({
      status: "failed",
      details: { code: "E.PKG.INVALID", reason: expect.stringContaining("Cannot find package 'module-that-is-not-there'") },
    });
    expect(existsSync(installed())).toBe(false);
    expect(readdirSync(path.join(dataDir, "packages/.staging"))).toEqual([]);
    expect(log()).toContain("Cannot find package 'module-that-is-not-there'");
    const catalogs = door.receivedFrames.filter(({ type }) => type === "biz.pkg.catalog");
    expect(JSON.stringify(catalogs)).not.toContain("acme.tools");
  }, 120_000);

  it("[W1102] a package in the folder that cannot be loaded when the packages change is a warning in the log, once", async () => {
    const { log } = await startWorker(trustingSettings());
    const broken = path.join(dataDir, "packages/broken");
    mkdirSync(broken, { recursive: true });
    writeFileSync(path.join(broken, "manifest.json"), "{");

    for (const version of ["1.0.0", "1.1.0"]) {
      const command_id = `c-${version}`;
      door.sendPackageCommand("biz.pkg.install", { ...repository.publish(packageFiles(version)), command_id });
      await nextOutcome(command_id);
    }

    const lines = () =>
      log()
        .split("\n")
        .filter((text) => text.includes(broken));
    await vi.waitUntil(() => log().includes("install of acme.tools 1.1.0 is done"));
    expect(lines().map((text) => JSON.parse(text) as object)).toMatchObject([
      { level: 40, event: "package", dir: broken, code: expect.any(String), msg: expect.stringContaining("is not JSON") },
    ]);
  }, 120_000);

  it("[W1110] the hook of a package reads neither the journal nor the token file of the worker that installs it", async (ctx) => {
    const token = path.join(dataDir, "..", `${path.basename(dataDir)}.token`);
    writeFileSync(token, "secret-token\n");
    const settings = [...trustingSettings(), "--package-hooks", "acme.tools", "--token", `@${token}`];
    await startWorker(settings);
    const script = `cat ${token} ${dataDir}/keys.pem ${dataDir}/packages/.state/commands/*.json > seen 2>&1; exit 0`;
    const files = packageFiles("1.0.0", { hooks: { install: ["hook.sh"] } }, { "hook.sh": script });
    door.sendPackageCommand("biz.pkg.install", { ...repository.publish(files), command_id: "c-1" });

    const { status, details } = await nextOutcome("c-1");
    if ((details as { sandbox?: { files?: string } }).sandbox?.files === "open")
      ctx.skip("this system permits no mount namespaces");

    const seen = readFileSync(path.join(installed(), "1.0.0/seen"), "utf8");
    expect(status).toBe("installed");
    expect(seen).not.toMatch(/secret-token|PUBLIC KEY|command_id/);
    expect(seen).toContain("No such file");
    await rm(token);
  }, 120_000);

  it("[W757] a worker that trusts no key does not announce it, whatever it was told to announce, and refuses the command", async () => {
    const { features, log } = await startWorker(["--feature-flags", "pkg.install,gpu"]);
    door.sendPackageCommand("biz.pkg.install", { ...repository.publish(packageFiles("1.0.0")), command_id: "c-1" });

    expect(features).toContain("gpu");
    expect(features).not.toContain("pkg.install");
    expect(await nextOutcome("c-1")).toMatchObject({
      status: "failed",
      details: { reason: expect.stringContaining("start it with --package-keys"), code: "E.CMD.UNKNOWN" },
    });
    const find = () =>
      log()
        .split("\n")
        .find((text) => text.includes('"package-refused"'));
    await vi.waitUntil(() => find() !== undefined);
    expect(JSON.parse(find() ?? "{}")).toMatchObject({ tenant: "default", "sender.id": expect.any(String), corr: "c-1" });
  }, 120_000);
});
