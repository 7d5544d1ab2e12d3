// Runs that were accepted while something died, and what must be true of them afterwards. No test lives here.

import type { Run, RunRef } from "@astraflow/protocol";
import { expect } from "vitest";
import type { SchedulerApi } from "./installation.ts";
import { pollUntil } from "./processes.ts";
import { textChainWorkflow } from "./workflows.ts";

/** Submits under one key until it is accepted, however often the scheduler dies meanwhile. */
export function submitUntilAccepted(api: SchedulerApi, at: number): Promise<RunRef> {
  const workflow = textChainWorkflow(`run ${at}`);
  return pollUntil(`run ${at} to be accepted`, () => api.startRun(workflow, `key-${at}`));
}

/** Every accepted run ended once, with its own result; beside them only `otherRunIds` exist. */
export async function expectEachRunEndedOnce(
  api: SchedulerApi,
  refs: readonly RunRef[],
  otherRunIds: readonly string[] = [],
): Promise<void> {
  const ended = await Promise.all(refs.map((ref) => api.waitForRunEnd(ref.runId)));
  ended.forEach((run, at) => {
    expect(run.status).toBe("succeeded");
    expect(run.nodes?.at(-1)?.result).toMatchObject({ text: [...`RUN ${at}`].reverse().join("") });
  });
  expect((await api.listRuns()).map((run: Run) => run.runId).sort()).toEqual(
    [...refs.map((ref) => ref.runId), ...otherRunIds].sort(),
  );
  for (const ref of refs) {
    const facts = await api.listRunFacts(ref.runId);
    const count = (type: string) => facts.filter((fact) => fact.type === type).length;
    expect({ created: count("run.created"), tasks: count("task.succeeded"), ended: count("run.succeeded") }).toEqual({
      created: 1,
      tasks: 3,
      ended: 1,
    });
    const positions = facts.map((fact) => fact.position);
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
    expect(new Set(positions).size).toBe(positions.length);
  }
}
