import { Fault, routes, type Worker } from "@astraflow/protocol";
import { matchesWorkerFilter } from "@astraflow/services";
import { describe, expect, it } from "vitest";
import { RestCall } from "../requests/rest-call.ts";
import { readWorkerFilter } from "./worker-routes.ts";

const now = Date.parse("2026-01-01T00:01:00Z");
const worker: Worker = {
  id: "w",
  lastHeartbeatAt: "2026-01-01T00:00:30Z",
  queues: ["worker.w-1"],
  connected: true,
  registered: true,
  packages: [
    { name: "demo", version: "1.0.0", status: "installed" },
    { name: "llm", version: "2.0.0", status: "failed" },
  ],
  heartbeat: { healthy: true, metrics: { inflight: 3, latencyMs: 20 } },
};

const readFilter = (query: Record<string, string>) => {
  const identity = { tenant: "default", user: "ann", grants: [] };
  const request = { requestId: "q", identity, token: null, params: {}, query, header: () => undefined, body: null };
  return readWorkerFilter(new RestCall(request, routes.listWorkers, () => true));
};

const passing: Record<string, string>[] = [
  {},
  { queue: "worker.w-1", connected: "true", registered: "true", healthy: "true" },
  { packageName: "demo" },
  { packageName: "demo", packageVersion: "1.0.0", packageStatus: "installed" },
  { packageStatus: "failed" },
  { maxHeartbeatAgeSeconds: "30", maxInflight: "3", maxLatencyMs: "20" },
];
const failing: Record<string, string>[] = [
  { queue: "worker.w-2" },
  { connected: "false" },
  { registered: "false" },
  { healthy: "false" },
  { packageName: "demo", packageVersion: "2.0.0" },
  { packageName: "demo", packageStatus: "failed" },
  { maxHeartbeatAgeSeconds: "29.5" },
  { maxInflight: "2" },
  { maxLatencyMs: "19" },
];

describe("the filters of listWorkers", () => {
  it.each(passing)("[A155] GET /workers shows a worker that matches the filter %o", (query) => {
    expect(matchesWorkerFilter(worker, readFilter(query), now)).toBe(true);
  });

  it.each(failing)("[A155] GET /workers leaves out a worker that does not match the filter %o", (query) => {
    expect(matchesWorkerFilter(worker, readFilter(query), now)).toBe(false);
  });

  it.each(["connected", "healthy", "registered", "maxInflight", "maxLatencyMs", "maxHeartbeatAgeSeconds"])(
    "[A155] GET /workers names the filter %s if its value is invalid",
    (name) => {
      const read = () => readFilter({ [name]: "-perhaps" });
      expect(read).toThrow(Fault);
      expect(read).toThrow(`query.${name}`);
    },
  );
});
