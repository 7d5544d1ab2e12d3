// A little of everything in the installation, so that reads find something, and the ids of it for the parameters of paths.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { repositoryRoot } from "../repository-files.ts";
import type { Installation } from "./installation.ts";

/** Values by the name of the path parameter. */
export type SampleIds = Readonly<Record<string, readonly (string | number)[]>>;

type Json = Record<string, unknown>;

/** So many of each: the comparison also removes things. */
const copies = 6;
const waitMsMax = 60_000;

export async function createSampleData({ url, token }: Installation): Promise<SampleIds> {
  const api = createApi(url, token);
  const text = readFileSync(join(repositoryRoot, "examples", "workflows", "hello-chain.json"), "utf8");
  const ids: Record<string, string[]> = {};
  const note = (parameter: string, id: unknown) => (ids[parameter] ??= []).push(String(id));
  for (let at = 0; at < copies; at += 1) {
    const workflow = { ...(JSON.parse(text) as Json), id: `1878297d-f049-4a4e-b6d6-9d4a45cb830${at}` };
    const workflowId = String((await api.send("POST", "/api/v1/workflows", workflow))["workflowId"]);
    note("workflowId", workflowId);
    await api.send("POST", `/api/v1/workflows/${workflowId}/versions`, { note: "first" });
    note(
      "packageId",
      (await api.send("POST", `/api/v1/workflows/${workflowId}/publish`, { version: "1.0.0", visibility: "public" }))[
        "packageId"
      ],
    );
    const resource = await api.upload(`file ${at}`);
    note("resourceId", resource["resourceId"]);
    const grant = { resourceId: resource["resourceId"], packageName: "demo", resourceKey: `key-${at}`, scope: "global" };
    note("grantId", (await api.send("POST", "/api/v1/resource-grants", grant))["grantId"]);
    note("uploadId", (await api.send("POST", "/api/v1/resources/uploads", { filename: `part-${at}`, sizeBytes: 4 }))["uploadId"]);
    note(
      "userId",
      (await api.send("POST", "/api/v1/users", { username: `user-${at}`, password: "a long enough sentence" }))["userId"],
    );
    note("viewId", (await api.send("POST", "/api/v1/views", { page: "runs", name: `view ${at}`, query: {} }))["viewId"]);
    note("bulkId", (await api.send("POST", "/api/v1/runs/bulk", { action: "cancel", filter: { clientId: "nobody" } }))["bulkId"]);
    await api.send("POST", "/api/workers/register", { workerId: `enrolled-${at}` });
    note("workerName", `enrolled-${at}`);
    note("runId", (await api.send("POST", "/api/v1/runs", { workflowId, clientId: "conform" }))["runId"]);
  }
  for (const runId of ids["runId"] ?? []) await waitForRunEnd(api, runId);
  const { items: nodes } = (await api.send("GET", `/api/v1/runs/${ids["runId"]?.[0]}/nodes`)) as { items: Json[] };
  for (const node of nodes) note("nodeId", node["nodeId"]);
  for (const node of nodes) note("taskId", node["taskId"]);
  const { items: workers } = (await api.send("GET", "/api/v1/workers?connected=true")) as { items: Json[] };
  for (const worker of workers) note("workerId", worker["workerId"] ?? worker["instanceId"]);
  note(
    "commandId",
    (await api.send("POST", `/api/v1/workers/${encodeURIComponent(ids["workerId"]?.[0] ?? "")}/undrain`))["commandId"],
  );
  note("packageName", "demo");
  return { ...ids, version: [1] };
}

interface SampleApi {
  send(method: string, path: string, body?: Json): Promise<Json>;
  upload(content: string): Promise<Json>;
}

function createApi(url: string, token: string): SampleApi {
  const authorization = `Bearer ${token}`;
  const read = async (what: string, response: Response): Promise<Json> => {
    if (!response.ok) throw new Error(`${what} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as Json;
  };
  return {
    async send(method, path, body) {
      const json = body === undefined ? {} : { body: JSON.stringify(body) };
      const headers = { authorization, ...(body !== undefined && { "content-type": "application/json" }) };
      return read(`${method} ${path}`, await fetch(url + path, { method, headers, ...json }));
    },
    async upload(content) {
      const form = new FormData();
      form.set("file", new Blob([content]), "sample.txt");
      const path = "/api/v1/resources";
      return read(`POST ${path}`, await fetch(url + path, { method: "POST", headers: { authorization }, body: form }));
    },
  };
}

async function waitForRunEnd(api: SampleApi, runId: string): Promise<void> {
  const end = performance.now() + waitMsMax;
  while (performance.now() < end) {
    const { status } = await api.send("GET", `/api/v1/runs/${runId}`);
    if (status === "succeeded") return;
    await pause(100);
  }
  throw new Error(`run ${runId} has not succeeded after ${waitMsMax} ms`);
}
