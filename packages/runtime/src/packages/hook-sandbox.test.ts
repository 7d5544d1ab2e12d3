import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it, type TestContext } from "vitest";
import { PackageRepository, packageFiles } from "../testing/package-repository.ts";
import type { HookSandbox } from "./hook-sandbox.ts";
import { PackageInstaller } from "./install-package.ts";

let repository: PackageRepository;
let dataDir: string;
let token: string;
beforeEach(async () => {
  repository = await PackageRepository.open();
  // As a worker has it: its packages lie in its data directory, its token may lie elsewhere.
  dataDir = repository.root;
  token = `${dataDir}-token`;
  writeFileSync(token, "secret-token");
  mkdirSync(path.join(dataDir, "packages/.state"), { recursive: true });
  writeFileSync(path.join(dataDir, "outbox.journal"), "secret-journal");
});
afterEach(() => repository.close());

/** Installs a package whose hook writes what it finds into `seen`, and gives that; undefined: this system has no namespaces. */
async function runHook(ctx: TestContext, script: string): Promise<{ seen: string; sandbox: HookSandbox }> {
  const hooks = { install: ["hook.sh"], uninstall: [] };
  const files = packageFiles("1.0.0", { hooks }, { "hook.sh": `exec > seen 2>&1\n${script}\nexit 0\n` });
  const settings = repository.settings({ hookPackages: ["acme.tools"], hiddenPaths: [dataDir, repository.packagesDir, token] });
  const installer = new PackageInstaller(settings, { stagingId: "job", installedAt: "", stageReached: () => {} });
  const { details } = await installer.install(repository.publish(files));
  const sandbox = details["sandbox"] as HookSandbox;
  if (sandbox.files === "open") ctx.skip("this system permits no mount namespaces");
  return { seen: readFileSync(path.join(repository.packagesDir, "acme.tools/1.0.0/seen"), "utf8"), sandbox };
}

/** The command lines of all processes of this system. */
const readProcesses = (): string[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, "utf8")];
      } catch {
        // It has ended meanwhile.
        return [];
      }
    });

describe("the sandbox of hooks", () => {
  it("[W1110] a hook cannot read the worker's data directory or token, nor write anything but its package's folder, nor undo that", async (ctx) => {
    const { seen, sandbox } = await runHook(
      ctx,
      `
cat ${dataDir}/outbox.journal ${token}
ls -A ${dataDir}/packages
touch ${dataDir}/made /etc/made /tmp/made-by-hook && echo WROTE
umount ${dataDir} && echo UNMOUNTED
mount -o remount,rw / && echo REMOUNTED
mkdir -p deep/er && touch deep/er/file own-file && echo wrote its own
`,
    );

    expect(sandbox).toEqual({ network: "none", files: "package", processes: "own", limits: "prlimit", env: "empty" });
    expect(seen).not.toMatch(/secret|WROTE|UNMOUNTED|REMOUNTED/);
    expect(seen).toContain("Read-only file system");
    expect(seen).toContain("wrote its own");
    // Of all packages it sees the folder that it is in, where that is being made.
    expect(seen.split("\n")).toContain(".staging");
    expect(seen.split("\n")).not.toContain(".state");
  });

  it("[W1110] a hook sees no process but its own, so that it can read neither the environment nor the files of the worker through one", async (ctx) => {
    const { seen } = await runHook(
      ctx,
      `
for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline; echo; done
ls /proc/${process.pid} && echo FOUND
kill -0 ${process.pid} && echo SIGNALLED
`,
    );

    expect(seen).not.toMatch(/FOUND|SIGNALLED|vitest/);
    expect(seen).toContain("hook.sh");
  });

  it("[W1110] what a hook leaves running in the background ends with it, also in a session of its own", async (ctx) => {
    const marker = `left-by-hook-${process.pid}`;
    await runHook(ctx, `setsid sh -c 'sleep 3600; :' ${marker} &`);

    const commands = readProcesses();

    expect(commands.filter((one) => one.includes(marker))).toEqual([]);
  });
});
