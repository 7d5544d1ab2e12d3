// A deterministic world in which the real engine, doors and worker run: one seed plays a whole bad afternoon in milliseconds.
// This is the only entrance.

export { type CampaignReport, type CampaignWish, type Found, runCampaign, type SeedOutcome } from "./campaign.ts";
export type { Violation } from "./check/checker.ts";
export type { StoryLine } from "./check/story.ts";
export { type FaultKind, faultKinds, type Profile, profiles } from "./fault-table.ts";
export type {
  AnswerSeen,
  BrokenSeen,
  CallSeen,
  FaultEvent,
  FaultSeen,
  FrameSeen,
  HandlerSeen,
  LinkSeen,
  Observation,
  Observe,
  PhaseSeen,
  ProcessSeen,
  Promises,
  SetUp,
  Sight,
  TrueTime,
  WorkerFace,
  WorkerShape,
  WorldReport,
} from "./observation.ts";
export { drawWorld, type WorldPlan } from "./plan.ts";
export { type PlaySeed, playSeed } from "./play.ts";
export {
  describeCampaign,
  describeFault,
  describeLine,
  describeViolation,
  type Regression,
  regressionOf,
  replay,
} from "./report.ts";
export { type Trial, type TrialWish, tellSeed, trySeed } from "./trial.ts";
export { type Plant, plants } from "./world.ts";
