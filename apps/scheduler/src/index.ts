// The scheduler's entrance: the command for the CLI, and a scheduler without a process around it for tests and measurements.
export { schedulerCommand } from "./command.ts";
export { type FailpointAction, failpointActions, failpointNames } from "./platform/failpoints.ts";
export { type RestrictedFiles, restrictFolder } from "./platform/private-files.ts";
export { StartupError } from "./platform/startup-error.ts";
export { type Scheduler, startScheduler } from "./scheduler.ts";
export { type ConfigResult, readConfig, readRetention, type SchedulerConfig } from "./settings/config.ts";
export type { AccessToken } from "./settings/secrets.ts";
export { checkKeptRows } from "./store/kept-checks.ts";
export { checkStore, type StoreCheck } from "./store/postgres-checks.ts";
export { type BackupReport, type BackupRequest, backUpDataFolder, restoreDataFolder } from "./store/store-backup.ts";
export { repairStore } from "./store/store-repair.ts";
