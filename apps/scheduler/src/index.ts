// The scheduler's entrance: the command for the CLI, and a scheduler without a process around it for tests and measurements.
export { type SchedulerCommand, schedulerCommand } from "./command.ts";
export { type Config, type ConfigAnswer, readConfig } from "./config.ts";
export { type FailpointAction, failpointActions, failpointNames } from "./failpoints.ts";
export { type Scheduler, startScheduler } from "./scheduler.ts";
export { StartRefusal } from "./start-refusal.ts";
export type { StoreCheck } from "./store-checkup.ts";
export { checkStore } from "./store-inspection.ts";
export type { Token } from "./token-files.ts";
