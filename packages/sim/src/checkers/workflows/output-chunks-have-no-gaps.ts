// I45: the output chunks of an attempt are numbered without gaps and repeats: the log refers to them one after the other, and the stored rows hold
// exactly those. A gap is allowed only where feedback was lost together with a session.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { OutputChunkPage } from "../../observation/observation.ts";

export class OutputChunksHaveNoGaps extends Checker {
  /** By `<task>#<fence>`: the next number, and all the log has pointed to. */
  readonly #printed = new Map<string, { next: number; readonly numbers: Set<number> }>();
  /** By `<task>#<fence>`: the sessions in which it spoke. */
  readonly #feedbackSessions = new Map<string, Set<string>>();

  override onSentToScheduler({ reports, sessionKey }: ObservedFrame): void {
    for (const { of, attempt } of reports)
      if (of === "feedback") getOrCreate(this.#feedbackSessions, attempt, () => new Set<string>()).add(sessionKey);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route === "readChunks" && answer.status === 200)
      this.#checkRows(call.params["task"] ?? "", Number(call.params["fence"]), answer.body as OutputChunkPage);
  }

  override onFact({ type, data, position, tenant, task, attempt: name }: ObservedFact): void {
    const chunks = data["chunks"] as { readonly first: number; readonly count: number } | undefined;
    const holder = this.projection.grants.get(name)?.worker ?? "";
    if (type !== "task.feedback" || chunks === undefined || this.world.isLegacyWorker(holder)) return;
    const one = getOrCreate(this.#printed, name, () => ({ next: 0, numbers: new Set<number>() }));
    const where = `position ${position} of ${tenant}: ${name} prints ${chunks.first} and ${chunks.count - 1} more`;
    this.checkedCount++;
    if (chunks.first < one.next) return this.fail(`${where} after ${one.next - 1}`, task);
    if (chunks.first > one.next && (this.#feedbackSessions.get(name)?.size ?? 0) < 2)
      return this.fail(`${where} after ${one.next - 1}, and its worker used only one session`, task);
    for (let at = 0; at < chunks.count; at++) one.numbers.add(chunks.first + at);
    one.next = chunks.first + chunks.count;
  }

  #checkRows(task: string, fence: number, { items }: OutputChunkPage): void {
    const name = `${task}#${fence}`;
    const rows = new Set<number>();
    for (const { first, count, chunks } of items) {
      this.checkedCount++;
      if (chunks.length !== count) return this.fail(`a row of ${name} says ${count} chunks and holds ${chunks.length}`, task);
      for (let at = 0; at < count; at++) {
        if (rows.has(first + at)) return this.fail(`chunk ${first + at} of ${name} is stored twice`, task);
        rows.add(first + at);
      }
    }
    const numbers = this.#printed.get(name)?.numbers;
    if (numbers === undefined) return;
    const gone = [...numbers].find((number) => !rows.has(number));
    if (gone !== undefined) return this.fail(`the log points to chunk ${gone} of ${name}, and it is not stored`, task);
    const stray = [...rows].find((number) => !numbers.has(number));
    if (stray !== undefined) this.fail(`chunk ${stray} of ${name} is stored, and the log does not point to it`, task);
  }
}
