// What a session worker is: its link to the scheduler, the executor of handlers, and the packages they come from.
// This is the only entrance. Config, logs and signals belong to the app.

export type { LocalAttempt } from "./attempt.ts";
export type { DialerEvents, SchedulerDialer, TlsCredentials } from "./dial.ts";
export { HandlerExecutor, type HandlerExecutorPorts, type HandlerExecutorSettings } from "./executor.ts";
export type { HandlerVendorFrames } from "./ext.ts";
export type { FeedbackChunk, FeedbackInput } from "./feedback.ts";
export { createDirectory } from "./folder.ts";
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
} from "./handler.ts";
export type { LoadedPackagesSummary } from "./host-words.ts";
export { SchedulerLink, type SchedulerLinkOptions } from "./link.ts";
export {
  type DialTarget,
  type DrainThresholds,
  type IncomingVendorFrame,
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
  type OutgoingVendorFrame,
  type WorkCounts,
  type WorkerCapabilities,
  type WorkerHealth,
  type WorkerIdentity,
} from "./link-ports.ts";
export { NextError } from "./next.ts";
export type { OutboxDisk } from "./outbox-disk.ts";
export { openOutboxFile } from "./outbox-folder.ts";
export type { JournaledOutcome } from "./outbox-journal.ts";
export {
  type DurableOutbox,
  JournaledOutbox,
  type JournaledOutboxSettings,
  journaledOutboxDefaults,
  type OutboxLogEvent,
} from "./outbox-keeper.ts";
export type { AttemptOutcome } from "./outcome.ts";
export type { WorkerEnvironment } from "./outside.ts";
export {
  describePackagesForRegister,
  type LoadedPackage,
  type LoadedPackages,
  loadPackage,
  loadPackages,
  type PackageProblem,
} from "./packages.ts";
export { type LinkPhase, type LinkTransition, linkTransitions } from "./phase.ts";
export { type KeptResource, type ResourceDraft, type ResourceSettings, resourceDefaults } from "./resource.ts";
export {
  createThreadedWorker,
  createWorker,
  type SessionWorker,
  type SessionWorkerOptions,
  type ThreadedWorker,
  type ThreadedWorkerOptions,
  type WorkerLogEvent,
} from "./worker.ts";
