// The words on the wire: every frame, payload, REST body, event and document, their faults and their codecs.
// This is the only entrance; nothing here knows a socket, a store or a clock.

export { isSecretType, unbound, unboundText } from "./binding-names.ts";
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
  ResourceRemoved,
  Result,
  ResultBatch,
} from "./exec.ts";
export { Fault, type FaultDetails, fault } from "./fault.ts";
export { type FaultCode, type FaultRow, faultCodes, isFaultCode } from "./fault-codes.ts";
export { faultPage } from "./fault-page.ts";
export { type FaultWords, faultText, settingsText } from "./fault-text.ts";
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
export {
  beginLedger,
  foldLedger,
  type LedgerBook,
  type LedgerFact,
  type LedgerFigures,
  type LedgerFolding,
} from "./ledger-fold.ts";
export { type JsonLimits, limits } from "./limits.ts";
export { type Manifest, type ManifestNode, ManifestSchema, readManifest } from "./manifest.ts";
export {
  type HistogramNumbers,
  histogramLines,
  type MetricKind,
  type MetricLabels,
  metricHead,
  metricLine,
} from "./metrics-text.ts";
export { nearest, suggest } from "./nearest.ts";
export type { Binding, NodeUi, Port, Widget } from "./node-face.ts";
export { type OpenapiDocument, openapiDocument } from "./openapi.ts";
export type { PkgCatalog, PkgEvent, PkgInstall, PkgUninstall } from "./pkg.ts";
export {
  instantOf,
  type QueryKeyOf,
  type QueryLine,
  type QueryPage,
  type QueryTerm,
  queryKeys,
  readQueryLine,
  writeQueryLine,
} from "./query-line.ts";
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
  type RunPlan,
  type RunRef,
  type RunStartRequest,
  type RunStatus,
  readRunStartRequest,
} from "./rest.ts";
export type { CatalogNode, CatalogPort, PackageDetail, PackageSummary } from "./rest-catalog.ts";
export {
  type CommandDetail,
  readWorkerCommand,
  readWorkerEnrol,
  readWorkerSign,
  type WorkerCommand,
  type WorkerEnrolRequest,
  type WorkerSignRequest,
} from "./rest-enrolment.ts";
export {
  type AuditEvent,
  passwordLimits,
  readPeopleRequest,
  type UserRole,
  type UserSummary,
  userRoles,
} from "./rest-people.ts";
export {
  type Resource,
  type ResourceGrant,
  type ResourceGrantCreateRequest,
  type ResourceUploadInit,
  type ResourceUploadSession,
  readResourceForm,
  readResourceGrantCreate,
  readResourceUploadInit,
  resourceLimits,
} from "./rest-resources.ts";
export type { ByteRange, Ledger, LogLine, RunDefinition, RunLedger, RunLog } from "./rest-runs.ts";
export {
  type Bulk,
  type BulkFilter,
  type BulkRequest,
  type DeadLetter,
  type Placement,
  type QueueList,
  type RebindRequest,
  type ReplayRequest,
  type RetryRequest,
  readBulkRequest,
  readRebindRequest,
  readReplayRequest,
  readRetryRequest,
  readSteerRequest,
  type Steered,
  type SteerRequest,
} from "./rest-steering.ts";
export {
  readViewRequest,
  type SavedView,
  type ViewRequest,
  viewLimits,
  viewPages,
} from "./rest-views.ts";
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
export {
  type DraftChange,
  type DraftEditRequest,
  editsMax,
  type PublishVersionRequest,
  previewCharsMax,
  readDraftEditRequest,
  readPublishVersionRequest,
  readRollbackRequest,
  readWorkflowCloneRequest,
  readWorkflowFile,
  readWorkflowPreview,
  readWorkflowPublishRequest,
  type Visibility,
  versionsInFileMax,
  visibilities,
  type WorkflowFile,
  type WorkflowPackageSummary,
  type WorkflowPackageVersion,
  type WorkflowProblem,
  type WorkflowPublishRequest,
  type WorkflowRef,
  type WorkflowVersion,
  workflowFileFormat,
} from "./rest-workflows.ts";
export type { RawBody, RouteAnswer, RouteInput } from "./route-types.ts";
export { type Grant, type QueryParameter, type Route, type RouteName, routes } from "./routes.ts";
export {
  type ArtifactMoment,
  beginFold,
  foldRun,
  type RunFact,
  type RunFolding,
  type RunMoment,
  runStatusOf,
  type SaidMoment,
  stageOfPhase,
  statusOfPhase,
  type TaskMoment,
  type TaskPhase,
  type TaskTurn,
  turnOf,
} from "./run-fold.ts";
export { type Shape, type ShapeOptions, shape } from "./shape.ts";
export { type JsonObject, type JsonValue, readInstant } from "./words.ts";
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
  workflowFaults,
} from "./workflow.ts";
