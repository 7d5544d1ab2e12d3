/** All planted bugs by part of the product. */
import type { PlantedBug } from "../planted-bug.ts";
import { clientAndCliBugs } from "./client-and-cli.ts";
import { doorBugs } from "./doors.ts";
import { engineRunBugs } from "./engine-runs.ts";
import { engineWorkerBugs } from "./engine-workers.ts";
import { graphBugs } from "./graph.ts";
import { protocolBugs } from "./protocol.ts";
import { runtimeLinkBugs } from "./runtime-link.ts";
import { runtimeMaskBugs } from "./runtime-masks.ts";
import { serviceBugs } from "./services.ts";
import { sessionBugs } from "./session.ts";
import { simulatorBugs } from "./simulator.ts";
import { storeBugs } from "./store.ts";

export const bank: Readonly<Record<string, readonly PlantedBug[]>> = {
  "engine-workers": engineWorkerBugs,
  "engine-runs": engineRunBugs,
  session: sessionBugs,
  "runtime-masks": runtimeMaskBugs,
  "runtime-link": runtimeLinkBugs,
  store: storeBugs,
  services: serviceBugs,
  doors: doorBugs,
  protocol: protocolBugs,
  graph: graphBugs,
  "client-and-cli": clientAndCliBugs,
  simulator: simulatorBugs,
};
