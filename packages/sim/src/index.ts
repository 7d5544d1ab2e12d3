// The simulator: runs the real engine, doors and worker in simulated time; a seed replays a run with faults exactly. This is the only entry point,
// and the CLI is the only user.

export { runCampaign, traceSeed } from "./campaign/campaign.ts";
export { describeCampaign, describeTraceLine, describeViolation, toRegression } from "./campaign/campaign-report.ts";
export { profiles } from "./plan/fault-table.ts";
export { mutants } from "./scheduler/mutants.ts";
