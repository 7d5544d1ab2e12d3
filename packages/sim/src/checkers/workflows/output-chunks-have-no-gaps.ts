// I45: what an attempt prints is numbered without a gap and without a repeat, as far as its words came: the log points to chunks one after the
// other, and the rows that a reader finds hold exactly those. A gap is a word that was lost with a session.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import type { OutputChunkPage } from "../../observation/observation.ts";

export function checkOutputChunksHaveNoGaps({ reportViolation, projection, world }: CheckerContext): Checker {
  /** By `<task>#<fence>`: the next number, and all the log has pointed to. */
  const told = new Map<string, { next: number; readonly numbers: Set<number> }>();
  /** By `<task>#<fence>`: the sessions in which it spoke. */
  const sessions = new Map<string, Set<string>>();
  let checkedCount = 0;

  const checkFact = ({ data, position, tenant }: ObservedFact): void => {
    const task = String(data["task"]);
    const name = `${task}#${Number(data["fence"])}`;
    const chunks = data["chunks"] as { readonly first: number; readonly count: number } | undefined;
    if (chunks === undefined) return;
    const one = told.get(name) ?? { next: 0, numbers: new Set<number>() };
    told.set(name, one);
    const where = `position ${position} of ${tenant}: ${name} prints ${chunks.first} and ${chunks.count - 1} more`;
    checkedCount++;
    if (chunks.first < one.next) return reportViolation(`${where} after ${one.next - 1}`, [task]);
    if (chunks.first > one.next && (sessions.get(name)?.size ?? 0) < 2)
      return reportViolation(`${where} after ${one.next - 1}, and it has spoken in one session only`, [task]);
    for (let at = 0; at < chunks.count; at++) one.numbers.add(chunks.first + at);
    one.next = chunks.first + chunks.count;
  };

  const checkRows = (task: string, fence: number, { items }: OutputChunkPage): void => {
    const name = `${task}#${fence}`;
    const rows = new Set<number>();
    for (const { first, count, chunks } of items) {
      checkedCount++;
      if (chunks.length !== count)
        return reportViolation(`a row of ${name} says ${count} chunks and holds ${chunks.length}`, [task]);
      for (let at = 0; at < count; at++) {
        if (rows.has(first + at)) return reportViolation(`chunk ${first + at} of ${name} is stored twice`, [task]);
        rows.add(first + at);
      }
    }
    const numbers = told.get(name)?.numbers;
    if (numbers === undefined) return;
    const gone = [...numbers].find((number) => !rows.has(number));
    if (gone !== undefined) return reportViolation(`the log points to chunk ${gone} of ${name}, and it is not stored`, [task]);
    const stray = [...rows].find((number) => !numbers.has(number));
    if (stray !== undefined) reportViolation(`chunk ${stray} of ${name} is stored, and the log does not point to it`, [task]);
  };

  const handleFrame = (frame: ObservedFrame): void => {
    if (frame.type !== "biz.exec.feedback" || frame.seen.event !== "sent") return;
    for (const { task, fence } of taskReportsIn(frame)) {
      const name = `${task}#${fence}`;
      sessions.set(name, (sessions.get(name) ?? new Set<string>()).add(frame.sessionKey));
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame: handleFrame,
    onFact(fact) {
      const holder = projection.grants.get(`${String(fact.data["task"])}#${Number(fact.data["fence"])}`)?.worker;
      if (fact.type === "task.feedback" && !world.isLegacyWorker(holder ?? "")) checkFact(fact);
    },
    onExchange({ call, answer }) {
      if (call.route === "readChunks" && answer.status === 200)
        checkRows(call.params["task"] ?? "", Number(call.params["fence"]), answer.body as OutputChunkPage);
    },
  };
}
