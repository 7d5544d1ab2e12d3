// Faults as answers to commands that were not carried out.

import { Fault, fault } from "@astraflow/protocol";
import type { FaultData } from "../interface/command.ts";
import type { CommandAnswer } from "../interface/effect.ts";

const toFaultData = (problem: Fault): FaultData => ({
  code: problem.code,
  message: problem.message,
  ...(problem.details === undefined ? {} : { details: problem.details }),
});

export const refusalAnswer = (ref: number, problem: Fault): CommandAnswer => ({
  type: "answer",
  ref,
  body: null,
  fault: toFaultData(problem),
});

export function toFault(problem: unknown): Fault {
  if (problem instanceof Fault) return problem;
  return fault("E.INTERNAL", problem instanceof Error ? problem.message : String(problem), undefined, problem);
}
