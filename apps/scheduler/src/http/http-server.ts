// The socket that REST and the worker door share. It is taken before anything else is touched, so that a port in use leaves no trace
// in the data folder, and it answers "not yet" until the doors are attached. With certificates it speaks TLS and nothing else.

import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { type ServerTlsCredentials, secureContextOptions, tlsServerOptions } from "../credentials/tls-credentials.ts";
import { StartupError } from "../platform/startup-error.ts";
import type { Address } from "../settings/setting-readers.ts";
import { ConnectionLimits, type ConnectionLimitsOptions } from "./connection-limits.ts";

export type BoundServer = Awaited<ReturnType<typeof bindServer>>;

const answerNotReady: RequestListener = (_request, response) => {
  const body = JSON.stringify({ error: "E.STARTING", message: "the scheduler is starting; try again in a moment" });
  response.writeHead(503, { "content-type": "application/json", "retry-after": "1" }).end(body);
};

const listenErrorReasons: Record<string, string> = {
  EADDRINUSE: "is in use by another program; stop that one, or choose another address with --listen (port 0 picks a free one)",
  EACCES: "may not be used by this user; choose a port above 1023 with --listen",
  EADDRNOTAVAIL: "is no address of this machine; choose another with --listen",
  ENOTFOUND: "is no address that can be found; choose another with --listen",
};

/** How often connections that do not finish their request in time are looked for; how long they have is the doors' business. */
const connectionsCheckingInterval = 1_000;

export async function bindServer(
  address: Address,
  material: ServerTlsCredentials | null,
  connections: ConnectionLimitsOptions = { connectionsMax: Number.POSITIVE_INFINITY, trustedProxies: [] },
) {
  const secure = material === null ? null : createTlsServer({ ...tlsServerOptions(material), connectionsCheckingInterval });
  const server: Server | TlsServer = secure ?? createServer({ connectionsCheckingInterval });
  const limits = new ConnectionLimits(connections);
  server.on("connection", (socket: Socket) => limits.admit(socket));
  server.on("request", answerNotReady);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const reason =
        listenErrorReasons[cause.code ?? ""] ?? `cannot be listened on (${cause.message}); choose another address with --listen`;
      reject(new StartupError(`${address.host}:${address.port} ${reason}.`, cause));
    });
    server.listen({ host: address.host, port: address.port }, resolve);
  });
  // Connections still in their TLS handshake carry no request, and would delay the end until they time out.
  const openSockets = new Set<Socket>();
  if (secure !== null) {
    server.on("connection", (socket: Socket) => {
      openSockets.add(socket);
      socket.once("close", () => openSockets.delete(socket));
    });
  }
  const { port } = server.address() as AddressInfo;
  return {
    server,
    isSecure: secure !== null,
    /** New connections get these; open ones keep what they have. Only where it is secure. */
    replaceCertificates: (fresh: ServerTlsCredentials) => secure?.setSecureContext(secureContextOptions(fresh)),
    host: address.host.includes(":") ? `[${address.host}]` : address.host,
    port,
    /** From now on the doors answer. */
    startServing(): void {
      server.off("request", answerNotReady);
      // Not before the session door listens: with a listener, upgrades are no longer answered as requests.
      server.on("upgrade", (_request, socket) => limits.releaseUpgraded(socket as Socket));
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
        for (const socket of openSockets) socket.destroy();
      }),
  };
}
