// What a session worker is: its link to the scheduler, its handlers, and their packages. What package authors import is @astraflow/sdk. Config, logs and signals belong to the app.

export type { LocalAttempt } from "./attempts/attempt.ts";
export { type AttemptOutcome, summarizeOutcome } from "./attempts/outcome.ts";
export { HandlerRegistry } from "./handlers/handler.ts";
export { outputBytesMaxDefault } from "./handlers/handler-host.ts";
export { captureOutput } from "./handlers/handler-output.ts";
export { type InspectedPackage, inspectPackages } from "./handlers/package-inspection.ts";
export { isFileMissing } from "./handlers/adapter-import.ts";
export { madeFolders } from "./handlers/package-files.ts";
export { type LoadedPackages, type LoadedPackagesSummary, loadPackages } from "./handlers/package-loader.ts";
export type { HostingSettings } from "./hosts/host-set.ts";
export { type OutboxDisk, openOutboxFile } from "./outbox/outbox-file.ts";
export { createPackageManager, type PackageManagerOptions } from "./packages/create-package-manager.ts";
export { type InstallSettings, installLimits } from "./packages/install-settings.ts";
export type { PackageManager } from "./packages/package-manager.ts";
export { readTrustedKeys } from "./packages/trusted-keys.ts";
export { noFileTransferFault, SchedulerFiles } from "./resources/file-transfer.ts";
export { type ResourceSettings, resourceDefaults } from "./resources/resource.ts";
export { linkTransitions } from "./scheduler-link/link-phase.ts";
export {
  type DrainThresholds,
  type LinkCounter,
  type LinkInventory,
  type LinkLogEvent,
  type LinkSettings,
  linkDefaults,
  linkFeatures,
  type WorkerHealth,
  type WorkerIdentity,
} from "./scheduler-link/link-ports.ts";
export { probeScheduler, type SchedulerProbe } from "./scheduler-link/scheduler-probe.ts";
export type { DialerEvents, DialTarget, SchedulerDialer, TlsCredentials } from "./scheduler-link/websocket-dialer.ts";
export { createDirectory } from "./system/create-directory.ts";
export type { WorkerEnvironment } from "./system/environment.ts";
export {
  createHostedWorker,
  createThreadedWorker,
  createWorker,
  type SessionWorker,
  type SessionWorkerOptions,
  type SharedWorkerOptions,
  type WorkerLogEvent,
} from "./worker.ts";
