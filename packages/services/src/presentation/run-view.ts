// Runs and facts as the API shows them. Pure; what a reader may see was decided by the tenant in the query.

import { attemptPhase, type LoggedFact, type RunRow, readRunOrigin, readTaskState, type TaskRow } from "@astraflow/engine";
import type { Run, RunEvent, RunRef, RunStatus } from "@astraflow/protocol";
import { isoTime } from "./iso-time.ts";

/** A run whose tasks are still being told to stop has not ended yet. */
const runStatusOf = (phase: string): RunStatus => (phase === "ending" ? "running" : (phase as RunStatus));

/** A workflow row's key is `<tenant>/<digest>`; the tenant's name has no slash. */
export const definitionDigestOf = (workflow: string): string => workflow.slice(workflow.indexOf("/") + 1);

export function presentRunRef(run: { run: string; phase: string; workflow: string; client: string; createdAt: number }): RunRef {
  return {
    runId: run.run,
    status: runStatusOf(run.phase),
    definitionHash: definitionDigestOf(run.workflow),
    clientId: run.client,
    createdAt: isoTime(run.createdAt),
  };
}

export function presentRun(run: RunRow): Run {
  return {
    ...presentRunRef({ ...run, run: run.id }),
    ...(run.startedAt !== null && { startedAt: isoTime(run.startedAt) }),
    ...(run.endedAt !== null && { finishedAt: isoTime(run.endedAt) }),
    priority: run.band,
    ...(run.label !== "" && { name: run.label }),
    ...(run.source !== "" && { workflowId: run.source }),
    ...runOriginFields(run),
    openTasks: run.open,
    ...(run.error !== null && { error: JSON.parse(run.error) as NonNullable<Run["error"]> }),
  };
}

function runOriginFields(run: RunRow): Partial<Run> {
  const { by, version, versionHash, labels, replayOf } = readRunOrigin(run);
  return {
    ...(by !== undefined && { startedBy: by }),
    ...((typeof version === "number" || version === "draft") && { version }),
    ...(versionHash !== undefined && { versionHash }),
    ...(labels !== undefined && { labels: { ...labels } }),
    ...(replayOf !== undefined && { repeatOf: replayOf }),
  };
}

/** Whether nothing was heard of a dispatch yet. Acks are stored some time after they come; whoever has spoken has the task. */
export function isAckPending(task: TaskRow): boolean {
  const reportedAt = readTaskState(task).said?.at;
  return attemptPhase(task) === "granted" && (reportedAt === undefined || reportedAt < (task.grantedAt ?? 0));
}

export function presentRunEvent(entry: LoggedFact, runId: string): RunEvent {
  return { position: entry.position, type: entry.type, at: isoTime(entry.at), runId, data: entry.data as RunEvent["data"] };
}
