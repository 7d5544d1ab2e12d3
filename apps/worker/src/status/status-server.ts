// The worker's HTTP server for /metrics, /healthz and /inventory. It runs beside the link, so blocking handlers do not block it.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { Fault, readManifest } from "@astraflow/protocol";
import type { LoadedPackagesSummary, SessionWorker, WorkerHealth, WorkerIdentity } from "@astraflow/runtime";
import type { Gauge, WorkerMetrics } from "./metrics.ts";

export type StatusServer = Awaited<ReturnType<typeof openStatusServer>>;

export interface StatusSources {
  readonly identity: Pick<WorkerIdentity, "name" | "tenant" | "version" | "boot"> & { readonly worker: string };
  readonly metrics: WorkerMetrics;
  readonly worker: Pick<SessionWorker, "inventory" | "isOutboxWritable"> & {
    readonly runner: { readonly loadedPackages: LoadedPackagesSummary };
  };
  readHealth(): WorkerHealth;
}

const requestMsMax = 10_000;
const connectionsMax = 64;

export async function openStatusServer({ host, port }: { host: string; port: number }, sources: StatusSources) {
  const server = createServer({ requestTimeout: requestMsMax, headersTimeout: requestMsMax }, (request, response) => {
    handleRequest(request, response, sources);
  });
  server.maxConnections = connectionsMax;
  server.listen(port, host);
  await once(server, "listening");
  // Nobody's scrape keeps a worker alive.
  server.unref();
  const { port: given } = server.address() as AddressInfo;
  return {
    /** As the system gave it: `http://127.0.0.1:9464`. */
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${given}`,
    async close(): Promise<void> {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function handleRequest(request: IncomingMessage, response: ServerResponse, sources: StatusSources): void {
  const send = (status: number, type: string, text: string): void => {
    response.writeHead(status, { "content-type": type, "cache-control": "no-store" });
    response.end(request.method === "HEAD" ? undefined : text);
  };
  const sendJson = (status: number, body: object): void => send(status, "application/json", `${JSON.stringify(body)}\n`);
  if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", "GET, HEAD");
    return sendJson(405, { error: "E.ROUTE.METHOD", message: "method not allowed; use GET or HEAD" });
  }
  switch ((request.url ?? "").split("?", 1)[0]) {
    case "/metrics":
      return send(200, "text/plain; version=0.0.4; charset=utf-8", renderMetrics(sources));
    case "/healthz": {
      const troubles = listHealthProblems(sources);
      const body = { ok: troubles.length === 0, problems: troubles, warnings: listWarnings(sources) };
      return sendJson(body.ok ? 200 : 503, body);
    }
    case "/inventory":
      return sendJson(200, describeInventory(sources));
    default:
      return sendJson(404, { error: "E.NOT_FOUND", message: "not found; this server has /metrics, /healthz and /inventory" });
  }
}

function renderMetrics(sources: StatusSources): string {
  const { counts, phase, leaseLeftMs } = sources.worker.inventory();
  const { metrics } = sources.readHealth();
  const { user, system } = process.cpuUsage();
  const gauges: Gauge[] = [
    ["inflight_tasks", "Handlers that were called and have not come back.", counts.occupied],
    ["held_attempts", "Attempts this worker answers for.", counts.held],
    ["outbox_length", "Outcomes that the scheduler has not acked.", counts.outbox],
    ["outbox_writable", "1 while outcomes can be kept on disk.", sources.worker.isOutboxWritable ? 1 : 0],
    ["unacked_frames", "Messages of every kind that the scheduler has not acked.", counts.unacked],
    ["session_ready", "1 while the session takes work.", phase === "READY" ? 1 : 0],
    ["session_lease_left_ms", "Milliseconds until the lease expires and running work is stopped.", leaseLeftMs ?? 0],
    ...Object.entries(metrics).map(([name, value]): Gauge => [`worker_${name}`, "The same number as in the heartbeat.", value]),
    ["process_resident_memory_bytes", "Memory of the process.", process.memoryUsage.rss()],
    ["process_cpu_seconds", "Processor time of the process so far.", (user + system) / 1e6],
    ["process_uptime_seconds", "Age of the process.", process.uptime()],
  ];
  return sources.metrics.render(gauges);
}

/** Reasons to take this worker out of service; empty: it is well. The session is no part of it: a scheduler may be away for a while. */
function listHealthProblems(sources: StatusSources): readonly string[] {
  const outbox = sources.worker.isOutboxWritable ? [] : ["the outbox cannot be written"];
  const closed = sources.worker.inventory().phase === "CLOSED" ? ["the link is closed"] : [];
  return [...closed, ...outbox];
}

/** What keeps new work away without being a reason to restart anything. */
function listWarnings(sources: StatusSources): readonly string[] {
  const { phase } = sources.worker.inventory();
  const isInSession = phase === "READY" || phase === "DRAINING" || phase === "CLOSED";
  return [...(isInSession ? [] : [`there is no session with the scheduler (${phase})`]), ...sources.readHealth().problems];
}

function describeInventory(sources: StatusSources): object {
  const { phase, session, leaseLeftMs, attempts, counts, stream } = sources.worker.inventory();
  const { metrics, problems } = sources.readHealth();
  return {
    ...sources.identity,
    pid: process.pid,
    session: { phase, id: session, leaseLeftMs },
    handlers: sources.worker.runner.loadedPackages.packages.flatMap(listHandlers),
    packageProblems: sources.worker.runner.loadedPackages.problems,
    running: attempts,
    resources: metrics,
    problems,
    outbox: { length: counts.outbox, isWritable: sources.worker.isOutboxWritable },
    counts,
    stream,
  };
}

function listHandlers({ name, version, manifestJson, nodeTypes }: LoadedPackagesSummary["packages"][number]): object[] {
  const manifest = readManifest(manifestJson);
  if (manifest instanceof Fault) return [];
  return manifest.nodes
    .filter((node) => nodeTypes.includes(node.type))
    .map((node) => {
      const adapter = manifest.adapters.find((one) => one.name === node.adapter);
      return {
        package: name,
        version,
        runtime: adapter?.runtime ?? "node",
        nodeType: node.type,
        capabilities: adapter?.capabilities ?? [],
      };
    });
}
