// The doors' entrance: the wire to the engine, the session door, the REST door, and what an app needs to open them.

export { type Catalogue, type Catalogues, catalogueOf, createCatalogues } from "./catalogue.ts";
export { certificateOf } from "./certificates.ts";
export { createDoors, type Doors, type DoorsOptions } from "./doors.ts";
export { createExtensions, type Extensions, type WorkerFrame } from "./extensions.ts";
export type { AdmittedWorker, Gate, IssuedToken, SessionClaims, ShownCertificate, WorkerClaim } from "./gate.ts";
export { createGate, type GateKeeper, type GateOptions } from "./gate-keeper.ts";
export {
  type Authenticate,
  allGrants,
  createTokenBook,
  createTokens,
  type Grant,
  grantsOf,
  type Identity,
  type TokenBook,
  type TokenEntry,
  tenantGrants,
} from "./identity.ts";
export { createLink, faultOf, type Hear, type Link, type LinkOptions, type News, type NewsOf } from "./link.ts";
export { createMetrics, type Family, type Metrics, type Series } from "./metrics.ts";
export type { LogLine, Outside } from "./outside.ts";
export { createPeople, type People, type PeopleOptions } from "./people/people.ts";
export { type Blobs, type BlobsByProvider, createDocBlobs } from "./resources/blobs.ts";
export { createFolderBlobs, tidyBlobs } from "./resources/blobs-folder.ts";
export { createRest, type RestOptions } from "./rest/app.ts";
export {
  type AdmittedRequest,
  createRestCalls,
  type RestAnswer,
  type RestCalls,
  type RestCallsOptions,
  type RestRequest,
} from "./rest/calls.ts";
export { createSessionDoor, type SessionDoor, type SessionDoorOptions, sessionPath } from "./session/door.ts";
export { createSessionHall, type SessionHall, type SessionHallOptions } from "./session/hall.ts";
export { createKeptComparison } from "./session/kept-resources.ts";
export { type SessionLimits, sessionLimits } from "./session/limits.ts";
export type { PeerEars, PeerSocket } from "./session/peer-socket.ts";
export type { ExtensionEar, TenantWindows } from "./session/surroundings.ts";
export { type KeyRing, type SessionKey, sessionTokenMsMax, turnRing } from "./session-tokens.ts";
