import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createWheel, type SampleWheel } from "@astraflow/archive/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCommandFixture } from "../../testing/command-fixture.ts";
import { type BuildInput, buildPackage } from "../build-command.ts";
import { createPackage } from "../package-commands.ts";

const hasPip = spawnSync("python3", ["-I", "-m", "pip", "--version"]).status === 0;

let root = "";
const inRoot = (name: string) => path.join(root, name);
const lock = () => readFileSync(inRoot("tools/requirements.txt"), "utf8");
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "lock-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function newPackage(dependencies: readonly string[], requires = ">=3.10"): Promise<void> {
  await createPackage(createCommandFixture({}).context, { folder: inRoot("tools"), name: "acme.tools", runtime: "python" });
  const manifest = JSON.parse(readFileSync(inRoot("tools/manifest.json"), "utf8")) as object;
  writeFileSync(inRoot("tools/manifest.json"), JSON.stringify({ ...manifest, python: { requires, dependencies } }));
}

/** The settings of pip on this machine do not count. */
const env = { PATH: process.env["PATH"] ?? "", HOME: tmpdir(), PIP_CONFIG_FILE: "/dev/null" };

async function build(input: Partial<BuildInput> & { out?: string } = {}, more: Record<string, string> = {}): Promise<string> {
  const { context, stderr } = createCommandFixture({});
  const buildContext = { ...context, env: { ...env, ...more }, stopSignal: context.signal };
  await buildPackage(buildContext, { folder: inRoot("tools"), python: "python3", out: inRoot("a.cwx"), ...input });
  return stderr();
}

function writeWheels(...wheels: readonly SampleWheel[]): string {
  mkdirSync(inRoot("wheels"), { recursive: true });
  for (const { file, content } of wheels) writeFileSync(inRoot(`wheels/${file}`), content);
  return inRoot("wheels");
}

const pinned = (name: string, version: string, ...wheels: readonly SampleWheel[]): string =>
  `${[`${name}==${version}`, ...wheels.map(({ sha256 }) => `    --hash=sha256:${sha256}`).sort()].join(" \\\n")}\n`;

describe("requirements.txt, written by packages build", () => {
  it("[L1250] packages build pins what the manifest depends on and what that needs, and pip accepts the lock", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const tiny = createWheel("tiny_dep", "1.2", { requires: ["other>=1"] });
    const other = createWheel("other", "1.1");
    const elsewhere = createWheel("other", "1.1", { tag: "cp310-cp310-win_amd64" });
    const wheels = writeWheels(tiny, createWheel("other", "1.0"), other, elsewhere);
    await newPackage(["Tiny.Dep>=1"]);

    expect(await build({ wheels })).toContain("requirements.txt: 2 dependencies pinned");

    const [, ...lines] = lock().split("\n");
    expect(lines.join("\n")).toBe(pinned("other", "1.1", other, elsewhere) + pinned("tiny-dep", "1.2", tiny));
    expect(readFileSync(inRoot("a.cwx"), "latin1")).toContain(`--hash=sha256:${tiny.sha256}`);
    const check = [
      "-m",
      "pip",
      "install",
      "-q",
      "--dry-run",
      "--ignore-installed",
      "--require-hashes",
      "--no-deps",
      "--no-index",
    ];
    execFileSync("python3", ["-I", ...check, "--find-links", wheels, "-r", inRoot("tools/requirements.txt")], { env });
  });

  it("[L1250] a lock that pins the dependencies stays as it is, byte for byte, until --relock asks for a new one", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const first = createWheel("tiny", "1.0");
    const wheels = writeWheels(first);
    await newPackage(["tiny"]);
    await build({ wheels });
    const before = lock();
    const newer = createWheel("tiny", "1.1");
    writeWheels(newer);

    expect(await build({ wheels, python: "python-that-is-not-there" })).not.toContain("pinned");
    expect(lock()).toBe(before);
    await build({ wheels, relock: true });

    expect(before).toContain(pinned("tiny", "1.0", first));
    expect(lock()).toContain(pinned("tiny", "1.1", newer));
  });

  it("[L1251] from an index every wheel of the version is pinned, for other systems too, and from one that is closed only the wheel of this system", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const here = createWheel("tiny", "1.2");
    const windows = createWheel("tiny", "1.2", { tag: "cp310-cp310-win_amd64" });
    const older = createWheel("tiny", "1.1");
    const index = await startIndex([here, windows, older]);
    try {
      await newPackage(["tiny>=1"]);

      await build({}, { PIP_INDEX_URL: index.url });
      expect(lock()).toContain(pinned("tiny", "1.2", here, windows));
      index.closePages();
      const said = await build({ relock: true }, { PIP_INDEX_URL: index.url });

      expect(lock()).toContain(pinned("tiny", "1.2", here));
      expect(said).toMatch(/simple\/tiny\/ cannot be read \(HTTP 401\): only the wheel of tiny for this system is pinned/);
    } finally {
      await index.close();
    }
  });

  it("[L1252] packages build names the requirement that nothing satisfies, and an index that does not answer", async (ctx) => {
    if (!hasPip) ctx.skip("python3 has no pip here");
    const wheels = writeWheels(createWheel("tiny", "1.2"));
    await newPackage(["tiny>=2"]);

    await expect(build({ wheels })).rejects.toMatchObject({
      exitCode: 2,
      body: { error: "E.PKG.INVALID" },
      message: expect.stringMatching(/cannot be resolved in .*wheels: .*tiny>=2 \(from versions: 1\.2\)/),
    });
    await expect(build({}, { PIP_INDEX_URL: "http://127.0.0.1:1/simple", PIP_RETRIES: "0" })).rejects.toMatchObject({
      exitCode: 5,
      body: { error: "E.UNREACHABLE" },
      message: expect.stringMatching(/^http:\/\/127\.0\.0\.1:1\/simple\/tiny\/ cannot be read \(.*refused.*\)/i),
    });
    expect(existsSync(inRoot("a.cwx"))).toBe(false);
  });

  it("[L1252] packages build refuses a Python that is missing, has no pip or does not fit the package, and a folder of wheels that is none", async () => {
    const script = (name: string, text: string): string => {
      writeFileSync(inRoot(name), `#!/bin/sh\n${text}\n`);
      chmodSync(inRoot(name), 0o755);
      return inRoot(name);
    };
    const version = 'case "$*" in *platform*) echo 3.11.2; exit 0;; esac';
    await newPackage(["tiny"]);

    await expect(build({ python: "python-that-is-not-there" })).rejects.toThrow(/could not be started \(ENOENT\): .*--python/);
    await expect(build({ python: script("bare", `${version}; echo "bare: No module named pip" >&2; exit 1`) })).rejects.toThrow(
      /has no pip, which requirements\.txt is written with/,
    );
    await expect(build({ python: script("old", `${version}; echo "no such option: --report" >&2; exit 2`) })).rejects.toThrow(
      /too old to write requirements\.txt: 22\.2/,
    );
    await expect(build({ wheels: inRoot("none") })).rejects.toThrow(/--wheels .*none is no folder/);
    rmSync(inRoot("tools"), { recursive: true });
    await newPackage(["tiny"], ">=3.12");
    await expect(build({ python: script("fits-not", version) })).rejects.toThrow(/needs Python >=3\.12, but .* is 3\.11\.2/);
  });
});

/** An index as PEP 503 describes it. Closed pages are served to pip alone, as with a password that only pip knows. */
async function startIndex(wheels: readonly SampleWheel[]) {
  let isClosed = false;
  const server = createServer(({ url = "", headers }, response) => {
    const wheel = wheels.find(({ file }) => url === `/files/${file}`);
    if (wheel !== undefined) return response.end(wheel.content);
    if (url !== "/simple/tiny/") return response.writeHead(404).end();
    if (isClosed && !headers["user-agent"]?.startsWith("pip")) return response.writeHead(401).end();
    const links = wheels.map(({ file, sha256 }) => `<a href="../../files/${file}#sha256=${sha256}">${file}</a>`);
    return response.setHeader("content-type", "text/html").end(`<!DOCTYPE html><html><body>${links.join("\n")}</body></html>`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple/`,
    closePages: () => {
      isClosed = true;
    },
    close: () => new Promise<void>((resolve) => (server.closeAllConnections(), server.close(() => resolve()))),
  };
}
