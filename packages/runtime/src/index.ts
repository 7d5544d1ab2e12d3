// What a session worker is: its link to the scheduler, the executor of handlers, and the packages they come from.
// This is the only entrance. Config, logs and signals belong to the app.

export type { LocalAttempt } from "./attempts/attempt.ts";
export type { FeedbackChunk, FeedbackInput } from "./attempts/feedback.ts";
export type { AttemptOutcome } from "./attempts/outcome.ts";
export {
  type FeedbackSender,
  type HandlerContext,
  HandlerRegistry,
  type HandlerResources,
  type NodeHandler,
  type PackageSetup,
  type RegisteredHandler,
  type ResourceBinding,
  type ResourceBindingError,
  type SetupContext,
} from "./handlers/handler.ts";
export { HandlerExecutor, type HandlerExecutorPorts, type HandlerExecutorSettings } from "./handlers/handler-executor.ts";
export { NextError } from "./handlers/next-call.ts";
export {
  describePackagesForRegister,
  type LoadedPackage,
  type LoadedPackages,
  loadPackage,
  loadPackages,
  type PackageProblem,
} from "./handlers/package-loader.ts";
export type { HandlerVendorFrames, IncomingVendorFrame, OutgoingVendorFrame } from "./handlers/vendor-frames.ts";
export {
  type DurableOutbox,
  JournaledOutbox,
  type JournaledOutboxSettings,
  journaledOutboxDefaults,
  type OutboxLogEvent,
} from "./outbox/journaled-outbox.ts";
export type { OutboxDisk } from "./outbox/outbox-disk.ts";
export { openOutboxFile } from "./outbox/outbox-file.ts";
export type { JournaledOutcome } from "./outbox/outbox-journal.ts";
export { type KeptResource, type ResourceDraft, type ResourceSettings, resourceDefaults } from "./resources/resource.ts";
export type { LoadedPackagesSummary } from "./runner/thread-messages.ts";
export { type LinkPhase, type LinkTransition, linkTransitions } from "./scheduler-link/link-phase.ts";
export {
  type DialTarget,
  type DrainThresholds,
  type InventoryAttempt,
  type LinkCounter,
  type LinkEventName,
  type LinkInventory,
  type LinkLogEvent,
  type LinkPorts,
  type LinkSettings,
  type LinkStatus,
  linkDefaults,
  linkFeatures,
  type WorkCounts,
  type WorkerCapabilities,
  type WorkerHealth,
  type WorkerIdentity,
} from "./scheduler-link/link-ports.ts";
export { SchedulerLink, type SchedulerLinkOptions } from "./scheduler-link/scheduler-link.ts";
export type { DialerEvents, SchedulerDialer, TlsCredentials } from "./scheduler-link/websocket-dialer.ts";
export { createDirectory } from "./system/create-directory.ts";
export type { WorkerEnvironment } from "./system/environment.ts";
export {
  createThreadedWorker,
  createWorker,
  type SessionWorker,
  type SessionWorkerOptions,
  type ThreadedWorker,
  type ThreadedWorkerOptions,
  type WorkerLogEvent,
} from "./worker.ts";
