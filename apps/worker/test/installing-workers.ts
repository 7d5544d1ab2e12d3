// Worker processes on one data directory, with a repository that they trust and a scheduler that commands them.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { PackageRepository, packageFiles } from "@astraflow/runtime/testing";
import { vi } from "vitest";
import { StubScheduler } from "./stub-scheduler.ts";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));

export class InstallingWorkers {
  readonly repository: PackageRepository;
  readonly door: StubScheduler;
  readonly dataDir = mkdtempSync(path.join(tmpdir(), "worker-"));
  readonly #children: ChildProcess[] = [];

  private constructor(repository: PackageRepository, door: StubScheduler) {
    this.repository = repository;
    this.door = door;
  }

  static async open(): Promise<InstallingWorkers> {
    return new InstallingWorkers(await PackageRepository.open(), await StubScheduler.open());
  }

  async close(): Promise<void> {
    for (const child of this.#children.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const closed = once(child, "close");
      child.kill("SIGKILL");
      await closed;
    }
    await this.door.close();
    await this.repository.close();
    await rm(this.dataDir, { recursive: true, force: true });
  }

  /** Settings of a worker that trusts the repository's key. */
  trustingSettings(): string[] {
    const keys = path.join(this.dataDir, "keys.pem");
    writeFileSync(keys, this.repository.signing.publicKey);
    return ["--package-keys", keys, "--package-origins", this.repository.origin];
  }

  /** A version of `acme.tools` that lies there already. */
  writeInstalled(version: string): void {
    const folder = this.folderOf(version);
    mkdirSync(folder, { recursive: true });
    for (const { name, content } of packageFiles(version)) writeFileSync(path.join(folder, name), content);
  }

  folderOf(version: string): string {
    return path.join(this.dataDir, "packages/acme.tools", version);
  }

  /** Resolves once it has registered. */
  async start(
    settings: readonly string[],
    nodeArguments: readonly string[] = [],
  ): Promise<{ child: ChildProcess; log: () => string; features: unknown }> {
    const registered = this.door.nextFrame("control.register");
    const places = ["--url", this.door.url, "--name", "box", "--data-dir", this.dataDir];
    const child = spawn(process.execPath, [...nodeArguments, main, ...places, ...settings], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"] ?? "", ASTRA_WORKER_AUTH_TOKEN: "secret-token" },
    });
    this.#children.push(child);
    let log = "";
    const append = (bytes: Buffer) => void (log += bytes.toString());
    child.stdout.on("data", append);
    child.stderr.on("data", append);
    const { payload } = await registered;
    return { child, log: () => log, features: (payload["capabilities"] as { features: unknown }).features };
  }

  /** The first event that ends a command. */
  async nextOutcome(command: string): Promise<Readonly<Record<string, unknown>>> {
    const find = () =>
      this.door.receivedFrames.find(
        ({ type, payload }) => type === "biz.pkg.event" && payload["command_id"] === command && !("stage" in payload),
      );
    await vi.waitUntil(() => find() !== undefined, { timeout: 60_000, interval: 20 });
    return find()?.payload ?? {};
  }
}
