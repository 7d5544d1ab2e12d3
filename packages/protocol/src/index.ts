// The words on the wire: every frame, payload, REST body, event and document, their faults and their codecs.
// This is the only entrance; nothing here knows a socket, a store or a clock.

export type { Ack, Drain, Handshake, Heartbeat, Held, Register, Reset, Resume, SessionAccept } from "./control.ts";
export { schemaDocuments } from "./documents.ts";
export { encodeEnvelope, type OutgoingFrame, spellPayload, spliceJson, type WireEnd, wireEnd } from "./encode.ts";
export { type Dialect, dialectOf, type Envelope, readEnvelope } from "./envelope.ts";
export { type EventData, EventSchema, type EventType, eventData, type ServerEvent } from "./events.ts";
export type {
  Artifact,
  Cancel,
  Chunk,
  Dispatch,
  DispatchBatch,
  ExecError,
  Feedback,
  Inventory,
  NextRequest,
  NextResponse,
  Result,
  ResultBatch,
} from "./exec.ts";
export { Fault, type FaultDetails, fault } from "./fault.ts";
export { type FaultCode, type FaultRow, faultCodes, isFaultCode } from "./fault-codes.ts";
export { faultPage } from "./fault-page.ts";
export {
  type Frame,
  type FrameType,
  frameTypeOf,
  type PayloadOf,
  type Payloads,
  prepareFrames,
  readFrame,
  readPayload,
  wireTypeOf,
} from "./frames.ts";
export { readJson } from "./json.ts";
export { type JsonLimits, limits } from "./limits.ts";
export { type Manifest, type ManifestNode, ManifestSchema, readManifest } from "./manifest.ts";
export type { Binding, NodeUi, Port, Widget } from "./node-face.ts";
export { type OpenapiDocument, openapiDocument } from "./openapi.ts";
export type { PkgCatalog, PkgEvent, PkgInstall, PkgUninstall } from "./pkg.ts";
export {
  type ErrorBody,
  type Health,
  type NodeStatus,
  type Run,
  type RunArtifact,
  type RunEvent,
  type RunEventList,
  type RunList,
  type RunNodeStatus,
  type RunRef,
  type RunStartRequest,
  type RunStatus,
  readRunStartRequest,
} from "./rest.ts";
export type {
  AuditEvent,
  CatalogNode,
  PackageDetail,
  PackageSummary,
  Resource,
  WorkerCommand,
  WorkflowPublishRequest,
  WorkflowRef,
} from "./rest-later.ts";
export {
  type CommandRef,
  type ExtensionFrame,
  type ExtensionRef,
  type ExtensionRequest,
  type HeldAttempt,
  type Liveness,
  readExtensionRequest,
  readWorkerKickRequest,
  type Scaling,
  type Worker,
  type WorkerDetail,
  type WorkerDiagnostics,
  type WorkerHandler,
  type WorkerKickRequest,
  type WorkerList,
  type WorkerPackage,
} from "./rest-workers.ts";
export { type QueryParameter, type Route, type RouteName, routes } from "./routes.ts";
export { type Shape, type ShapeOptions, shape } from "./shape.ts";
export type { JsonObject, JsonValue } from "./words.ts";
export {
  type Edge,
  type Middleware,
  type Policy,
  type ResultError,
  readWorkflow,
  type Workflow,
  type WorkflowNode,
  type WorkflowNodeState,
  WorkflowSchema,
} from "./workflow.ts";
