// The public contract: frames, REST bodies, events and documents, with faults and codecs. Nothing here uses a socket, store or clock.

export { FifoQueue } from "./collections/fifo-queue.ts";
export { LruMap, type LruMapOptions } from "./collections/lru-map.ts";
export {
  findManifestFaults,
  findUnknownManifestFields,
  type Manifest,
  type ManifestNode,
  ManifestSchema,
  readManifest,
} from "./definitions/manifest.ts";
export {
  type NodePort,
  type NodeUi,
  type NodeWidget,
  type PortBinding,
  type SchemaMode,
  schemaModes,
} from "./definitions/node-ui.ts";
export { type PackageSignature, packageSignatureFormat, readPackageSignature } from "./definitions/package-signature.ts";
export {
  type Edge,
  findUnknownWorkflowFields,
  findWorkflowFaults,
  type Middleware,
  type NodePolicy,
  type ResultError,
  readWorkflow,
  type Workflow,
  type WorkflowNode,
  type WorkflowNodeState,
  WorkflowSchema,
} from "./definitions/workflow.ts";
export {
  type LedgerFact,
  LedgerFold,
  type LedgerState,
} from "./events/ledger-fold.ts";
export {
  type ArtifactSnapshot,
  defaultStageOfPhase,
  nodeStatusByPhase,
  type RunFact,
  RunFold,
  type RunSnapshot,
  runStatusByFact,
  type TaskFeedback,
  type TaskPhase,
  type TaskSnapshot,
  type TaskStateChange,
  taskStateChangeOf,
} from "./events/run-fold.ts";
export { type EventData, EventSchema, type EventType, eventDataSchemas, type ServerEvent } from "./events/server-events.ts";
export { type ExitCode, exitCodes, exitMeanings } from "./faults/exit-codes.ts";
export { errorMessage, Fault, type FaultDetails, fault } from "./faults/fault.ts";
export { type FaultCode, type FaultRow, faultCodes, isFaultCode } from "./faults/fault-codes.ts";
export { type FaultSummary, formatFault, formatSettingsFault } from "./faults/fault-text.ts";
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
} from "./frames/control-payloads.ts";
export {
  createEnvelopeTemplate,
  type EnvelopeTemplate,
  encodeFrame,
  insertRawJson,
  type OutgoingFrame,
  toDialectPayload,
} from "./frames/encode-frame.ts";
export { type Dialect, detectDialect, dialectOfNumber, type Envelope, readEnvelope, transportNumber } from "./frames/envelope.ts";
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
} from "./frames/frame-definitions.ts";
export { isSecretType, stringifyWithoutBindings, withoutBindings } from "./frames/resource-binding-keys.ts";
export { resumeProofText } from "./frames/resume-proof.ts";
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
  PackageEventPayload,
  PkgCatalogPayload,
  PkgInstallPayload,
  PkgUninstallPayload,
  ResourceRemovedPayload,
  ResultArtifact,
  ResultBatchPayload,
  ResultPayload,
} from "./frames/work-payloads.ts";
export { findJsonSyntaxError } from "./json/json-syntax.ts";
export { isRecord, type JsonObject, type JsonValue, omitUndefined } from "./json/json-value.ts";
export { type JsonLimits, limits } from "./json/limits.ts";
export { checkWrittenJson, readJson } from "./json/read-json.ts";
export { readJsonInSteps } from "./json/read-json-steps.ts";
export { type AddressKind, classifyHost, classifyIpAddress } from "./network/network-address.ts";
export { fileOrigin, packageOriginProblem } from "./network/package-origin.ts";
export { renderFaultPage } from "./published/fault-page.ts";
export { buildOpenapiDocument, type OpenapiDocument } from "./published/openapi-document.ts";
export { buildSchemaDocuments } from "./published/schema-documents.ts";
export type { CatalogNode, CatalogPort, ManifestHolders, PackageDetail, PackageSummary } from "./rest/bodies/catalog-bodies.ts";
export {
  type PackageHolder,
  type PackageKey,
  type PackageKeyRequest,
  type PackageVersion,
  packageLimits,
  readPackageForm,
} from "./rest/bodies/package-bodies.ts";
export {
  type Alert,
  type FailureLimits,
  type FleetInstall,
  type FleetInstallRequest,
  type FleetWorker,
  type PackageRollbackRequest,
  type PhaseTarget,
  packageFleetLimits,
  type Rollout,
  type RolloutRequest,
} from "./rest/bodies/package-fleet-bodies.ts";
export {
  type Resource,
  type ResourceGrant,
  type ResourceGrantCreateRequest,
  type ResourceUploadInit,
  type ResourceUploadSession,
  readResourceForm,
  resourceLimits,
} from "./rest/bodies/resource-bodies.ts";
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
  runLabelLimits,
  type StartedRunRef,
} from "./rest/bodies/run-bodies.ts";
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
  type Steered,
  type SteerRequest,
} from "./rest/bodies/run-operation-bodies.ts";
export type {
  ByteRange,
  Ledger,
  LedgerFigures,
  LogLine,
  RunDefinition,
  RunLedger,
  RunLog,
} from "./rest/bodies/run-part-bodies.ts";
export {
  readViewRequest,
  type SavedView,
  type ViewRequest,
  viewLimits,
  viewPages,
} from "./rest/bodies/saved-view-bodies.ts";
export {
  type AuditEvent,
  passwordLimits,
  type UserRole,
  type UserSummary,
  userRoles,
} from "./rest/bodies/user-bodies.ts";
export {
  type CommandRef,
  type ExtensionFrame,
  type ExtensionRef,
  type ExtensionRequest,
  type Liveness,
  type Scaling,
  type Worker,
  type WorkerAttemptSummary,
  type WorkerDetail,
  type WorkerDiagnostics,
  type WorkerHandler,
  type WorkerKickRequest,
  type WorkerList,
  type WorkerPackage,
} from "./rest/bodies/worker-bodies.ts";
export {
  type CommandDetail,
  readWorkerCommand,
  type WorkerCommand,
  type WorkerEnrolRequest,
  type WorkerSignRequest,
} from "./rest/bodies/worker-enrolment-bodies.ts";
export {
  type DraftChange,
  type DraftEditRequest,
  editsMax,
  type PublishVersionRequest,
  previewCharsMax,
  readWorkflowFile,
  readWorkflowPreview,
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
} from "./rest/bodies/workflow-bodies.ts";
export {
  bodyReaderOf,
  type Permission,
  type QueryParameter,
  type RawBody,
  type Route,
  type RouteAnswer,
  type RouteBody,
  type RouteInput,
  type RouteName,
  routes,
  sessionPath,
  tailParameter,
} from "./rest/routes/route-table.ts";
export { findParameterViolation } from "./schema/parameter-violation.ts";
export { createSchemaReader, type SchemaReader, type SchemaReaderOptions } from "./schema/schema-reader.ts";
export { closestMatch, describeMisspelling, didYouMean } from "./text/closest-match.ts";
export { parseInstant } from "./text/instant.ts";
export {
  formatHistogram,
  formatMetricHeader,
  formatMetricLine,
  type HistogramValues,
  type MetricKind,
  type MetricLabels,
} from "./text/prometheus-text.ts";
export {
  formatQuery,
  type ParsedQuery,
  parseQuery,
  type QueryableList,
  type QueryKeyOf,
  type QueryTerm,
  queryKeys,
  resolveInstant,
} from "./text/query-filter.ts";
