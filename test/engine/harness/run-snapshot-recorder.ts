// Records runs over REST while they proceed, and later reads each recorded position again to compare.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture, type WorkflowFixture } from "@astraflow/doors/testing";
import { type Run, RunFold, type RunNodeStatus } from "@astraflow/protocol";
import type { EngineHarness } from "./engine-harness.ts";
import { createHarnessLink } from "./harness-link.ts";

const tokens = createTokenAuthenticator([{ token: "ann", tenant: "t1", user: "ann", grants: ["view"] }]);
export const endedPhases = ["succeeded", "failed", "cancelled"];

/** Without what only the row of an ended node contains. */
function knownFields({ result: _r, metadata: _m, resourceRefs: _f, affinity: _a, ...node }: RunNodeStatus): object {
  return node;
}

const comparableRun = ({ at: _, nodes = [], ...run }: Run): object => ({
  ...run,
  nodes: nodes.map((node) => (endedPhases.includes(node.status) || node.status === "skipped" ? node : knownFields(node))),
});

/** What is known of tasks, as far as rows and facts both contain it. */
interface TaskFacts {
  readonly id: string;
  readonly phase: string;
  readonly fence: number;
  readonly attempt: number;
  readonly worker: string | null;
  readonly grantedAt: number | null;
  readonly endedAt: number | null;
}

const comparableTask = ({ id, phase, fence, attempt, worker, grantedAt, endedAt }: TaskFacts, error: unknown): object => ({
  ...{ id, phase, fence, attempt, worker, grantedAt, endedAt },
  error,
});
const parseOrNull = (text: string | null): unknown => (text === null ? null : JSON.parse(text));

export class RunSnapshotRecorder {
  readonly #harness: EngineHarness;
  readonly #bench: WorkflowFixture;
  readonly #snapshots: Run[] = [];

  constructor(harness: EngineHarness) {
    this.#harness = harness;
    this.#bench = openWorkflowFixture({ engineClient: createHarnessLink(harness), reader: harness.store, authenticate: tokens });
  }

  /** Its status as the detail shows it. */
  async record(runId: string): Promise<string> {
    const { body } = await this.#bench.callRoute("getRun", { as: "ann", params: { runId } });
    this.#snapshots.push(body);
    return body.status;
  }

  /** What each look saw, and what is shown of that position now. */
  async readAgain(): Promise<{ seen: object[]; shown: object[] }> {
    const shown: object[] = [];
    for (const { runId, asOf } of this.#snapshots) {
      const { body } = await this.#bench.callRoute("getRun", { as: "ann", params: { runId }, query: { at: String(asOf) } });
      shown.push(comparableRun(body));
    }
    return { seen: this.#snapshots.map(comparableRun), shown };
  }

  /** The run by its facts alone, folded in two parts, and by its rows. */
  async compareFactsWithRows(run: string): Promise<{ facts: object; rows: object }> {
    const { items } = await this.#harness.store.events({ tenant: "t1", after: 0, limit: 100_000, subject: `run/${run}` });
    const half = Math.floor(items.length / 2);
    const moment = new RunFold(new RunFold(null).add(items.slice(0, half)).finish()).add(items.slice(half)).finish();
    const { run: row, tasks } = await this.#harness.runDetail(run);
    const ofTasks = [...moment.tasks.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    const { status, open, startedAt, endedAt, error } = moment;
    return {
      facts: { phase: status, open, startedAt, endedAt, error, tasks: ofTasks.map((task) => comparableTask(task, task.error)) },
      rows: {
        phase: row.phase,
        open: row.open,
        startedAt: row.startedAt,
        endedAt: row.endedAt,
        error: parseOrNull(row.error),
        tasks: tasks.map((task) => comparableTask(task, parseOrNull(task.error))),
      },
    };
  }
}
