// A thread of a campaign: gets seeds one by one and returns the outcome of each. campaign.ts starts and ends it.

import { parentPort, workerData } from "node:worker_threads";
import { type CampaignOptions, runCampaignSeed } from "./campaign.ts";

parentPort?.on("message", (seed: number) => {
  // A world that throws ends the thread with its error, and the campaign with it: it must not pass for a seed without violations.
  void runCampaignSeed(seed, workerData as CampaignOptions).then((outcome) => parentPort?.postMessage(outcome));
});
