import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HostedPackages } from "../../test/host-harness.ts";
import { PackageRepository, packageFiles } from "../testing/package-repository.ts";
import { PythonIndex, writeWheel } from "../testing/python-index.ts";
import { PackageInstaller } from "./install-package.ts";
import type { InstallSettings } from "./install-settings.ts";

let repository: PackageRepository;
beforeEach(async () => {
  repository = await PackageRepository.open();
});
afterEach(() => repository.close());

const hasPip = spawnSync("python3", ["-I", "-m", "pip", "--version"]).status === 0;

const writeTinyWheel = (folder: string): string => writeWheel(folder, "tinydep", "1.2", { "tinydep.py": "answer = 42\n" });

function pythonPackage(lock: string, version = "1.0.0", dependency = "1.2") {
  const adapters = [{ name: "main", entrypoint: "acme.main:Adapter", capabilities: ["acme.greet"] }];
  const manifest = { adapters, node: undefined, python: { requires: ">=3.8", dependencies: [`tinydep==${dependency}`] } };
  const source = `import sys
import tinydep

class Adapter:
    def greet(self, ctx):
        return {"answer": tinydep.answer, "prefix": sys.prefix}
`;
  return packageFiles(version, manifest, { "adapters/acme/main.py": source, "requirements.txt": lock });
}

const install = (files: ReturnType<typeof packageFiles>, changes: Partial<InstallSettings>) =>
  new PackageInstaller(repository.settings(changes), { stagingId: "job", installedAt: "", stageReached: () => {} }).install(
    repository.publish(files),
  );

describe("the dependencies of a package", () => {
  it("[W748] Python dependencies are installed from the lock into an environment of the version, which works in its final place", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const wheelsDir = path.join(repository.root, "wheels");
    await install(pythonPackage(writeTinyWheel(wheelsDir)), { python: { command: "python3", wheelsDir } });

    const python = path.join(repository.packagesDir, "acme.tools/1.0.0/.venv/bin/python");
    const script = "import sys, tinydep; print(tinydep.answer, sys.prefix)";
    expect(execFileSync(python, ["-I", "-c", script], { encoding: "utf8" })).toBe(
      `42 ${path.join(repository.packagesDir, "acme.tools/1.0.0/.venv")}\n`,
    );
  });

  it("[W1108] an adapter runs with the dependency that was fetched from an index, in the environment of its version, beside another version with another one", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const answers: unknown[] = [];
    for (const [version, answer] of [
      ["1.2", 42],
      ["1.3", 43],
    ] as const) {
      const wheels = path.join(repository.root, `wheels-${version}`);
      const lock = writeWheel(wheels, "tinydep", version, { "tinydep.py": `answer = ${answer}\n` });
      const index = await PythonIndex.open(wheels, "tinydep", version);
      const toolEnvironment = {
        ...repository.settings().toolEnvironment,
        PIP_INDEX_URL: index.url,
        PIP_CONFIG_FILE: "/dev/null",
      };
      await install(pythonPackage(lock, version === "1.2" ? "1.0.0" : "1.1.0", version), { toolEnvironment });
      await index.close();
      expect(index.requests).toEqual(["/simple/tinydep/", `/files/tinydep-${version}-py3-none-any.whl`]);
    }

    const packages = await HostedPackages.openFolder(repository.packagesDir);
    for (const package_version of ["1.0.0", "1.1.0"]) {
      const { payload } = await packages.run("acme.greet", package_version, {}, { package_name: "acme.tools", package_version });
      answers.push(payload["result"]);
    }
    await packages.close();

    const place = (version: string) => path.join(repository.packagesDir, "acme.tools", version, ".venv");
    expect(answers).toEqual([
      { answer: 42, prefix: place("1.0.0") },
      { answer: 43, prefix: place("1.1.0") },
    ]);
  });

  it("[W748] a dependency with another digest, or one that cannot be found, fails the install and leaves nothing behind", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const wheelsDir = path.join(repository.root, "wheels");
    writeTinyWheel(wheelsDir);
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
