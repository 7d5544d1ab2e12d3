// The limits by which a scheduler reads frames, applied to what handlers report before it is sent: a frame that it cannot read ends the session.

import { checkWrittenJson, Fault, fault, type JsonLimits, limits, readPayload } from "@astraflow/protocol";

const { frame } = limits.json;

/** Of one payload: the envelope and a batch around it take the rest. */
const reportLimits: JsonLimits = {
  ...frame,
  bytesMax: frame.bytesMax - 16 * 1024,
  depthMax: frame.depthMax - 4,
  itemsMax: frame.itemsMax - 1_000,
  keysMax: frame.keysMax - 1_000,
};

/** Why a text that `JSON.stringify` wrote cannot be sent, or null. `subject` begins the sentence: "the result". */
export function checkReportText(subject: string, text: string): Fault | null {
  const problem = checkWrittenJson(text, reportLimits);
  return problem === null ? null : fault(problem.code, `${subject} cannot be sent: ${problem.message}`);
}

/** The same, and whether the scheduler's reader takes it as a payload of this type. */
export function checkReportPayload(subject: string, type: "biz.exec.result" | "biz.exec.error", text: string): Fault | null {
  const problem = checkReportText(subject, text);
  if (problem !== null) return problem;
  const payload = readPayload("v2", type, JSON.parse(text));
  return payload instanceof Fault ? fault(payload.code, `${subject} cannot be sent: ${payload.message}`) : null;
}
