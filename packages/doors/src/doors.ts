// REST and WebSocket on one port: both doors attached to one HTTP server that the app owns.

import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Duplex } from "node:stream";
import { fault } from "@astraflow/protocol";
import {
  createDocumentBlobStore,
  createLostResourceFinder,
  createManifestRecorder,
  createResourceBinder,
  createResourceRequirements,
  createVendorFrameRelay,
  createVolatileEvents,
} from "@astraflow/services";
import { restLimits } from "./rest/requests/rest-call.ts";
import { createRestServer, type RestServerOptions } from "./rest/rest-server.ts";
import { createDispatchResourceBinder, type DispatchResourceBinder } from "./session/lifecycle/dispatch-resource-binder.ts";
import { logWorkerEvents } from "./session/lifecycle/engine-effects.ts";
import { createSessionDoor, refuseUpgrade, type SessionDoorOptions, sessionPath } from "./session/server/websocket-door.ts";

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
  // Frames that workers send to vendors arrive at one door and leave by the other.
  const extensions = options.extensions ?? createVendorFrameRelay({ environment: options.environment });
  const manifestRecorder = createManifestRecorder(options);
  const recordManifests = options.recordManifests ?? manifestRecorder.recordManifests;
  const binder = options.binder ?? createDefaultBinder(options, () => manifestRecorder.whenIdle());
  const findLostResources = options.findLostResources ?? createLostResourceFinder(options);
  // So do heartbeats and traced frames.
  const volatile = options.volatile ?? createVolatileEvents();
  const session = createSessionDoor({ ...options, extensions, recordManifests, binder, findLostResources, volatile });
  const rest = createRestServer({ ...options, extensions, volatile });
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

/** Finds resources where the REST routes store them. */
function createDefaultBinder(options: DoorsOptions, manifestsWritten: () => Promise<void>): DispatchResourceBinder {
  const { environment } = options;
  const blobs = options.blobs ?? { db: createDocumentBlobStore(options) };
  const bindings = createResourceBinder({ ...options, blobs });
  return createDispatchResourceBinder({
    needs: createResourceRequirements({ ...options, whenManifestsStored: manifestsWritten }),
    bindings,
    environment,
  });
}
