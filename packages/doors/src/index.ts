// The public API of the doors: the session door, the REST door, and what an app needs to open them.

export {
  type AuthenticateToken,
  createTokenAuthenticator,
  TokenRegistry,
} from "./auth/token-registry.ts";
export {
  type AuthenticatedWorker,
  createWorkerAuthenticator,
  type RefreshableAuthenticator,
  type WorkerAuthenticator,
} from "./auth/worker-authenticator.ts";
export {
  type KeyRing,
  type SessionTokenClaims,
} from "./auth/worker-session-tokens.ts";
export { Doors } from "./doors.ts";
export { createMetricsRegistry } from "./environment/metrics-registry.ts";
export { type ForwardedRequest, type OwnThread, toAuthorizedRequest } from "./rest/own-thread.ts";
export { TenantTurns, type TurnLimits } from "./rest/requests/tenant-turns.ts";
export { RestApi, type RestResponse } from "./rest/rest-api.ts";
export { createRestServer } from "./rest/rest-server.ts";
export type { LoopTimes } from "./rest/system/system-routes.ts";
export { type SessionLimits, sessionLimits } from "./session/connection/session-limits.ts";
export type { WorkerSocket, WorkerSocketEvents } from "./session/connection/worker-socket.ts";
export { SessionServer } from "./session/server/session-server.ts";
export { SessionDoor } from "./session/server/websocket-door.ts";
