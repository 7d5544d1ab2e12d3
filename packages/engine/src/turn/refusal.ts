// Faults as answers: what a caller hears when its command was not carried out.

import { Fault, fault } from "@astraflow/protocol";
import type { Answer, FaultData } from "../effect.ts";

export const dataOf = (problem: Fault): FaultData => ({
  code: problem.code,
  message: problem.message,
  ...(problem.details === undefined ? {} : { details: problem.details }),
});

export const refusal = (ref: number, problem: Fault): Answer => ({ type: "answer", ref, body: null, fault: dataOf(problem) });

export function asFault(problem: unknown): Fault {
  if (problem instanceof Fault) return problem;
  return fault("E.INTERNAL", problem instanceof Error ? problem.message : String(problem), undefined, problem);
}
