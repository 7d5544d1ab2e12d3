// The words on the wire: every frame, payload, REST body, event and document, their faults and their codecs.
// This is the only entrance; nothing here knows a socket, a store or a clock.

export { isSecretType, stringifyWithoutBindings, withoutBindings } from "./binding-names.ts";
export type {
  AckPayload,
  DrainPayload,
  HandshakePayload,
  HeartbeatPayload,
  HeldTaskRef,
  RegisterPayload,
  ResetPayload,
  ResumePayload,
  SessionAcceptPayload,
} from "./control.ts";
export { buildSchemaDocuments } from "./documents.ts";
export {
  createEnvelopeTemplate,
  type EnvelopeTemplate,
  encodeFrame,
  insertRawJson,
  type OutgoingFrame,
  toDialectPayload,
} from "./encode.ts";
export { type Dialect, detectDialect, type Envelope, readEnvelope } from "./envelope.ts";
export { type EventData, EventSchema, type EventType, eventDataSchemas, type ServerEvent } from "./events.ts";
export type {
  CancelPayload,
  DispatchBatchPayload,
  DispatchPayload,
  ExecErrorPayload,
  FeedbackPayload,
  InventoryPayload,
  NextRequestPayload,
  NextResponsePayload,
  OutputChunk,
  ResourceRemovedPayload,
  ResultArtifact,
  ResultBatchPayload,
  ResultPayload,
} from "./exec.ts";
export { Fault, type FaultDetails, fault } from "./fault.ts";
export { type FaultCode, type FaultRow, faultCodes, isFaultCode } from "./fault-codes.ts";
export { renderFaultPage } from "./fault-page.ts";
export { type FaultSummary, formatFault, formatSettingsFault } from "./fault-text.ts";
export {
  compileFrameReaders,
  type Frame,
  type FramePayloads,
  type FrameType,
  type PayloadOf,
  readFrame,
  readPayload,
  toFrameType,
  toWireType,
} from "./frames.ts";
export { readJson } from "./json.ts";
export {
  foldLedger,
  type LedgerFact,
  type LedgerFigures,
  type LedgerFold,
  type LedgerState,
  startLedgerFold,
} from "./ledger-fold.ts";
export { type JsonLimits, limits } from "./limits.ts";
export { type Manifest, type ManifestNode, ManifestSchema, readManifest } from "./manifest.ts";
export {
  formatHistogram,
  formatMetricHeader,
  formatMetricLine,
  type HistogramValues,
  type MetricKind,
  type MetricLabels,
} from "./metrics-text.ts";
export { closestMatch, didYouMean } from "./nearest.ts";
export type { NodePort, NodeUi, NodeWidget, PortBinding } from "./node-face.ts";
export { buildOpenapiDocument, type OpenapiDocument } from "./openapi.ts";
export type { PkgCatalogPayload, PkgEventPayload, PkgInstallPayload, PkgUninstallPayload } from "./pkg.ts";
export {
  formatQuery,
  type ParsedQuery,
  parseQuery,
  type QueryableList,
  type QueryKeyOf,
  type QueryTerm,
  queryKeys,
  resolveInstant,
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
  readWorkerEnrolRequest,
  readWorkerHeartbeatRequest,
  type WorkerCommand,
  type WorkerEnrolRequest,
  type WorkerSignRequest,
} from "./rest-enrolment.ts";
export {
  type AuditEvent,
  passwordLimits,
  readUserRequest,
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
  type Liveness,
  readExtensionRequest,
  readWorkerKickRequest,
  type Scaling,
  type Worker,
  type WorkerAttemptSummary,
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
export { type Permission, type QueryParameter, type Route, type RouteName, routes } from "./routes.ts";
export {
  type ArtifactSnapshot,
  defaultStageOfPhase,
  foldRun,
  nodeStatusByPhase,
  type RunFact,
  type RunFold,
  type RunSnapshot,
  runStatusByFact,
  startRunFold,
  type TaskFeedback,
  type TaskPhase,
  type TaskSnapshot,
  type TaskStateChange,
  taskStateChangeOf,
} from "./run-fold.ts";
export { createSchemaReader, type SchemaReader, type SchemaReaderOptions } from "./shape.ts";
export { type JsonObject, type JsonValue, parseInstant } from "./words.ts";
export {
  type Edge,
  findWorkflowFaults,
  type Middleware,
  type NodePolicy,
  type ResultError,
  readWorkflow,
  type Workflow,
  type WorkflowNode,
  type WorkflowNodeState,
  WorkflowSchema,
} from "./workflow.ts";
