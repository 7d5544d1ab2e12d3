// Faults that several files about runs share.

import { type Fault, fault } from "@astraflow/protocol";

/** The same message for every id that is not the caller's: it must not show whether it is someone else's. */
export const runNotFound = (run: string): Fault => fault("E.NOT_FOUND", `there is no run ${run.slice(0, 100)}`);

export const nodeNotFound = (run: string, node: string): Fault =>
  fault("E.NOT_FOUND", `run ${run} has no node ${node.slice(0, 200)}`);
