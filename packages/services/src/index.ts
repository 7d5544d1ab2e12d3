// The entrance of the services: what decides outside the engine, for the doors to call and for an app to build.

export type { CatalogueCache } from "./catalogue/catalogue.ts";
export { type ReportedPackage, reportedManifestDigest } from "./catalogue/manifest-digest.ts";
export { ManifestRecorder, readHandlers } from "./catalogue/manifest-recorder.ts";
export { getPackage, listPackages, searchNodes } from "./catalogue/node-search.ts";
export { searchTermFor } from "./documents/derived-names.ts";
export { notFound } from "./documents/documents.ts";
export { decodeDocumentCursor, decodeIdCursor, encodeCursor, encodeIdCursor, unknownCursor } from "./documents/page-cursors.ts";
export { withTimeout } from "./environment/concurrency.ts";
export { type AnswerHandler, EngineClient, faultFromData } from "./environment/engine-client.ts";
export { type InPlaceLimits, NeedsOwnThread, sharedThreadLimits } from "./environment/in-place-limits.ts";
export { cacheLimits } from "./environment/read-through-cache.ts";
export type { LogRecord, ServiceEnvironment } from "./environment/service-environment.ts";
export { EventLookup } from "./events/event-lookup.ts";
export type { StreamEvent } from "./events/fact-events.ts";
export { HeartbeatWatch, heartbeatEventData } from "./events/heartbeat-watch.ts";
export { CursorExpired, type FactEvents, LogTail } from "./events/log-tail.ts";
export { findSessionRuns, isPartOfSnapshot, sessionSnapshotLimits, snapshotEventsOf } from "./events/session-snapshots.ts";
export {
  type HeartbeatData,
  type PublishedHeartbeat,
  VolatileEvents,
  type VolatileListener,
  volatileEventJson,
  type WireFrameEvent,
} from "./events/volatile-events.ts";
export { defaultKeptVersions } from "./fleet/version-retention.ts";
export { addressBlockOf } from "./identity/address-block.ts";
export { FailureThrottle } from "./identity/failure-throttle.ts";
export {
  allGrants,
  type CallerIdentity,
  grantsForRoles,
  missingPermissionMessage,
  rolesForGrants,
  tenantGrants,
} from "./identity/identity.ts";
export { rotateKeys, type SigningKey } from "./identity/signing-keys.ts";
export type { CheckedArchive, StoredArchive } from "./packages/archive-check.ts";
export type { InstallOrder, PackageInstalls, WantedInstall } from "./packages/package-installs.ts";
export { type PackageKeys, presentPackageKey } from "./packages/package-keys.ts";
export type { PackageRepository, PublishedVersion } from "./packages/package-repository.ts";
export type { PackageResources } from "./packages/package-resources.ts";
export { isoTime } from "./presentation/iso-time.ts";
export { definitionDigestOf, presentRun, presentRunRef } from "./presentation/run-view.ts";
export {
  defaultHeartbeatMs,
  instanceIdOf,
  presentCommand,
  presentCommandRef,
  presentHeartbeat,
  presentWorker,
  workerQueueOf,
} from "./presentation/worker-view.ts";
export {
  type BlobRange,
  type BlobStore,
  createDocumentBlobStore,
  measureBytes,
  missingBytesFault,
} from "./resources/blob-store.ts";
export { DispatchResources, dispatchResourceLimits } from "./resources/dispatch-resources.ts";
export { createFolderBlobStore, removeUnfinishedBlobs } from "./resources/folder-blob-store.ts";
export { createLostResourceFinder, type FindLostResources, type LostResource } from "./resources/lost-resources.ts";
export {
  defaultRetention,
  freshRunMs,
  type RetentionPolicy,
} from "./retention/retention-policy.ts";
export {
  defaultRetentionPace,
  RetentionSweeper,
  type RetentionPace,
  type SweepReport,
} from "./retention/retention-sweeper.ts";
export { chooseGrant, createResourceBinder, exposesValue, type ResourceRequirement } from "./resources/resource-bindings.ts";
export type { ResourceGrants } from "./resources/resource-grants.ts";
export { uploadLimits } from "./resources/resource-repository.ts";
export {
  grantIdPrefix,
  grantPut,
  type ResourceGrantRecord,
  type ResourceRecord,
  resourcePut,
} from "./resources/resource-store.ts";
export { presentUpload, type ResourceUploads, withPartAdded } from "./resources/resource-uploads.ts";
export type { ApplyBulkChange } from "./runs/bulk-changes.ts";
export type { ControlledRun, NodeChange } from "./runs/run-control.ts";
export { ledgerLimits, readLogLedger, readRunLedger } from "./runs/run-ledger.ts";
export { decodeLogCursor, readRunLog, runLogLimits } from "./runs/run-logs.ts";
export { findRun } from "./runs/run-reader.ts";
export type { RunServices } from "./runs/run-services.ts";
export type { StartedRun } from "./runs/run-starter.ts";
export { presentValue, readValueAt, valueBytesMax } from "./runs/run-values.ts";
export { explainPlacement, listQueues, readQueueMetric } from "./runs/waiting-work.ts";
export type { FoundView, SavedViews, StoredView, WantedView } from "./saved-views/saved-views.ts";
export { createServices, type Services, type ServicesOptions, type WorkerServices } from "./services.ts";
export { listAuditEvents } from "./users/audit-log.ts";
export { loginThrottleLimits } from "./users/login-throttle.ts";
export { UserAccounts, userLimits } from "./users/user-accounts.ts";
export type { UserChanges } from "./users/user-changes.ts";
export type { User } from "./users/user-store.ts";
export { isVendorType, type ReceivedVendorFrame, VendorFrameRelay, vendorRelayLimits } from "./workers/vendor-frame-relay.ts";
export type { SentCommand } from "./workers/worker-commands.ts";
export { type Enrolment, enrolmentOf, enrolWorker, signOfLifeOf } from "./workers/worker-enrolment.ts";
export {
  countedTasksMax,
  listWorkers,
  matchesWorkerFilter,
  readDiagnostics,
  readScaling,
  readWorker,
  type WorkerFilter,
} from "./workers/worker-reader.ts";
export { validateWorkflow } from "./workflows/workflow-checks.ts";
export type { WorkflowServices } from "./workflows/workflow-services.ts";
export { staleRevisionFault, type WorkflowIdempotencyKey, type WrittenWorkflow } from "./workflows/workflow-store.ts";
export {
  presentDraft,
  presentDraftChange,
  presentPackageVersion,
  presentVersion,
  presentWorkflow,
  presentWorkflowPackage,
  workflowEtag,
} from "./workflows/workflow-view.ts";
