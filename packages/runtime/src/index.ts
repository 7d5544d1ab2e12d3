// What a session worker is: its link to the scheduler, the executor of handlers, and the packages they come from.
// This is the only entrance. Config, logs and signals belong to the app.

export type { Attempt } from "./attempt.ts";
export type { DialEvents, Dialling, TlsFiles } from "./dial.ts";
export { Executor, type ExecutorPorts, type ExecutorSettings } from "./executor.ts";
export type { ExtFace } from "./ext.ts";
export type { FeedbackChunk, FeedbackInput } from "./feedback.ts";
export { makeFolder } from "./folder.ts";
export {
  type FeedbackSender,
  type FoundHandler,
  type Handler,
  type HandlerContext,
  HandlerRegistry,
  type ResourceBinding,
  type ResourceBindingError,
  type ResourceFace,
  type Setup,
  type SetupContext,
} from "./handler.ts";
export type { HostShelf } from "./host-words.ts";
export { Link, type LinkParts } from "./link.ts";
export {
  type Announced,
  type DialHint,
  type ExtFrame,
  type ExtWord,
  type InventoryAttempt,
  type LinkCounter,
  type LinkEvent,
  type LinkIdentity,
  type LinkInventory,
  type LinkNote,
  type LinkOffer,
  type LinkPorts,
  type LinkSettings,
  type LinkView,
  linkDefaults,
  linkFeatures,
  type Vitals,
  type WorkCounts,
} from "./link-ports.ts";
export { NextError } from "./next.ts";
export type { OutboxDisk } from "./outbox-disk.ts";
export { openOutboxFolder } from "./outbox-folder.ts";
export type { KeptWord } from "./outbox-journal.ts";
export { type KeeperNote, type KeeperSettings, type Keeping, keeperDefaults, OutboxKeeper } from "./outbox-keeper.ts";
export type { Outcome } from "./outcome.ts";
export type { Outside } from "./outside.ts";
export {
  type LoadedPackage,
  loadPackage,
  loadPackages,
  offerPackages,
  type PackageProblem,
  type PackageShelf,
} from "./packages.ts";
export { type LinkMove, type LinkPhase, linkMoves } from "./phase.ts";
export { type Resource, type ResourceDraft, type ResourceSettings, resourceDefaults } from "./resource.ts";
export {
  createThreadedWorker,
  createWorker,
  type ThreadedWorker,
  type ThreadedWorkerOptions,
  type Worker,
  type WorkerNote,
  type WorkerOptions,
} from "./worker.ts";
