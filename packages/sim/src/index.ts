// The simulator: runs the real engine, doors and worker in simulated time; a seed replays a run with faults exactly. This is the only entry point.

export {
  type CampaignOptions,
  type CampaignReport,
  type CampaignViolation,
  runCampaign,
  type SeedOutcome,
} from "./campaign/campaign.ts";
export {
  describeCampaign,
  describeFault,
  describeTraceLine,
  describeViolation,
  type Regression,
  replayRegression,
  toRegression,
} from "./campaign/campaign-report.ts";
export { type CheckedSeed, type CheckSeedOptions, checkSeed, traceSeed } from "./campaign/check-seed.ts";
export type { TraceLine } from "./campaign/trace-formatter.ts";
export type { Violation } from "./checking/checker.ts";
export type {
  ApiAnswerObservation,
  ApiCallObservation,
  ConnectionObservation,
  DefectObservation,
  FaultObservation,
  FrameObservation,
  HandlerObservation,
  Observation,
  ObservationListener,
  PhaseObservation,
  ProcessObservation,
  ScheduledFault,
  SimulatedWorkerIdentity,
  SimulatedWorkerSpec,
  TimingGuarantees,
  TrueTime,
  UnstampedObservation,
  WorldReport,
  WorldSetupObservation,
} from "./observation/observation.ts";
export { type FaultKind, type FaultProfile, faultKinds, profiles } from "./plan/fault-table.ts";
export { generateWorldPlan, type WorldPlan } from "./plan/world-plan.ts";
export { type Mutant, mutants } from "./scheduler/mutants.ts";
export { type PlaySeedOptions, playSeed } from "./world/play-seed.ts";
