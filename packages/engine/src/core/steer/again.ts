// Steering, enrolment and commands to workers under an Idempotency-Key: a command that comes again is answered with what the first was
// answered, and does nothing. Starts and documents have memories of their own, in the same rows, because they are found by what they made.

import { Fault, fault } from "@astraflow/protocol";
import type { Ask, Command } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import type { Board } from "../board/board.ts";

/** An ask that steered keeps the answer itself where one that made a run names it. */
const answerWord = "said ";

/** The key of a command that is remembered here; null where it has none. */
export function askOf(command: Command): Ask | null {
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
export function once(board: Board, command: Command, work: () => AnswerBody | Fault): AnswerBody | Fault {
  const ask = askOf(command);
  if (ask === null) return work();
  const id = `${command.tenant}/${ask.key}`;
  const asked = board.ask(id);
  if (asked !== null) {
    if (asked.digest === ask.digest && asked.run.startsWith(answerWord))
      return { ...(JSON.parse(asked.run.slice(answerWord.length)) as AnswerBody), repeated: true } as AnswerBody;
    return fault("E.IDEMPOTENCY.MISMATCH", `Idempotency-Key "${ask.key}" was used for another request; use a new key`);
  }
  const said = work();
  if (!(said instanceof Fault))
    board.put({ kind: "ask", id, digest: ask.digest, run: `${answerWord}${JSON.stringify(said)}`, at: board.now });
  return said;
}
