// REST and WebSocket on one port: both doors attached to one HTTP server that the app owns.

import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Duplex } from "node:stream";
import { fault, sessionPath } from "@astraflow/protocol";
import { createServices, createVolatileEvents, type Services } from "@astraflow/services";
import type { DoorEnvironment } from "./environment/door-environment.ts";
import { restLimits } from "./rest/requests/rest-call.ts";
import { createRestServer, type RestServerOptions } from "./rest/rest-server.ts";
import { createDispatchResourceBinder, type DispatchResourceBinder } from "./session/lifecycle/dispatch-resource-binder.ts";
import { logWorkerEvents } from "./session/lifecycle/engine-effects.ts";
import { createSessionDoor, refuseUpgrade, type SessionDoorOptions } from "./session/server/websocket-door.ts";

export type DoorsOptions = SessionDoorOptions & RestServerOptions;

export interface Doors {
  /** Resolves when the server, once listening, will answer. */
  attach(server: Server | TlsServer): Promise<void>;
  /** Closes the connections of workers and finishes running requests. The app closes the server itself. */
  close(): Promise<void>;
  /** Worker sockets that are open. */
  readonly connections: number;
}

export function createDoors(options: DoorsOptions): Doors {
  const volatile = options.volatile ?? createVolatileEvents();
  const services = createServices({ ...options, volatile });
  const { vendorFrames: extensions, manifestRecorder } = services;
  const session = createSessionDoor({
    ...options,
    extensions,
    volatile,
    recordManifests: options.recordManifests ?? manifestRecorder.recordManifests,
    binder: options.binder ?? createDefaultBinder(services, options.environment),
    findLostResources: options.findLostResources ?? services.findLostResources,
  });
  const rest = createRestServer(options, services);
  const stopWorkerLog = logWorkerEvents(options.engineClient, options.environment);
  return {
    async attach(server) {
      await rest.ready();
      // Limits slow senders of headers and bodies; the session door limits WebSockets.
      server.headersTimeout = restLimits.headersMs;
      server.requestTimeout = restLimits.requestMs;
      server.on("request", (request, response) => rest.routing(request, response));
      server.on("upgrade", (request, socket: Duplex, head: Buffer) => {
        // The query is neither read nor logged: a token in a URL is never accepted.
        const path = request.url?.split("?")[0];
        if (path === sessionPath) session.upgrade(request, socket, head);
        else
          refuseUpgrade(
            socket,
            fault("E.ROUTE.UNKNOWN", `no WebSocket endpoint at this path; workers connect to ${sessionPath}`),
          );
      });
    },
    async close() {
      extensions.close();
      stopWorkerLog();
      await Promise.all([session.close(), rest.close()]);
    },
    get connections() {
      return session.connections;
    },
  };
}

const createDefaultBinder = (services: Services, environment: DoorEnvironment): DispatchResourceBinder =>
  createDispatchResourceBinder({ needs: services.resourceRequirements, bindings: services.resourceBinder, environment });
