// The doors' entrance: the wire to the engine, the session door, the REST door, and what an app needs to open them.

export { buildCatalogue, type Catalogue, type CatalogueCache, createCatalogueCache } from "./catalogue.ts";
export { readPeerCertificate } from "./certificates.ts";
export { createDoors, type Doors, type DoorsOptions } from "./doors.ts";
export { createVendorFrameRelay, type ReceivedVendorFrame, type VendorFrameRelay } from "./extensions.ts";
export type {
  AuthenticatedWorker,
  IssuedSessionToken,
  PeerCertificate,
  SessionTokenClaims,
  WorkerAuthenticator,
  WorkerCredentials,
} from "./gate.ts";
export { createWorkerAuthenticator, type RefreshableAuthenticator, type WorkerAuthenticatorOptions } from "./gate-keeper.ts";
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
} from "./identity.ts";
export {
  type AnswerHandler,
  createEngineClient,
  type EngineClient,
  type EngineClientOptions,
  faultFromData,
  type PushedEffect,
  type PushedEffectType,
} from "./link.ts";
export { createMetricsRegistry, type MetricFamily, type MetricSeries, type MetricsRegistry } from "./metrics.ts";
export type { DoorEnvironment, LogRecord } from "./outside.ts";
export { createUserAccounts, type UserAccounts, type UserAccountsOptions } from "./people/people.ts";
export { type BlobStore, type BlobStores, createDocumentBlobStore } from "./resources/blobs.ts";
export { createFolderBlobStore, removeUnfinishedBlobs } from "./resources/blobs-folder.ts";
export { createRestServer, type RestServerOptions } from "./rest/app.ts";
export {
  type AuthorizedRequest,
  createRestApi,
  type RestApi,
  type RestApiOptions,
  type RestRequest,
  type RestResponse,
} from "./rest/calls.ts";
export { createSessionDoor, type SessionDoor, type SessionDoorOptions, sessionPath } from "./session/door.ts";
export { createSessionServer, type SessionServer, type SessionServerOptions } from "./session/hall.ts";
export { createLostResourceFinder } from "./session/kept-resources.ts";
export { type SessionLimits, sessionLimits } from "./session/limits.ts";
export type { WorkerSocket, WorkerSocketEvents } from "./session/peer-socket.ts";
export type { TenantWindows, VendorFrameSink } from "./session/surroundings.ts";
export { type KeyRing, rotateKeys, type SessionKey, sessionTokenMsMax } from "./session-tokens.ts";
