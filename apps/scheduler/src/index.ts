// The scheduler's entrance: the command for the CLI, and a scheduler without a process around it for tests and measurements.
export { type SchedulerCommand, schedulerCommand } from "./command.ts";
export { type ConfigResult, readConfig, type SchedulerConfig } from "./config.ts";
export { type FailpointAction, failpointActions, failpointNames } from "./failpoints.ts";
export { type Scheduler, startScheduler } from "./scheduler.ts";
export { StartupError } from "./start-refusal.ts";
export type { StoreCheck } from "./store-checkup.ts";
export { checkStore } from "./store-inspection.ts";
export type { AccessToken } from "./token-files.ts";
