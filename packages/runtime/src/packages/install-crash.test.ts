import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { PkgInstallPayload } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PackageRepository, packageFiles } from "../testing/package-repository.ts";
import { PackageInstaller } from "./install-package.ts";
import { type InstallFailpoint, installStages } from "./install-settings.ts";
import { VersionFolders } from "./version-folders.ts";

const program = fileURLToPath(new URL("../../test/killed-installer.ts", import.meta.url));

let repository: PackageRepository;
beforeEach(async () => {
  repository = await PackageRepository.open();
});
afterEach(() => repository.close());

/** Gives the signal that ended the process; null: it came to its end. */
function runKilled(request: PkgInstallPayload, killAt: InstallFailpoint, isUninstall = false): Promise<string | null> {
  const job = JSON.stringify({ settings: repository.settings(), request, isUninstall, killAt });
  const child = spawn(process.execPath, ["--no-warnings", program, job], { stdio: ["ignore", "inherit", "inherit"] });
  return new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
}

const installAgain = (request: PkgInstallPayload) =>
  new PackageInstaller(repository.settings(), { stagingId: "again", installedAt: "", stageReached: () => {} }).install(request);
const versionFolder = () => path.join(repository.packagesDir, "acme.tools/1.0.0");
const complete = [".install.json", "main.mjs", "manifest.json"];

describe("an installer that is killed", () => {
  it.each([...installStages.map((stage) => `before ${stage}` as const), "before rename"] as const)(
    "[W747] killed %s, the version is absent, the leftovers are removed at the next start, and the command succeeds then",
    async (killAt) => {
      const request = repository.publish(packageFiles("1.0.0"));

      expect(await runKilled(request, killAt)).toBe("SIGKILL");

      expect(existsSync(versionFolder())).toBe(false);
      await new VersionFolders(repository.packagesDir).removeLeftovers();
      expect(existsSync(path.join(repository.packagesDir, ".staging"))).toBe(false);
      await installAgain(request);
      expect(readdirSync(versionFolder()).sort()).toEqual(complete);
    },
  );

  it("[W747] killed after the rename, the version is complete, and the repeated command finds it installed", async () => {
    const request = repository.publish(packageFiles("1.0.0"));

    expect(await runKilled(request, "after rename")).toBe("SIGKILL");

    expect(readdirSync(versionFolder()).sort()).toEqual(complete);
    expect(await installAgain(request)).toEqual({ details: { wasInstalled: true } });
  });

  it.each(["before hooks", "before remove", "after removal rename"] as const)(
    "[W747] an uninstall that is killed %s leaves the version complete or absent",
    async (killAt) => {
      const request = repository.publish(packageFiles("1.0.0"));
      await installAgain(request);

      expect(await runKilled(request, killAt, true)).toBe("SIGKILL");

      const isAbsent = killAt === "after removal rename";
      expect(existsSync(versionFolder()) ? readdirSync(versionFolder()).sort() : []).toEqual(isAbsent ? [] : complete);
    },
  );
});
