// Steering under an Idempotency-Key: a command that comes again is answered with what the first was answered, and does nothing. Starts and
// documents have memories of their own, because they are found by what they made.

import { Fault, fault } from "@astraflow/protocol";
import type { Ask, Command } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import type { Board } from "../board/board.ts";

/** An ask that steered keeps the answer itself where one that made a run names it. */
const answerWord = "said ";

/** The key of a command that is remembered here; null where it has none. */
export function askOf(command: Command): Ask | null {
  const isSteering = command.type === "run.skip" || command.type === "run.retry" || command.type === "run.rebind";
  return isSteering ? (command.ask ?? null) : null;
}

/** Does `work`, unless an earlier command under the same key has done it. A refusal is not remembered: whoever asks again is heard again. */
export function once(board: Board, command: Command, work: () => AnswerBody | Fault): AnswerBody | Fault {
  const ask = askOf(command);
  if (ask === null) return work();
  const id = `${command.tenant}/${ask.key}`;
  const asked = board.ask(id);
  if (asked !== null) {
    if (asked.digest === ask.digest && asked.run.startsWith(answerWord)) return JSON.parse(asked.run.slice(answerWord.length));
    return fault("E.IDEMPOTENCY.MISMATCH", `Idempotency-Key "${ask.key}" was used for another request; use a new key`);
  }
  const said = work();
  if (!(said instanceof Fault))
    board.put({ kind: "ask", id, digest: ask.digest, run: `${answerWord}${JSON.stringify(said)}`, at: board.now });
  return said;
}
