import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Run, RunRef, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, spawnAstra } from "../harness/processes.ts";
import { makeSecretPackage, secretWorkflow } from "../harness/secret-package.ts";

const secret = "open-sesame-9f2c1b7a";
const digest = createHash("sha256").update(secret).digest("hex");
const missing = { digest: null, errors: [{ key: "door", error: "missing_grant" }] };
const found = { digest, errors: [] };

async function startWithSecret() {
  const dataDir = join(makeTemporaryFolder(), "data");
  const scheduler = spawnAstra(["scheduler", "--dev", "--listen", "127.0.0.1:0", "--data-dir", dataDir, "--log-level", "debug"]);
  const { http, ws } = (await scheduler.ready()) as { http: string; ws: string };
  const workerDir = join(makeTemporaryFolder(), "data");
  const args = ["--url", ws, "--token", "dev-token", "--packages-dir", makeSecretPackage(), "--data-dir", workerDir];
  const worker = spawnAstra(["worker", ...args, "--log-level", "debug"]);
  await worker.ready();
  const api = new SchedulerApi(http);
  const form = new FormData();
  form.set("file", new Blob([`${secret}\n`], { type: "text/plain" }), "door.key");
  const headers = { authorization: "Bearer dev-token" };
  const made = await fetch(`${http}/api/v1/resources`, { method: "POST", headers, body: form });
  const { resourceId } = (await made.json()) as { resourceId: string };

  const post = async <T>(path: string, body: unknown, status: number): Promise<T> => {
    const response = await api.send("POST", path, body);
    if (response.status !== status) throw new Error(`POST ${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  };
  const start = (what: object) => post<RunRef>("/api/v1/runs", { clientId: "system-test", ...what }, 202);
  const done = async (what: object): Promise<Run> => api.waitForRunEnd((await start(what)).runId);
  /** What the only node of a run reports that it saw. */
  const seen = async (what: { workflow: Workflow } | { workflowId: string }) =>
    ((await done(what)).nodes?.[0] as { result?: { seen: unknown } } | undefined)?.result?.seen;
  const grant = (more: object) =>
    post<{ grantId: string }>("/api/v1/resource-grants", { resourceId, packageName: "vault", resourceKey: "door", ...more }, 201);
  return { scheduler, dataDir, worker, workerDir, api, post, done, seen, grant };
}

/** Files below a folder that hold these bytes. */
function filesContaining(folder: string, text: string): string[] {
  const all = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = all.map((entry) => join(entry.parentPath, entry.name));
  return paths.filter((path) => readFileSync(path).includes(text)).map((path) => relative(folder, path));
}

const listPaths = ["runs", "audit", "workers", "resources", "resource-grants", "dead-letters", "workflows", "packages", "queues"];
const runPaths = ["", "/definition", "/events?limit=200", "/nodes", "/logs", "/bindings", "/artifacts"];

/** Everything that people can read of these runs. */
async function readAllAnswers(api: SchedulerApi, runs: readonly Run[]): Promise<string[]> {
  const nodes = runs.flatMap(({ runId, nodes: all = [] }) => all.map(({ nodeId }) => `runs/${runId}/nodes/${nodeId}`));
  const paths = [...listPaths, ...runs.flatMap(({ runId }) => runPaths.map((part) => `runs/${runId}${part}`)), ...nodes];
  const answers = paths.map(async (path) => {
    const response = await api.send("GET", `/api/v1/${path}`);
    if (response.status !== 200) throw new Error(`GET ${path} answered ${response.status}: ${await response.text()}`);
    return response.text();
  });
  return Promise.all(answers);
}

describe("a secret that is granted to a package", () => {
  it("[A240] a secret granted to a package reaches its handlers and appears in no row, fact, chunk, message, answer or log line", async () => {
    const { scheduler, dataDir, worker, workerDir, api, done, grant } = await startWithSecret();
    await grant({ scope: "global" });

    const opened = await done({ workflow: secretWorkflow("open", { isGuarded: true }) });
    const jammed = await done({ workflow: secretWorkflow("jam") });

    expect([opened.status, jammed.status]).toEqual(["succeeded", "failed"]);
    const answers = await readAllAnswers(api, [opened, jammed]);
    const text = answers.join("\n");
    // Both the middleware and its host had the secret: each reports its digest, not the secret.
    expect(text.match(new RegExp(digest, "g"))?.length).toBeGreaterThanOrEqual(2);
    expect(text).toContain("boasting");
    // Sent in pieces, in a message, in a result and in an error, and masked in each.
    expect(text).toContain("***, that is all");
    expect(text).toContain("the lock is jammed by ***");
    expect(text).not.toContain(secret.slice(9));
    expect(answers.filter((answer) => answer.includes(secret) || answer.includes("__resourceBinding"))).toEqual([]);
    // The resource itself is kept, as bytes, in a folder of its own.
    const files = [...filesContaining(dataDir, secret), ...filesContaining(workerDir, secret)];
    expect(files.map((path) => path.split("/")[0])).toEqual(["blobs"]);
    const output = [scheduler, worker].map((process) => process.stdout() + process.stderr());
    expect(output.join("")).toContain('"msg":"frame.out"');
    expect(output.filter((log) => log.includes(secret))).toEqual([]);
  });

  it("[A241] a secret granted to one workflow serves only its runs, not a definition that claims its id, and none once the grant is revoked", async () => {
    const { api, post, seen, grant } = await startWithSecret();
    const workflow = secretWorkflow("open");
    await post("/api/v1/workflows", workflow, 201);
    const { grantId } = await grant({ scope: "workflow", workflowId: workflow.id });

    expect(await seen({ workflowId: workflow.id })).toEqual(found);
    expect(await seen({ workflow })).toEqual(missing);

    expect((await api.send("DELETE", `/api/v1/resource-grants/${grantId}`)).status).toBe(204);
    await pollUntil(
      "a run without it",
      async () => JSON.stringify(await seen({ workflowId: workflow.id })) === JSON.stringify(missing),
    );
  });
});
