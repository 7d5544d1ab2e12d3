// Checks that no effect leaves the engine before its commit is visible: asks a reader of the store at the moment the effect leaves.
// The memory store answers as of the time of the request, so the answer may be awaited later.

import type { Command, Effect, FaultData, StoreReader } from "@astraflow/engine";
import type { KillableEngine } from "./killable-engine.ts";

/** A command on its way, and how often it was answered. */
export interface PendingCommand {
  readonly engine: KillableEngine;
  readonly command: Command;
  readonly onAnswer: (fault: FaultData | null) => void;
  readonly sentInRound: number;
  answers: number;
}

/** What is wrong with sending this effect now, or null. `word` is the command that an answer is for. */
export async function visibilityProblem(
  reader: StoreReader,
  effect: Effect,
  word: { readonly command: Command } | undefined,
): Promise<string | null> {
  if (effect.type === "dispatch") {
    const { run, task, fence } = effect.dispatch;
    const row = await readTaskRow(reader, effect.tenant, run, task);
    return row !== undefined && row.fence >= fence ? null : `${task} was dispatched under ${fence} before its grant was visible`;
  }
  if (effect.type !== "answer" || effect.body === null || word === undefined) return null;
  const { command } = word;
  if (effect.body.of === "run") {
    const { detail } = await reader.page({ page: "run", tenant: command.tenant, run: effect.body.run });
    if (detail === null) return `run ${effect.body.run} was answered before it was visible`;
    const isCancelled = command.type !== "run.cancel" || detail.run.phase === "ending" || detail.run.endedAt !== null;
    return isCancelled ? null : `the cancelling of ${effect.body.run} was answered before it was visible`;
  }
  if (effect.body.of === "join" && command.type === "worker.join") {
    const { epoch } = effect.body;
    const { items } = await reader.page({ page: "workers", tenant: command.tenant });
    const isThere = items.some((worker) => worker.id === command.worker && worker.epoch >= epoch);
    return isThere ? null : `${command.worker} was answered its join before it was visible`;
  }
  if (effect.body.of === "word" && effect.body.applied && command.type === "task.result") {
    const row = await readTaskRow(reader, command.tenant, command.task.slice(0, command.task.indexOf(".")), command.task);
    const isVisible = row !== undefined && (row.endedAt !== null || row.fence > (command.fence ?? 0));
    return isVisible ? null : `the result of ${command.task} was answered before it was visible`;
  }
  return null;
}

async function readTaskRow(reader: StoreReader, tenant: string, run: string, task: string) {
  const { detail } = await reader.page({ page: "run", tenant, run });
  return detail?.tasks.find((one) => one.id === task);
}
