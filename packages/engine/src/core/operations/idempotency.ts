// Commands under an Idempotency-Key: a repeat is answered as the first was. The only reader and writer of `IdempotencyRow.run`.

import { Fault, fault } from "@astraflow/protocol";
import type { Command, IdempotencyKey, IdempotentRequest } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import type { RunId } from "../../storage/rows.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type RememberedAnswer =
  | { readonly of: "run"; readonly run: RunId }
  | { readonly of: "docs"; readonly revs: readonly number[] }
  | { readonly of: "answer"; readonly body: AnswerBody };

type KeyedRequest = Pick<IdempotentRequest, "tenant" | "ask">;

const revisionsPrefix = "docs ";
const answerPrefix = "said ";

function parseRemembered(text: string): RememberedAnswer {
  if (text.startsWith(revisionsPrefix))
    return { of: "docs", revs: text.slice(revisionsPrefix.length).split(",").filter(Boolean).map(Number) };
  if (text.startsWith(answerPrefix)) return { of: "answer", body: JSON.parse(text.slice(answerPrefix.length)) as AnswerBody };
  return { of: "run", run: text };
}

function rememberedText(answer: RememberedAnswer): string {
  if (answer.of === "run") return answer.run;
  return answer.of === "docs" ? `${revisionsPrefix}${answer.revs.join(",")}` : `${answerPrefix}${JSON.stringify(answer.body)}`;
}

/** What an earlier command under the same key was answered; null where there was none, a fault where it was another request. */
export function recallAnswer<Of extends RememberedAnswer["of"]>(
  work: UnitOfWork,
  { tenant, ask = null }: KeyedRequest,
  of: Of,
): Extract<RememberedAnswer, { of: Of }> | Fault | null {
  const record = ask === null ? null : work.idempotencyRecord(`${tenant}/${ask.key}`);
  if (ask === null || record === null) return null;
  const answer = parseRemembered(record.run);
  if (record.digest === ask.digest && answer.of === of) return answer as Extract<RememberedAnswer, { of: Of }>;
  return fault(
    "E.IDEMPOTENCY.MISMATCH",
    `Idempotency-Key "${ask.key}" was used for another request; use a new key`,
    answer.of === "run" && of === "run" ? { run: answer.run } : undefined,
  );
}

export function rememberAnswer(work: UnitOfWork, { tenant, ask = null }: KeyedRequest, answer: RememberedAnswer): void {
  if (ask !== null)
    work.put({ kind: "ask", id: `${tenant}/${ask.key}`, digest: ask.digest, run: rememberedText(answer), at: work.now });
}

/** The key of a command whose whole answer is remembered; starts and documents remember what they made. */
export const idempotencyKeyOf = (command: Command): IdempotencyKey | null =>
  "ask" in command && command.type !== "run.start" && command.type !== "docs.write" ? (command.ask ?? null) : null;

/** Performs the command unless an earlier one under the same key has. Refusals are not stored, so a repeat is tried again. */
export function runOnce(work: UnitOfWork, command: Command, perform: () => AnswerBody | Fault): AnswerBody | Fault {
  const request = { tenant: command.tenant, ask: idempotencyKeyOf(command) };
  const earlier = recallAnswer(work, request, "answer");
  if (earlier !== null) return earlier instanceof Fault ? earlier : ({ ...earlier.body, repeated: true } as AnswerBody);
  const body = perform();
  if (!(body instanceof Fault)) rememberAnswer(work, request, { of: "answer", body });
  return body;
}
