// The public API of the doors: the engine client, the session door, the REST door, and what an app needs to open them.

export { type PeerCertificate, readPeerCertificate } from "./auth/certificates.ts";
export {
  type IssuedSessionToken,
  type KeyRing,
  rotateKeys,
  type SessionKey,
  type SessionTokenClaims,
  sessionTokenMsMax,
} from "./auth/session-tokens.ts";
export {
  type AuthenticateToken,
  allGrants,
  type CallerIdentity,
  createTokenAuthenticator,
  createTokenRegistry,
  type Grant,
  grantsForRoles,
  type TokenEntry,
  type TokenRegistry,
  tenantGrants,
} from "./auth/token-registry.ts";
export {
  type AuthenticatedWorker,
  createWorkerAuthenticator,
  type RefreshableAuthenticator,
  type WorkerAuthenticator,
  type WorkerAuthenticatorOptions,
  type WorkerCredentials,
} from "./auth/worker-authenticator.ts";
export { buildCatalogue, type Catalogue, type CatalogueCache, createCatalogueCache } from "./catalogue/catalogue.ts";
export { createDoors, type Doors, type DoorsOptions } from "./doors.ts";
export {
  type AnswerHandler,
  createEngineClient,
  type EngineClient,
  type EngineClientOptions,
  faultFromData,
  type PushedEffect,
  type PushedEffectType,
} from "./engine-client/engine-client.ts";
export type { DoorEnvironment, LogRecord } from "./environment/door-environment.ts";
export {
  createMetricsRegistry,
  type MetricFamily,
  type MetricSeries,
  type MetricsRegistry,
} from "./environment/metrics-registry.ts";
export { type BlobStore, type BlobStores, createDocumentBlobStore } from "./resources/blob-store.ts";
export { createFolderBlobStore, removeUnfinishedBlobs } from "./resources/folder-blob-store.ts";
export {
  type AuthorizedRequest,
  createRestApi,
  type RestApi,
  type RestApiOptions,
  type RestRequest,
  type RestResponse,
} from "./rest/rest-api.ts";
export { createRestServer, type RestServerOptions } from "./rest/rest-server.ts";
export { type SessionLimits, sessionLimits } from "./session/connection/session-limits.ts";
export type { WorkerSocket, WorkerSocketEvents } from "./session/connection/worker-socket.ts";
export { createLostResourceFinder } from "./session/lifecycle/lost-resources.ts";
export type { TenantWindows, VendorFrameSink } from "./session/lifecycle/session-context.ts";
export { SessionServer, type SessionServerOptions } from "./session/server/session-server.ts";
export { createSessionDoor, type SessionDoor, type SessionDoorOptions, sessionPath } from "./session/server/websocket-door.ts";
export { createUserAccounts, type UserAccounts, type UserAccountsOptions } from "./users/user-accounts.ts";
export { createVendorFrameRelay, type ReceivedVendorFrame, type VendorFrameRelay } from "./vendor-frames/vendor-frame-relay.ts";
