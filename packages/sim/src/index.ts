// A deterministic world in which the real engine, doors and worker run: one seed plays a whole bad afternoon in milliseconds.
// This is the only entrance.

export { type CampaignOptions, type CampaignReport, type CampaignViolation, runCampaign, type SeedOutcome } from "./campaign.ts";
export type { Violation } from "./check/checker.ts";
export type { TraceLine } from "./check/story.ts";
export { type FaultKind, type FaultProfile, faultKinds, profiles } from "./fault-table.ts";
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
} from "./observation.ts";
export { generateWorldPlan, type WorldPlan } from "./plan.ts";
export { type PlaySeedOptions, playSeed } from "./play.ts";
export {
  describeCampaign,
  describeFault,
  describeTraceLine,
  describeViolation,
  type Regression,
  replayRegression,
  toRegression,
} from "./report.ts";
export { type CheckedSeed, type CheckSeedOptions, checkSeed, traceSeed } from "./trial.ts";
export { type Mutant, mutants } from "./world.ts";
