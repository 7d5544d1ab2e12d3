// REST and WebSocket on one port: both doors attached to one HTTP server that the app owns.

import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Duplex } from "node:stream";
import { fault, sessionPath } from "@astraflow/protocol";
import { createServices, VolatileEvents } from "@astraflow/services";
import { LoopTurns } from "./rest/requests/loop-turns.ts";
import { PipelinedRequests } from "./rest/requests/pipelined-requests.ts";
import { restLimits } from "./rest/requests/rest-call.ts";
import { answerUnreadableRequests } from "./rest/requests/unreadable-requests.ts";
import { createRestServer, isProbe, type RestServerOptions } from "./rest/rest-server.ts";
import { logWorkerEvents } from "./session/lifecycle/engine-effects.ts";
import { refuseUpgrade, SessionDoor, type SessionDoorOptions } from "./session/server/websocket-door.ts";

export type DoorsOptions = SessionDoorOptions & RestServerOptions;

/** Heads of requests, before it is known whose they are: addresses take turns. Connections and what they send ahead have limits of their own. */
const headTurnLimits = { itemsMax: Number.POSITIVE_INFINITY, itemsPerTenantMax: Number.POSITIVE_INFINITY };

export class Doors {
  readonly #session: SessionDoor;
  readonly #rest: ReturnType<typeof createRestServer>;
  readonly #closeServices: () => void;
  readonly #environment: DoorsOptions["environment"];
  readonly #metrics: DoorsOptions["metrics"];

  constructor(options: DoorsOptions) {
    this.#environment = options.environment;
    this.#metrics = options.metrics;
    const volatile = options.volatile ?? new VolatileEvents();
    const rolloutsEnded = options.metrics.counter("package_rollouts_total", "Rollouts and rollbacks that have ended, by how.", [
      "tenant",
      "status",
    ]);
    const services = createServices({
      ...options,
      volatile,
      onRolloutEnded: (tenant, status) => rolloutsEnded.withLabels(tenant, status).add(1),
    });
    const { vendorFrames: extensions, manifestRecorder, findLostResources, dispatchResources } = services;
    this.#session = new SessionDoor({
      recordManifests: (tenant, reported) => manifestRecorder.recordManifests(tenant, reported),
      findLostResources,
      dispatchResources,
      ...options,
      extensions,
      volatile,
    });
    this.#rest = createRestServer(options, services);
    const stopWorkerLog = logWorkerEvents(options.engineClient, options.environment);
    this.#closeServices = () => {
      extensions.close();
      stopWorkerLog();
    };
  }

  /** Worker sockets that are open. */
  get connections(): number {
    return this.#session.connections;
  }

  /** Resolves when the server, once listening, will answer. */
  async attach(server: Server | TlsServer): Promise<void> {
    await this.#rest.ready();
    // Limits slow senders of headers and bodies; the session door limits WebSockets.
    server.headersTimeout = restLimits.headersMs;
    server.requestTimeout = restLimits.requestMs;
    answerUnreadableRequests(server, this.#environment);
    const heads = new LoopTurns(this.#environment, headTurnLimits);
    const requests = new PipelinedRequests((request, response) => {
      const { socket, url } = request;
      const turn = isProbe(url) ? null : heads.begin(socket.remoteAddress ?? "", 0);
      if (turn === null) return this.#rest.routing(request, response);
      turn.then(
        // Its caller may have gone while it waited.
        () => response.destroyed || this.#rest.routing(request, response),
        () => socket.destroy(),
      );
    }, this.#metrics);
    server.on("request", requests.add);
    server.on("upgrade", (request, socket: Duplex, head: Buffer) => {
      // The query is neither read nor logged: a token in a URL is never accepted.
      if (request.url?.split("?")[0] === sessionPath) return this.#session.upgrade(request, socket, head);
      const message = `no WebSocket endpoint at this path; workers connect to ${sessionPath}`;
      refuseUpgrade(socket, fault("E.ROUTE.UNKNOWN", message));
    });
  }

  /** Closes the connections of workers and finishes running requests. The app closes the server itself. */
  async close(): Promise<void> {
    this.#closeServices();
    await Promise.all([this.#session.close(), this.#rest.close()]);
  }
}
