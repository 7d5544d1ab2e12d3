// The worker's HTTP server for /metrics, /healthz and /inventory. It runs beside the link, so blocking handlers do not block it.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { describeInventory, listHealthProblems, listWarnings, renderMetrics, type StatusSources } from "./status.ts";

export interface StatusServer {
  /** As the system gave it: `http://127.0.0.1:9464`. */
  readonly url: string;
  close(): Promise<void>;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const requestMsMax = 10_000;
const connectionsMax = 64;

export async function openStatusServer({ host, port }: ListenAddress, sources: StatusSources): Promise<StatusServer> {
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
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${given}`,
    async close() {
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
