// What a running node last said about itself, taken from the facts: a run's own state holds only what decides something, progress
// and messages are in its log. Pure.

import type { Run, RunEvent } from "@astraflow/protocol";

interface Said {
  readonly fence: number;
  readonly progress: number | undefined;
  readonly message: string | undefined;
}

export type Progress = ReadonlyMap<string, Said>;

export const noProgress: Progress = new Map();

export function foldProgress(before: Progress, facts: readonly RunEvent[]): Progress {
  const after = new Map(before);
  for (const { type, data } of facts) {
    const { task, fence, progress, message } = data;
    if (type !== "task.feedback" || typeof task !== "string" || typeof fence !== "number") continue;
    const old = after.get(task)?.fence === fence ? after.get(task) : undefined;
    after.set(task, {
      fence,
      progress: typeof progress === "number" ? progress : old?.progress,
      message: typeof message === "string" ? message : old?.message,
    });
  }
  return after;
}

/** Words of an older attempt are left out: they say nothing about the present one. */
export function withProgress(run: Run, progress: Progress): Run {
  const nodes = (run.nodes ?? []).map((node) => {
    const said = progress.get(node.taskId);
    if (node.status !== "running" || !said || said.fence !== node.fence) return node;
    const state = {
      ...node.state,
      ...(said.progress !== undefined && { progress: Math.min(1, Math.max(0, said.progress)) }),
      ...(said.message !== undefined && { message: said.message }),
    };
    // A worker that reports has the dispatch; the stored acknowledgement may come later.
    return { ...node, state, pendingAck: false };
  });
  return { ...run, nodes };
}
