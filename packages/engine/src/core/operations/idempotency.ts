// Steering, enrolment and commands to workers under an Idempotency-Key: a command that comes again is answered with what the first was
// answered, and does nothing. Starts and documents have memories of their own, in the same rows, because they are found by what they made.

import { Fault, fault } from "@astraflow/protocol";
import type { Command, IdempotencyKey } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** An ask that steered keeps the answer itself where one that made a run names it. */
const answerPrefix = "said ";

/** The key of a command that is remembered here; null where it has none. */
export function idempotencyKeyOf(command: Command): IdempotencyKey | null {
  switch (command.type) {
    case "run.cancel":
    case "run.skip":
    case "run.retry":
    case "run.rebind":
    case "worker.enrol":
    case "worker.drain":
    case "worker.kick":
    case "worker.order":
      return command.ask ?? null;
    default:
      return null;
  }
}

/** Does `work`, unless an earlier command under the same key has done it. A refusal is not remembered: whoever asks again is heard again. */
export function runOnce(board: UnitOfWork, command: Command, perform: () => AnswerBody | Fault): AnswerBody | Fault {
  const idempotencyKey = idempotencyKeyOf(command);
  if (idempotencyKey === null) return perform();
  const id = `${command.tenant}/${idempotencyKey.key}`;
  const record = board.idempotencyRecord(id);
  if (record !== null) {
    if (record.digest === idempotencyKey.digest && record.run.startsWith(answerPrefix))
      return { ...(JSON.parse(record.run.slice(answerPrefix.length)) as AnswerBody), repeated: true } as AnswerBody;
    return fault("E.IDEMPOTENCY.MISMATCH", `Idempotency-Key "${idempotencyKey.key}" was used for another request; use a new key`);
  }
  const answer = perform();
  if (!(answer instanceof Fault))
    board.put({ kind: "ask", id, digest: idempotencyKey.digest, run: `${answerPrefix}${JSON.stringify(answer)}`, at: board.now });
  return answer;
}
