import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { StubScheduler } from "../test/stub-scheduler.ts";
import { readWorkerConfig } from "./settings/config.ts";
import { realEnvironment } from "./worker-app.ts";
import { checkWorker, describeSettingProblems, formatCheckLines } from "./worker-check.ts";

const packagesDir = fileURLToPath(new URL("../../../examples/packages", import.meta.url));
const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function makeRoot(): string {
  const root = mkdtempSync(path.join(tmpdir(), "check-"));
  endings.push(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

async function openScheduler(): Promise<StubScheduler> {
  const scheduler = await StubScheduler.open();
  endings.push(() => scheduler.close());
  return scheduler;
}

interface CheckInput {
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** How far the clock of this machine is ahead. */
  readonly leadMs?: number;
}

/** The lines as `name` or `!name: found`, by which a problem is told from what is good. */
async function check({ argv, env = {}, leadMs = 0 }: CheckInput): Promise<string[]> {
  const reading = readWorkerConfig({
    argv: ["--check", ...argv],
    env,
    hostname: "box",
    readFile: (file) => readFileSync(file, "utf8"),
    readInput: () => "",
    isDirectory: existsSync,
  });
  if (!("wantsCheck" in reading) || !reading.wantsCheck) throw new Error("no check was asked for");
  const environment = { ...realEnvironment, wallClock: () => Date.now() + leadMs };
  const lines =
    "problems" in reading
      ? describeSettingProblems(reading.problems)
      : await checkWorker({ ...reading, instance: "w-1", environment });
  expect(formatCheckLines(lines).trimEnd().split("\n")).toHaveLength(lines.length);
  return lines.map(({ name, isGood, found }) => (isGood ? name : `!${name}: ${found}`));
}

describe("astra worker --check", () => {
  it("[W912] a worker that could start is told so, by a handshake without a register, and nothing is written", async () => {
    const scheduler = await openScheduler();
    const root = makeRoot();
    const token = path.join(root, "token");
    writeFileSync(token, "a-secret-of-some-length\n", { mode: 0o600 });
    const dataDir = path.join(root, "data");
    const argv = ["--url", scheduler.url, "--token", `@${token}`, "--packages-dir", packagesDir, "--data-dir", dataDir];

    const lines = await check({ argv });
    expect([...new Set(lines)]).toEqual(["settings", "token", "data", "package", "keys", "python", "scheduler", "clock"]);
    expect(scheduler.receivedFrames.map(({ type }) => type)).toEqual(["control.handshake"]);
    expect(scheduler.receivedFrames[0]?.payload).toMatchObject({ auth: { mode: "token", token: "a-secret-of-some-length" } });
    expect(existsSync(dataDir)).toBe(false);
  });

  it("[W912] each thing that is wrong is a problem with the way out: token file, folder, packages, Python, address", async () => {
    const root = makeRoot();
    const token = path.join(root, "token");
    writeFileSync(token, "a-secret-of-some-length\n");
    chmodSync(token, 0o644);
    writeFileSync(path.join(root, "file"), "");
    const manifest = JSON.parse(readFileSync(path.join(packagesDir, "demo/1.0.0/manifest.json"), "utf8")) as object;
    for (const [name, text] of Object.entries({
      broken: '{"name": }',
      snake: JSON.stringify({ ...manifest, name: "snake", python: { requires: ">=3.10" } }),
    })) {
      mkdirSync(path.join(root, "packages", name), { recursive: true });
      writeFileSync(path.join(root, "packages", name, "manifest.json"), text);
    }
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    endings.push(() => taken.close());
    const { port } = taken.address() as { port: number };

    const lines = await check({
      argv: [
        ...["--url", "ws://127.0.0.1:1/ws/worker", "--token", `@${token}`, "--data-dir", path.join(root, "file", "data")],
        ...["--packages-dir", path.join(root, "packages"), "--python", "/nowhere/python3"],
        ...["--metrics-listen", `127.0.0.1:${port}`],
      ],
    });

    expect(lines).toEqual([
      "settings",
      `!token: ${token} can be read by other users of this machine; run: chmod 600 ${token}`,
      expect.stringMatching(/^!data: .*file is no folder; remove it, or choose another with --data-dir$/),
      expect.stringMatching(/^!package: broken: .*manifest\.json:1:10 is not JSON: expected a value$/),
      "!package: snake 1.0.0: needs Python >=3.10, but there is none",
      "keys",
      expect.stringMatching(
        /^!python: \/nowhere\/python3 cannot be run \(.*ENOENT\); install Python 3\.10 or newer, or name it with --python$/,
      ),
      `!metrics: 127.0.0.1:${port} cannot be used (EADDRINUSE); choose another with --metrics-listen`,
      expect.stringMatching(/^!scheduler: .* cannot be reached: .*ECONNREFUSED.*; start the scheduler there, or correct --url$/),
    ]);
  });

  it("[W912] a refused token, a replica that is away and a wrong clock are told apart", async () => {
    const [refusing, accepting] = [await openScheduler(), await openScheduler()];
    refusing.refusal = { code: "E.AUTH.INVALID_TOKEN", reason: "the token is not valid for this tenant" };
    const env = { ASTRA_WORKER_AUTH_TOKEN: "a-secret-of-some-length", ASTRA_WORKER_PACKAGES_DIR: packagesDir };
    const argv = ["--url", `${refusing.url},${accepting.url}`, "--data-dir", makeRoot()];

    expect((await check({ argv, env, leadMs: -90_000 })).slice(-3)).toEqual([
      `!scheduler: ${refusing.url} refuses this worker with E.AUTH.INVALID_TOKEN: the token is not valid for this tenant; start it with the token that the scheduler knows for tenant "default"`,
      "scheduler",
      expect.stringMatching(/^!clock: is \d+ s behind that of the scheduler; set the time of this machine$/),
    ]);
  });

  it("[W912] wrong flags, variables and keys of a file are the problems, all at once", async () => {
    const file = path.join(makeRoot(), "worker.json");
    writeFileSync(file, '{"packages_dri": "x"}');

    expect(
      await check({
        argv: ["--max-parallel", "0"],
        env: { ASTRA_WORKER_CONFIG_FILE: file, ASTRA_WORKER_TENNANT: "x", ASTRA_WORKER_RUNTIME_NAMES: '["python","playwright"]' },
      }),
    ).toEqual([
      "!settings: ASTRA_WORKER_TENNANT is not a setting of the worker; did you mean ASTRA_WORKER_TENANT?",
      `!settings: packages_dri in ${file} is not a setting of the worker; did you mean packages_dir?`,
      "!settings: --max-parallel must be a whole number from 1 to 2048",
    ]);
  });
});
