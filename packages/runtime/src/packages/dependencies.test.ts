import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { writeZip } from "@astraflow/archive";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PackageRepository, packageFiles, sha256 } from "../testing/package-repository.ts";
import { PackageInstaller } from "./install-package.ts";
import type { InstallSettings } from "./install-settings.ts";

let repository: PackageRepository;
beforeEach(async () => {
  repository = await PackageRepository.open();
});
afterEach(() => repository.close());

const hasPip = spawnSync("python3", ["-I", "-m", "pip", "--version"]).status === 0;

/** A wheel of one module, made here: a test that asks an index is slow and fails with the network. */
function writeWheel(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const info = "tinydep-1.2.dist-info";
  const files = {
    "tinydep.py": "answer = 42\n",
    [`${info}/METADATA`]: "Metadata-Version: 2.1\nName: tinydep\nVersion: 1.2\n",
    [`${info}/WHEEL`]: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    [`${info}/RECORD`]: `tinydep.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`,
  };
  const wheel = writeZip(Object.entries(files).map(([name, text]) => ({ name, content: Buffer.from(text) })));
  writeFileSync(path.join(folder, "tinydep-1.2-py3-none-any.whl"), wheel);
  return sha256(wheel);
}

function pythonPackage(lock: string) {
  const adapters = [{ name: "main", entrypoint: "acme.main:Adapter", capabilities: ["acme.greet"] }];
  const manifest = { adapters, node: undefined, python: { requires: ">=3.8", dependencies: ["tinydep==1.2"] } };
  const source = "import tinydep\n\nclass Adapter:\n    def greet(self, ctx):\n        return {'answer': tinydep.answer}\n";
  return packageFiles("1.0.0", manifest, { "adapters/acme/main.py": source, "requirements.txt": lock });
}

const install = (files: ReturnType<typeof packageFiles>, changes: Partial<InstallSettings>) =>
  new PackageInstaller(repository.settings(changes), { stagingId: "job", installedAt: "", stageReached: () => {} }).install(
    repository.publish(files),
  );

describe("the dependencies of a package", () => {
  it("[W748] Python dependencies are installed from the lock into an environment of the version, which works in its final place", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const wheelsDir = path.join(repository.root, "wheels");
    const digest = writeWheel(wheelsDir);

    await install(pythonPackage(`tinydep==1.2 --hash=sha256:${digest}\n`), { python: { command: "python3", wheelsDir } });

    const python = path.join(repository.packagesDir, "acme.tools/1.0.0/.venv/bin/python");
    const script = "import sys, tinydep; print(tinydep.answer, sys.prefix)";
    expect(execFileSync(python, ["-I", "-c", script], { encoding: "utf8" })).toBe(
      `42 ${path.join(repository.packagesDir, "acme.tools/1.0.0/.venv")}\n`,
    );
  });

  it("[W748] a dependency with another digest, or one that cannot be found, fails the install and leaves nothing behind", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const wheelsDir = path.join(repository.root, "wheels");
    writeWheel(wheelsDir);
    const lock = `tinydep==1.2 --hash=sha256:${"0".repeat(64)}\n`;

    const wrong = install(pythonPackage(lock), { python: { command: "python3", wheelsDir } });
    await expect(wrong).rejects.toMatchObject({
      code: "E.PKG.INVALID",
      message: expect.stringContaining("pip ended with code 1"),
    });
    const missing = install(pythonPackage(lock), { python: { command: "python3", wheelsDir: repository.root } });
    await expect(missing).rejects.toThrow("the dependencies cannot be installed");
    const noPython = install(pythonPackage(lock), { python: { command: "python-that-is-not-there" } });
    await expect(noPython).rejects.toThrow("could not be started");
    expect(() => readFileSync(path.join(repository.packagesDir, "acme.tools/1.0.0/manifest.json"))).toThrow("ENOENT");
  });

  it("[W749] Node dependencies are installed by their lock file, and no script of theirs runs", async () => {
    const dependency = path.join(repository.root, "dependency.tgz");
    const folder = path.join(repository.root, "dependency/package");
    mkdirSync(folder, { recursive: true });
    const marker = path.join(repository.root, "script-ran");
    writeFileSync(
      path.join(folder, "package.json"),
      JSON.stringify({ name: "dep", version: "1.0.0", main: "i.js", scripts: { postinstall: `touch ${marker}` } }),
    );
    writeFileSync(path.join(folder, "i.js"), "module.exports = 7;\n");
    execFileSync("tar", ["-czf", dependency, "-C", path.dirname(folder), "package"]);
    const integrity = `sha512-${Buffer.from(execFileSync("sha512sum", [dependency], { encoding: "utf8" }).slice(0, 128), "hex").toString("base64")}`;
    const file = `file:${dependency}`;
    const own = { name: "acme-tools", version: "1.0.0", dependencies: { dep: file } };
    const lock = {
      ...own,
      lockfileVersion: 3,
      requires: true,
      packages: { "": own, "node_modules/dep": { version: "1.0.0", resolved: file, integrity, hasInstallScript: true } },
    };
    const manifest = { node: { requires: ">=22", lockfile: "package-lock.json" } };
    const files = packageFiles("1.0.0", manifest, {
      "package.json": JSON.stringify(own),
      "package-lock.json": JSON.stringify(lock),
    });

    await install(files, { toolEnvironment: { PATH: process.env["PATH"] ?? "", HOME: repository.root } });

    expect(readFileSync(path.join(repository.packagesDir, "acme.tools/1.0.0/node_modules/dep/i.js"), "utf8")).toContain("7");
    expect(() => readFileSync(marker)).toThrow("ENOENT");
  });
});
