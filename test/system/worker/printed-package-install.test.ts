// The package whose manifest the specification prints, published and installed as any other: its dependency comes from a wheel, its resource
// from the repository, and its hooks run.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readPythonVersion, readVersionRange } from "@astraflow/archive";
import { createSigningKey, signFiles } from "@astraflow/archive/testing";
import { writeWheel } from "@astraflow/runtime/testing";
import { describe, expect, it } from "vitest";
import { startScheduler } from "../harness/installation.ts";
import { RepositoryApi, startInstallingWorker } from "../harness/package-installation.ts";
import { oneNode, readPrintedManifest } from "../harness/printed-package.ts";
import { makeTemporaryFolder } from "../harness/processes.ts";

const of = { name: "playwright", version: "2025.10.0" };
const chromium = "stands for a browser";
const signer = createSigningKey();

/** Its own module has the name of its dependency, as printed: both are found. */
const adapter = `
from pathlib import Path
from playwright.sync_api import describe_page

class PlaywrightAdapter:
    def open_page(self, ctx):
        root = Path(__file__).parents[2]
        return {
            "status": "SUCCEEDED",
            "outputs": {
                "page": {"title": describe_page(ctx.params["url"])},
                "done": True,
                "chromium": (root / "resources" / "chromium").read_text(),
                "hook": (root / "installed-by-hook").read_text().strip(),
            },
        }
`;

/** Null: the printed manifest may be installed on this machine. */
function findObstacle(): string | null {
  const printed = spawnSync("python3", ["-c", "import platform, pip; print(platform.python_version())"], { encoding: "utf8" });
  const version = readPythonVersion(printed.stdout.trim());
  const range = readVersionRange(">=3.10,<3.12");
  if (printed.status !== 0 || version === null || typeof range === "string") return "python3 has no pip here";
  return range.includes(version)
    ? null
    : `the printed manifest needs Python 3.10 or 3.11, this machine has ${printed.stdout.trim()}`;
}

describe("the package that the specification prints", () => {
  it("[W1109] is published, installed with its dependency, its resource and its hooks, run, and uninstalled with its hook", async (ctx) => {
    const obstacle = findObstacle();
    if (obstacle !== null) ctx.skip(obstacle);
    const wheels = makeTemporaryFolder();
    const lock = writeWheel(wheels, "playwright", "1.47.2", {
      "playwright/__init__.py": "",
      "playwright/sync_api.py": "def describe_page(url):\n    return 'page of ' + url\n",
    });
    const files = {
      "manifest.json": JSON.stringify(readPrintedManifest(createHash("sha256").update(chromium).digest("hex"))),
      "requirements.txt": lock,
      "adapters/playwright/adapter.py": adapter,
      "scripts/install_extra.sh": "echo ran > installed-by-hook\n",
      "scripts/cleanup.sh": "test -f installed-by-hook\n",
    };
    const archive = Object.entries(files).map(([name, text]) => ({ name, content: Buffer.from(text) }));
    const { http, ws } = await startScheduler();
    const api = new RepositoryApi(http);
    await api.send("POST", "/api/v1/package-keys", { publicKey: signer.publicKey, name: "Release" });
    const published = await api.publish(signFiles(signer.privateKey, archive));
    const put = await api.putResource(of, "resources/chromium", chromium);
    const { dataDir } = await startInstallingWorker(ws, ["--package-hooks", "playwright", "--package-wheels", wheels]);
    const folder = join(dataDir, "packages/playwright/2025.10.0");

    const installed = await api.command("box", { type: "pkg.install", ...of });
    expect(installed).toMatchObject({ status: "acked" });
    const { runId } = await api.startRun(oneNode("playwright.open_page", of, { url: "https://example.com" }), "k");
    const run = await api.waitForRunEnd(runId);
    const manifest = existsSync(folder) ? readFileSync(join(folder, "manifest.json"), "utf8") : "";
    const removed = await api.command("box", { type: "pkg.uninstall", ...of });

    expect([published.status, put]).toEqual([201, 200]);
    expect(run.status).toBe("succeeded");
    expect(JSON.stringify(run.nodes)).toContain('"title":"page of https://example.com"');
    expect(JSON.stringify(run.nodes)).toContain(`"chromium":"${chromium}","hook":"ran"`);
    expect(JSON.parse(manifest)).toMatchObject({ name: "playwright", signature: { signedBy: "Anna" } });
    expect(removed.status).toBe("acked");
  });
});
