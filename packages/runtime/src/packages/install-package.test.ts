import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { writeZip } from "@astraflow/archive";
import type { PkgInstallPayload } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSigningKey, PackageRepository, packageFiles, sha256 } from "../testing/package-repository.ts";
import { PackageInstaller } from "./install-package.ts";
import { type InstallSettings, installStages } from "./install-settings.ts";

let repository: PackageRepository;
beforeEach(async () => {
  repository = await PackageRepository.open();
});
afterEach(() => repository.close());

let jobs = 0;
function createInstaller(changes: Partial<InstallSettings> = {}, stages: string[] = []): PackageInstaller {
  return new PackageInstaller(repository.settings(changes), {
    stagingId: `job-${jobs++}`,
    installedAt: "2026-01-02T03:04:05Z",
    stageReached: (stage) => void stages.push(stage),
  });
}

const install = (request: PkgInstallPayload, changes: Partial<InstallSettings> = {}) => createInstaller(changes).install(request);
/** Everything in the packages folder that is not the installer's own memory. */
const listFiles = () =>
  existsSync(repository.packagesDir)
    ? readdirSync(repository.packagesDir, { recursive: true, encoding: "utf8" })
        .filter((name) => !name.startsWith(".state") && name !== ".staging")
        .sort()
    : [];

describe("installing a package", () => {
  it("[W740] a signed package is downloaded, verified, unpacked and renamed into place, and each stage is reported in order", async () => {
    const stages: string[] = [];

    const { details } = await createInstaller({}, stages).install(repository.publish(packageFiles("1.0.0")));

    expect(listFiles()).toEqual([
      "acme.tools",
      "acme.tools/1.0.0",
      "acme.tools/1.0.0/.install.json",
      "acme.tools/1.0.0/main.mjs",
      "acme.tools/1.0.0/manifest.json",
    ]);
    expect([...new Set(stages)]).toEqual(installStages);
    expect(details).toMatchObject({ signedBy: "Ann", keyId: repository.signing.key.publicKey.id });
  });

  it("[W740] versions lie side by side, a repeated command changes nothing, and uninstalling one leaves the other", async () => {
    const first = repository.publish(packageFiles("1.0.0"));
    await install(first);
    await install(repository.publish(packageFiles("1.1.0")));

    expect(await install(first)).toEqual({ details: { wasInstalled: true } });
    await expect(install({ ...first, sha256: "0".repeat(64) })).rejects.toMatchObject({ code: "E.PKG.INVALID" });
    await createInstaller().uninstall("acme.tools", "1.0.0");

    expect(readdirSync(path.join(repository.packagesDir, "acme.tools"))).toEqual(["1.1.0"]);
    await createInstaller().uninstall("acme.tools", "1.1.0");
    expect(listFiles()).toEqual([]);
    expect(await createInstaller().uninstall("acme.tools", "1.1.0")).toEqual({ details: { wasInstalled: false } });
  });

  it.each([
    [
      "another SHA-256",
      "E.PKG.INVALID",
      "has the SHA-256",
      (request: PkgInstallPayload) => ({ ...request, sha256: "0".repeat(64) }),
    ],
    ["no signature", "E.PKG.PERMISSION", "is not signed", ({ signature: _, ...request }: PkgInstallPayload) => request],
    [
      "the signature of an unknown key",
      "E.PKG.PERMISSION",
      "not trusted",
      () => repository.publish(packageFiles("1.0.0"), createSigningKey().key),
    ],
    ["another name", "E.PKG.PERMISSION", "is wrong", (request: PkgInstallPayload) => ({ ...request, name: "acme.other" })],
    ["another version", "E.PKG.PERMISSION", "is wrong", (request: PkgInstallPayload) => ({ ...request, version: "1.0.1" })],
    [
      "another tenant",
      "E.PKG.PERMISSION",
      "tenant",
      (request: PkgInstallPayload) => ({ ...request, signature: { ...request.signature, tenant: "globex" } as never }),
    ],
    [
      "another signer",
      "E.PKG.PERMISSION",
      "is wrong",
      (request: PkgInstallPayload) => ({ ...request, signature: { ...request.signature, signed_by: "Bob" } as never }),
    ],
    ["a path as its name", "E.PKG.INVALID", "not a name", (request: PkgInstallPayload) => ({ ...request, name: "../evil" })],
    [
      "a path as its version",
      "E.PKG.INVALID",
      "not a version",
      (request: PkgInstallPayload) => ({ ...request, version: "../1.0.0" }),
    ],
    ["no address", "E.PKG.INVALID", "answered 404", ({ url: _, ...request }: PkgInstallPayload) => request],
    [
      "an address that has nothing",
      "E.PKG.INVALID",
      "answered 404",
      (request: PkgInstallPayload) => ({ ...request, url: `${repository.origin}/nowhere` }),
    ],
  ])("[W741] a command with %s is refused with %s and leaves nothing behind", async (_, code, reason, change) => {
    const request = change(repository.publish(packageFiles("1.0.0")));

    const refusal = install(request);

    await expect(refusal).rejects.toMatchObject({ code, message: expect.stringContaining(reason) });
    expect(listFiles()).toEqual([]);
  });

  it.each([
    ["a hostile name", [{ name: "link", content: Buffer.from("x") }], "1.0.0", "has no manifest.json"],
    ["a name of the installer", packageFiles("1.0.0", {}, { ".venv/bin/python": "evil" }), "1.0.0", "installer's own"],
    ["another version in its manifest", packageFiles("1.0.1"), "1.0.0", "the archive holds acme.tools 1.0.1"],
    [
      "a manifest that names missing files",
      packageFiles("1.0.0", { node: { requires: ">=22", lockfile: "lock.json" } }),
      "1.0.0",
      "manifest.node.lockfile",
    ],
    [
      "Python that this worker has not",
      packageFiles("1.0.0", { python: { requires: ">=99.1" } }),
      "1.0.0",
      "needs Python >=99.1, but this worker has Python 3.",
    ],
  ])("[W741] an archive with %s is refused with E.PKG.INVALID and leaves nothing behind", async (_, files, version, reason) => {
    const archive = writeZip(files);
    repository.files.set("/a.cwx", archive);

    const refusal = install({ name: "acme.tools", version, url: `${repository.origin}/a.cwx` }, { allowsUnsigned: true });

    await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID", message: expect.stringContaining(reason) });
    expect(listFiles()).toEqual([]);
  });

  it("[W742] an older version than any this worker had is refused until an operator allows it, also after the newer one was removed", async () => {
    const old = repository.publish(packageFiles("1.0.0"));
    await install(repository.publish(packageFiles("1.1.0")));
    await createInstaller().uninstall("acme.tools", "1.1.0");

    await expect(install(old)).rejects.toMatchObject({
      code: "E.PKG.PERMISSION",
      message: expect.stringContaining("older than 1.1.0"),
    });
    await install({ ...old, allow_older: true });

    expect(readdirSync(path.join(repository.packagesDir, "acme.tools"))).toEqual(["1.0.0"]);
  });

  it("[W743] resources come from their address, else from the repository, and only with the stated digest", async () => {
    const resources = [
      { path: "resources/model.bin", type: "download", sha256: sha256("model"), url: `${repository.origin}/model` },
      { path: "resources/words/en.txt", type: "download", sha256: sha256("words") },
    ];
    repository.files.set("/model", Buffer.from("model"));
    repository.files.set("/packages/acme.tools/1.0.0/resources/resources/words/en.txt", Buffer.from("words"));
    await install(repository.publish(packageFiles("1.0.0", { resources })));

    const folder = path.join(repository.packagesDir, "acme.tools/1.0.0/resources");
    expect(readFileSync(path.join(folder, "model.bin"), "utf8")).toBe("model");
    expect(readFileSync(path.join(folder, "words/en.txt"), "utf8")).toBe("words");
    repository.files.set("/model", Buffer.from("another"));
    await expect(install(repository.publish(packageFiles("1.0.1", { resources })))).rejects.toThrow(
      "resource resources/model.bin has the SHA-256",
    );
    const unpinned = [{ path: "resources/model.bin", type: "download", url: `${repository.origin}/model` }];
    await expect(install(repository.publish(packageFiles("1.0.1", { resources: unpinned })))).rejects.toThrow(
      "needs its SHA-256",
    );
    expect(readdirSync(path.join(repository.packagesDir, "acme.tools"))).toEqual(["1.0.0"]);
  });
});

describe("loading a version before it is published", () => {
  const pythonAdapter = (source: string) =>
    packageFiles(
      "1.0.0",
      {
        adapters: [{ name: "main", entrypoint: "tools", capabilities: ["acme.greet"] }],
        node: undefined,
        python: { requires: ">=3.10" },
      },
      { "adapters/tools.py": source, "requirements.txt": "" },
    );

  it.each([
    [
      "a Node adapter that cannot be imported",
      packageFiles("1.0.0", {}, { "main.mjs": "throw new Error('no disk')" }),
      "no disk",
    ],
    ["a Node adapter that ends its process", packageFiles("1.0.0", {}, { "main.mjs": "process.exit(3)" }), "ended with code 3"],
    ["a Node adapter without the handler", packageFiles("1.0.0", {}, { "main.mjs": "export const a = () => {}" }), "exports a"],
    ["a Python adapter that cannot be imported", pythonAdapter("import nowhere"), "No module named 'nowhere'"],
  ])("[W1102] %s is not published: its install fails with E.PKG.INVALID and leaves nothing behind", async (_, files, reason) => {
    const refusal = install(repository.publish(files));

    await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID", message: expect.stringContaining(reason) });
    expect(listFiles()).toEqual([]);
  });

  it("[W1102] the processes in which a version is loaded have ended before it is published", async () => {
    const groups = new Set<number>();
    const seen: number[] = [];
    const installer = new PackageInstaller(repository.settings(), {
      stagingId: "probe",
      installedAt: "",
      stageReached: (stage) => void (stage === "publish" && seen.push(groups.size)),
      groups: { groupStarted: (pid) => void groups.add(pid), groupEnded: (pid) => void groups.delete(pid) },
    });

    await installer.install(repository.publish(packageFiles("1.0.0")));

    expect(seen).toEqual([0]);
  });
});

describe("hooks", () => {
  const hooks = { install: ["scripts/install.sh"], uninstall: ["scripts/cleanup.sh"] };
  const scripts = (script: string, cleanup = "true") => ({ "scripts/install.sh": script, "scripts/cleanup.sh": cleanup });
  const allowed = { hookPackages: ["acme.*"] };

  it("[W744] a package with install hooks is refused with E.PKG.PERMISSION unless a setting allows them for it", async () => {
    const request = repository.publish(packageFiles("1.0.0", { hooks }, scripts("touch ran")));

    await expect(install(request)).rejects.toMatchObject({
      code: "E.PKG.PERMISSION",
      message: expect.stringContaining("install hooks (scripts/install.sh)"),
    });
    await expect(install(request, { hookPackages: ["other"] })).rejects.toMatchObject({ code: "E.PKG.PERMISSION" });
    expect(listFiles()).toEqual([]);
  });

  it("[W744] an allowed hook runs in the package's folder without the worker's environment, and the outcome says what held it back", async () => {
    const request = repository.publish(
      packageFiles("1.0.0", { hooks }, scripts("env > seen; cat /proc/net/dev > network; ulimit -c >> seen")),
    );
    // Set by the runner of the tests, as a secret of a worker would be.
    expect(Object.keys(process.env)).toContain("NODE_COMPILE_CACHE");

    const { details } = await install(request, allowed);

    const folder = path.join(repository.packagesDir, "acme.tools/1.0.0");
    expect(readFileSync(path.join(folder, "seen"), "utf8")).not.toContain("NODE_COMPILE_CACHE");
    const sandbox = details["sandbox"] as { network: string; limits: string };
    expect(sandbox).toMatchObject({ env: "empty" });
    const devices = readFileSync(path.join(folder, "network"), "utf8")
      .split("\n")
      .slice(2)
      .filter((line) => line.trim() !== "");
    expect(devices.length === 1 || sandbox.network === "open").toBe(true);
  });

  it("[W744] a hook that fails, or does not end, is killed with everything it started, and the version is not installed", async () => {
    const failing = repository.publish(packageFiles("1.0.0", { hooks }, scripts("echo broken >&2; exit 3")));
    await expect(install(failing, allowed)).rejects.toMatchObject({
      code: "E.PKG.PERMISSION",
      message: expect.stringContaining("ended with code 3: broken"),
    });
    const hanging = repository.publish(packageFiles("1.0.0", { hooks }, scripts("sleep 600 & sleep 600")));

    const refusal = install(hanging, { ...allowed, limits: { ...repository.settings().limits, hookMsMax: 300 } });

    await expect(refusal).rejects.toThrow("did not end in time and was killed");
    expect(listFiles()).toEqual([]);
  });

  it("[W744] uninstalling runs its hooks where they are allowed, and says so where they are not", async () => {
    const request = repository.publish(packageFiles("1.0.0", { hooks }, scripts("true", "test -f may-go || exit 5")));
    await install(request, allowed);
    const refusal = createInstaller(allowed).uninstall("acme.tools", "1.0.0");
    await expect(refusal).rejects.toThrow("hook scripts/cleanup.sh ended with code 5");
    writeFileSync(path.join(repository.packagesDir, "acme.tools/1.0.0/may-go"), "");
    const withHooks = await createInstaller(allowed).uninstall("acme.tools", "1.0.0");
    await install(request, allowed);
    const without = await createInstaller().uninstall("acme.tools", "1.0.0");

    expect(withHooks.details).toMatchObject({ hooks: "run" });
    expect(without.details).toMatchObject({ hooks: "not run: hooks of acme.tools are not allowed here" });
  });
});
