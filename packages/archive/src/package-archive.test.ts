import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Fault, readManifest } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { samplePackage } from "./testing/sample-package.ts";
import { readPackageFolder } from "./folder/package-folder.ts";
import { exampleManifest } from "./manifest/manifest-problems.ts";
import { buildPackageArchive, checkContentDigest, readArchiveFiles, readPackageArchive, signPackage } from "./package-archive.ts";
import { sha256Hex } from "./signature/content-digest.ts";
import { type PrivateKey, readPrivateKey } from "./signature/ed25519-key.ts";
import { findSignatureProblem } from "./signature/package-signature.ts";
import { createMemorySource } from "./zip/byte-source.ts";
import { writeZip } from "./zip/write-zip.ts";

function problemsOf(act: () => unknown): unknown {
  try {
    act();
    return [];
  } catch (thrown) {
    return thrown instanceof Fault && thrown.code === "E.PKG.INVALID" ? (thrown.details?.["problems"] ?? thrown.message) : thrown;
  }
}

describe("a package as an archive", () => {
  it("[R747] a package whose manifest and files fit is built, and read as it was built", async () => {
    const files = samplePackage();

    const { archive, manifest } = buildPackageArchive(files);
    const source = createMemorySource(archive);
    const read = await readPackageArchive(source);

    expect(read.manifest).toEqual(manifest);
    expect(await readArchiveFiles(source, read)).toEqual(files.toSorted((left, right) => (left.name < right.name ? -1 : 1)));
    expect(readManifest(exampleManifest)).not.toBeInstanceOf(Fault);
  });

  it("[R747] all that is wrong with a package is reported at once, with the fields", () => {
    const manifest = {
      adapters: [
        { name: "main", entrypoint: "acme.other:Adapter", capabilities: ["acme.greet"] },
        { name: "script", entrypoint: "lib/main.mjs", capabilities: ["acme.greet"] },
      ],
      node: { requires: ">=22", lockfile: "package-lock.json" },
      python: { requires: "3.10 or so", dependencies: ["requests>=2", "git+https://x"] },
      hooks: { install: ["scripts/install.sh"], uninstall: ["scripts/cleanup.sh"] },
    };

    expect(problemsOf(() => buildPackageArchive(samplePackage(manifest)))).toEqual([
      expect.stringMatching(/^manifest\.adapters\.0\.entrypoint is acme\.other:Adapter, but .* adapters\/acme\/other\.py/),
      expect.stringMatching(/^manifest\.adapters\.1\.entrypoint is lib\/main\.mjs/),
      "manifest.hooks.install.0 is scripts/install.sh, which the package does not have",
      "manifest.hooks.uninstall.0 is scripts/cleanup.sh, which the package does not have",
      "manifest.node.lockfile is package-lock.json, which the package does not have",
      expect.stringMatching(/^manifest\.python\.requires is not a range of versions/),
      expect.stringMatching(/^manifest\.python\.dependencies\.1 "\+https/),
      expect.stringMatching(/^manifest\.python\.dependencies needs requirements\.txt/),
    ]);
    expect(problemsOf(() => buildPackageArchive(samplePackage({ name: "NOT OK", version: 1 })))).toEqual([
      expect.stringMatching(/^manifest\.name .*, for example "acme\.tools"$/),
      expect.stringMatching(/^manifest\.version .*, for example "1\.0\.0"$/),
    ]);
    expect(
      problemsOf(() =>
        buildPackageArchive(
          samplePackage({ python: { requires: ">=3.10", dependencies: ["requests"] } }, { "requirements.txt": "requests\n" }),
        ),
      ),
    ).toEqual([expect.stringMatching(/^requirements\.txt line 1: /)]);
  });

  it("[R747] an archive without a manifest, with an unreadable one or with a resource of another digest is refused", async () => {
    const read = (files: ReturnType<typeof samplePackage>) => readPackageArchive(createMemorySource(writeZip(files)));

    await expect(read(samplePackage().slice(1))).rejects.toThrow("has no manifest.json at its root");
    await expect(read(samplePackage({}, { "manifest.json": "[]" }))).rejects.toThrow("must hold an object");
    await expect(read(samplePackage({}, { "manifest.json": "{" }))).rejects.toThrow("cannot be read");
    const resources = [{ path: "resources/a.txt", type: "file", sha256: sha256Hex("a") }];
    await expect(read(samplePackage({ resources }, { "resources/a.txt": "b" }))).rejects.toThrow("resource resources/a.txt");
    await expect(read(samplePackage({ resources }, { "resources/a.txt": "a" }))).resolves.toMatchObject({
      manifest: { name: "acme.tools" },
    });
  });

  it("[R753] signing writes the digest of the content, the instant and the signer into the manifest, and signs the archive that holds them", async () => {
    const pem = generateKeyPairSync("ed25519").privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    const key = readPrivateKey(pem) as PrivateKey;
    const claims = { tenant: "acme", signedAt: "2026-01-02T03:04:05Z", signedBy: "Ann" };

    const { archive, signature } = signPackage(samplePackage(), claims, key);
    const again = signPackage(samplePackage({ signature: { sha256: "old" } }), claims, key);
    const source = createMemorySource(archive);
    const read = await readPackageArchive(source);

    expect(again.archive).toEqual(archive);
    expect(read.manifest.signature).toMatchObject({ signedAt: claims.signedAt, signedBy: "Ann" });
    await expect(checkContentDigest(source, read)).resolves.toBeUndefined();
    const identity = { name: "acme.tools", version: "1.2.3", tenant: "acme", sha256: sha256Hex(archive), bytes: archive.length };
    expect(findSignatureProblem(signature, identity, [key.publicKey])).toBeNull();
    const files = await readArchiveFiles(source, read);
    const changed = createMemorySource(writeZip([...files, { name: "adapters/acme/evil.py", content: Buffer.from("evil") }]));
    await expect(checkContentDigest(changed, await readPackageArchive(changed))).rejects.toMatchObject({ code: "E.PKG.INVALID" });
  });
});

describe("the folder of a package", () => {
  let root = "";
  const put = (name: string, content = "x") => {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), content);
  };
  beforeEach(() => {
    root = mkdtempSync(path.join(tmpdir(), "package-"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it("[R748] what tools leave behind and what begins with a dot is left out and listed", async () => {
    for (const name of [
      "manifest.json",
      "adapters/a/main.py",
      "adapters/a/__pycache__/main.pyc",
      ".git/config",
      ".env",
      "a.pyc",
      "old.cwx",
      "node_modules/x/index.js",
    ])
      put(name);

    const { files, ignored } = await readPackageFolder(root);
    const withModules = await readPackageFolder(root, { includeNodeModules: true });

    expect(files.map(({ name }) => name)).toEqual(["adapters/a/main.py", "manifest.json"]);
    expect(ignored).toEqual([".env", ".git", "a.pyc", "adapters/a/__pycache__", "node_modules", "old.cwx"]);
    expect(withModules.files.map(({ name }) => name)).toContain("node_modules/x/index.js");
  });

  it("[R748] a link to a file of the package is packed as that file; one that leads out, to a folder or to nothing is refused by its name", async () => {
    put("lib/a.py", "content");
    symlinkSync("a.py", path.join(root, "lib/b.py"));

    const { files } = await readPackageFolder(root);

    expect(files.map(({ name, content }) => [name, Buffer.from(content).toString()])).toEqual([
      ["lib/a.py", "content"],
      ["lib/b.py", "content"],
    ]);
    for (const [target, reason] of [
      ["/etc/hostname", "leads out"],
      ["lib", "neither"],
      ["nowhere", "link to nothing"],
    ]) {
      symlinkSync(target ?? "", path.join(root, "link"));
      await expect(readPackageFolder(root)).rejects.toThrow(
        `"link" is ${reason === "leads out" ? "a link that leads out" : reason === "neither" ? "neither" : "a link to nothing"}`,
      );
      rmSync(path.join(root, "link"));
    }
  });
});
