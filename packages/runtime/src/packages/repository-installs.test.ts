import { existsSync } from "node:fs";
import path from "node:path";
import type { PkgInstallPayload } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSigningKey, PackageRepository, packageFiles } from "../testing/package-repository.ts";
import { PackageInstaller } from "./install-package.ts";
import type { InstallSettings } from "./install-settings.ts";

let repository: PackageRepository;
beforeEach(async () => {
  repository = await PackageRepository.open();
});
afterEach(() => repository.close());

let jobs = 0;
function install(request: PkgInstallPayload, changes: Partial<InstallSettings> = {}) {
  const installer = new PackageInstaller(repository.settings(changes), {
    stagingId: `job-${jobs++}`,
    installedAt: "2026-01-02T03:04:05Z",
    stageReached: () => undefined,
    authorization: { origin: repository.origin, value: "Bearer worker-token" },
  });
  return installer.install(request);
}

/** As the scheduler's repository has it: without an address in the command. */
function publishInRepository(version: string, key?: Parameters<PackageRepository["publish"]>[1]): PkgInstallPayload {
  const { url = "", ...request } = repository.publish(packageFiles(version), key);
  const bytes = repository.files.get(new URL(url).pathname);
  repository.files.set(`/packages/acme.tools/${encodeURIComponent(version)}/archive`, bytes ?? Buffer.alloc(0));
  return request;
}

const isInstalled = (version: string) => existsSync(path.join(repository.packagesDir, "acme.tools", version));
const listKeys = (...items: readonly object[]) =>
  repository.files.set("/package-keys", Buffer.from(JSON.stringify({ items, nextCursor: null, asOf: 1 })));

describe("installing from the scheduler's repository", () => {
  it("[W930] a command without an address is fetched from the repository with the worker's token", async () => {
    await install(publishInRepository("1.0.0+build.7"));

    expect(isInstalled("1.0.0+build.7")).toBe(true);
    expect(repository.requests).toEqual(["/packages/acme.tools/1.0.0%2Bbuild.7/archive Bearer worker-token"]);
  });

  it("[W930] a command without an address is refused by a worker that knows no repository", async () => {
    const refusal = install(publishInRepository("1.0.0"), { repositoryUrl: null });

    await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID", message: expect.stringContaining("names no address") });
    expect(repository.requests).toEqual([]);
  });
});

describe("trusting the keys of the repository", () => {
  const trusting = { trustedKeys: [], trustsRepository: true } as const;

  it("[W931] what a key of the repository has signed is installed, for the packages of that key", async () => {
    const { key, publicKey } = createSigningKey();
    const request = publishInRepository("1.0.0", key);
    listKeys({ publicKey, name: "other", packages: ["other.*"] });
    await expect(install(request, trusting)).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });

    listKeys({ publicKey, name: "Release", packages: ["acme.*"] });
    await install(request, trusting);

    expect(isInstalled("1.0.0")).toBe(true);
    expect(repository.requests).toContain("/package-keys Bearer worker-token");
  });

  it("[W931] a key that the repository lists no longer is trusted no longer, and unusable answers are refused", async () => {
    const { key } = createSigningKey();
    const request = publishInRepository("1.0.0", key);
    for (const answer of ['{"items":[]}', "{}", "no json", '{"items":[{"publicKey":"x"}]}', '{"items":[1]}']) {
      repository.files.set("/package-keys", Buffer.from(answer));
      await expect(install(request, trusting)).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });
    }
    repository.files.delete("/package-keys");
    await expect(install(request, trusting)).rejects.toMatchObject({ code: "E.PKG.INVALID" });
    await expect(install(request, { ...trusting, repositoryKeysUrl: null })).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });
    expect(isInstalled("1.0.0")).toBe(false);
  });

  it("[W931] a worker with keys of its own does not ask the repository for others", async () => {
    const { key, publicKey } = createSigningKey();
    listKeys({ publicKey, name: "Release" });

    await expect(install(publishInRepository("1.0.0", key))).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });

    expect(repository.requests.filter((request) => request.startsWith("/package-keys"))).toEqual([]);
  });
});
