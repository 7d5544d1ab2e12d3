// The package `crawlerx_playwright` as an operator gets it onto a worker: archive, signature, repository, install with npm, and the workflow
// of the specification that asks for it. What its nodes do is tested by test/system/worker/browser-package.test.ts.

import { execFile, execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createSigningKey } from "@astraflow/archive/testing";
import type { Run } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { browserPackageNames } from "../../../scripts/browser-packages.ts";
import { startScheduler } from "../harness/installation.ts";
import { chromiumProgram, readPrintedWorkflow, serveLoginPage } from "../harness/login-page.ts";
import { startInstallingWorker } from "../harness/package-installation.ts";
import { makeTemporaryFolder, repositoryRoot, runAstra } from "../harness/processes.ts";

const { name, version } = browserPackageNames[1];
const { dependencies } = JSON.parse(
  readFileSync(join(repositoryRoot, "examples/packages/browser/1.0.0/package.json"), "utf8"),
) as { dependencies: Record<string, string> };

/** Null: npm can fetch the package's dependency. Asked of npm itself, since proxy and registry are settings of npm. */
function findRegistryObstacle(): Promise<string | null> {
  const wanted = `playwright-core@${dependencies["playwright-core"]}`;
  const args = ["view", wanted, "version", "--fetch-retries=0", "--fetch-timeout=15000", "--loglevel=error"];
  return new Promise((resolve) => {
    execFile("npm", args, { cwd: makeTemporaryFolder(), timeout: 30_000 }, (failure, _stdout, stderr) => {
      const reason = `${stderr.trim() || failure?.message}`.split("\n").slice(0, 2).join(" ");
      resolve(failure === null ? null : `npm cannot fetch ${wanted} here: ${reason}`);
    });
  });
}

it("[W1056] the archive that the script builds is signed, published, installed on a worker with npm ci, and the printed workflow clicks the login button in Chromium", async (ctx) => {
  if (!existsSync(chromiumProgram)) ctx.skip(`there is no Chromium at ${chromiumProgram}: apt-get install chromium`);
  const [obstacle, { http, ws }, site] = await Promise.all([findRegistryObstacle(), startScheduler(), serveLoginPage()]);
  if (obstacle !== null) ctx.skip(obstacle);
  const { dataDir } = await startInstallingWorker(ws);
  const folder = makeTemporaryFolder();
  const at = (file: string) => join(folder, file);
  const key = createSigningKey();
  writeFileSync(at("private.pem"), key.privateKey, { mode: 0o600 });
  writeFileSync(at("public.pem"), key.publicKey);
  writeFileSync(at("workflow.json"), JSON.stringify(readPrintedWorkflow(site.url)));
  const astra = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runAstra(args, { ASTRA_URL: http });
    if (code !== 0) throw new Error(`astra ${args.join(" ")} ended with ${code}:\n${stdout}${stderr}`);
    return stdout;
  };

  execFileSync(process.execPath, [join(repositoryRoot, "scripts/browser-packages.ts"), folder]);
  const archive = at(`${name}-${version}.cwx`);
  await astra("packages", "sign", archive, "--key", at("private.pem"), "--by", "Release");
  await astra("packages", "keys", "add", at("public.pem"), "--name", "Release");
  await astra("packages", "publish", archive);
  const installed = await astra("packages", "install", `${name}@${version}`, "--all", "--wait");
  const run = JSON.parse(await astra("run", at("workflow.json"), "--json")) as Run;

  expect(installed).toContain("box");
  // The dependency is that of the lock file, fetched into the folder of the package: the worker has no other one.
  const fetched = join(dataDir, "packages", name, version, "node_modules/playwright-core/package.json");
  expect(JSON.parse(readFileSync(fetched, "utf8"))).toMatchObject({ version: dependencies["playwright-core"] });
  expect(run.status).toBe("succeeded");
  expect(site.clicks).toEqual(["/clicked?user=nobody"]);
});
