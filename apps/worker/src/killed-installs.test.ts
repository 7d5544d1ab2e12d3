import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { packageFiles } from "@astraflow/runtime/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { InstallingWorkers } from "../test/installing-workers.ts";

const failpoint = new URL("../test/install-failpoint.ts", import.meta.url);

let workers: InstallingWorkers;
beforeEach(async () => {
  workers = await InstallingWorkers.open();
});
afterEach(() => workers.close());

function failAt(at: string, version: string, more: Readonly<Record<string, string>> = {}): string[] {
  const url = new URL(failpoint);
  for (const [name, value] of Object.entries({ at, version, ...more })) url.searchParams.set(name, value);
  return ["--import", url.href];
}

/** The command that installs a package with everything that has a step of its own. */
function publishPackage(version: string) {
  const words = "one two";
  const sha256 = createHash("sha256").update(words).digest("hex");
  const resources = [{ path: "resources/words.txt", type: "download", sha256, url: `${workers.repository.origin}/words` }];
  workers.repository.files.set("/words", Buffer.from(words));
  const files = packageFiles(version, { resources, hooks: { install: ["hook.sh"] } }, { "hook.sh": "touch made-by-hook" });
  return { ...workers.repository.publish(files), command_id: version };
}

const listFolder = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder).sort() : []);
const complete = [".install.json", "hook.sh", "made-by-hook", "main.mjs", "manifest.json", "resources"];
const stages = ["download", "verify", "unpack", "dependencies", "resources", "hooks", "load", "publish"];
const records = ["arrival", "start", "end"].map((what) => `the record of its ${what}`);
const steps = [
  ...stages.map((stage) => `before ${stage}`),
  ...["the rename", ...records].flatMap((step) => [`before ${step}`, `after ${step}`]),
];
/** All that comes later than the rename. */
const publishedAt = new Set(["after the rename", "before the record of its end", "after the record of its end"]);

describe("a worker that is killed while it installs", () => {
  it("[W1111] killed with -9 at any step, it has the version complete or not at all, and after its restart the command ends with the version installed", async () => {
    const settings = [...workers.trustingSettings(), "--package-hooks", "acme.tools"];
    const { door } = workers;
    const seen: object[] = [];
    const expected = steps.map((step) => ({
      step,
      signal: "SIGKILL",
      left: publishedAt.has(step) ? complete : [],
      outcome: "installed",
      installed: complete,
    }));
    let killed: { step: string; signal: unknown; left: string[]; command: ReturnType<typeof publishPackage> } | undefined;
    // Each process ends what the one before it was killed in, and is killed in the next install.
    for (const [index, step] of [...steps, null].entries()) {
      const version = `1.0.${index}`;
      const { child } = await workers.start(settings, step === null ? [] : failAt(step, version));
      if (killed !== undefined) {
        const { command, ...about } = killed;
        // A scheduler sends what has not ended again, whether it was taken or not.
        door.sendPackageCommand("biz.pkg.install", command);
        const { status } = await workers.nextOutcome(command.version);
        seen.push({ ...about, outcome: status, installed: listFolder(workers.folderOf(command.version)) });
      }
      if (step === null) break;
      const closed = once(child, "close");
      const command = publishPackage(version);
      door.sendPackageCommand("biz.pkg.install", command);
      const [, signal] = await closed;
      // Each version has a process of its own: the next worker need not start them all.
      if (killed !== undefined) rmSync(workers.folderOf(killed.command.version), { recursive: true });
      killed = { step, signal, left: listFolder(workers.folderOf(version)), command };
    }

    expect(seen).toEqual(expected);
    await vi.waitUntil(() => listFolder(path.join(workers.dataDir, "packages/.staging")).length === 0);
    await vi.waitUntil(() => listFolder(path.join(workers.dataDir, "packages/.state/commands")).length === 0);
  }, 400_000);

  it("[W1112] heartbeats and tasks go on while the installer's thread stands still", async () => {
    const fifo = path.join(workers.dataDir, "fifo");
    execFileSync("mkfifo", [fifo]);
    const { door } = workers;
    door.heartbeatMs = 50;
    workers.writeInstalled("0.9.0");
    await workers.start(workers.trustingSettings(), failAt("before unpack", "1.0.0", { fifo }));
    door.sendPackageCommand("biz.pkg.install", { ...workers.repository.publish(packageFiles("1.0.0")), command_id: "c-1" });
    await vi.waitUntil(() => door.receivedFrames.some(({ payload }) => payload["stage"] === "unpack"), { timeout: 60_000 });

    for (let count = 0; count < 5; count++) await door.nextFrame("control.heartbeat");
    const result = door.nextFrame("biz.exec.result");
    door.dispatch("t1", "acme.greet", {}, { package_name: "acme.tools", package_version: "0.9.0" });
    const { payload } = await result;
    const wasEnded = door.receivedFrames.some((frame) => frame.payload["status"] === "installed");
    writeFileSync(fifo, "go on");

    expect(payload).toMatchObject({ task_id: "t1", status: "SUCCEEDED" });
    expect(wasEnded).toBe(false);
    expect(await workers.nextOutcome("c-1")).toMatchObject({ status: "installed" });
  }, 120_000);
});
