// The public API of the doors: the engine client, the session door, the REST door, and what an app needs to open them.

export { type PeerCertificate, readPeerCertificate } from "./auth/certificates.ts";
export {
  type AuthenticateToken,
  createTokenAuthenticator,
  type TokenEntry,
  TokenRegistry,
} from "./auth/token-registry.ts";
export {
  type AuthenticatedWorker,
  createWorkerAuthenticator,
  type RefreshableAuthenticator,
  type WorkerAuthenticator,
  type WorkerAuthenticatorOptions,
  type WorkerCredentials,
} from "./auth/worker-authenticator.ts";
export {
  type IssuedSessionToken,
  type KeyRing,
  type SessionTokenClaims,
  sessionTokenMsMax,
} from "./auth/worker-session-tokens.ts";
export { Doors, type DoorsOptions } from "./doors.ts";
export type { DoorEnvironment } from "./environment/door-environment.ts";
export {
  createMetricsRegistry,
  type MetricFamily,
  type MetricSeries,
  type MetricsRegistry,
} from "./environment/metrics-registry.ts";
export { RestApi, type RestApiOptions, type RestRequest, type RestResponse } from "./rest/rest-api.ts";
export { createRestServer, type RestServerOptions } from "./rest/rest-server.ts";
export { type SessionLimits, sessionLimits } from "./session/connection/session-limits.ts";
export type { WorkerSocket, WorkerSocketEvents } from "./session/connection/worker-socket.ts";
export type { TenantWindows } from "./session/lifecycle/session-context.ts";
export { SessionServer, type SessionServerOptions } from "./session/server/session-server.ts";
export { SessionDoor, type SessionDoorOptions } from "./session/server/websocket-door.ts";
