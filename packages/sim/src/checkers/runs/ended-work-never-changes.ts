// I6: what has ended never changes again. Every read of an ended run or node, on any scheduler, shows the same as the first one.

import { type ApiExchange, Checker } from "../../checking/checker.ts";

const endedStatuses = new Set(["succeeded", "failed", "cancelled", "skipped"]);

/** Fields that lists and details do not share. */
const pageFields = ["asOf", "nodesNextCursor", "artifacts"] as const;

interface RunView {
  readonly runId: string;
  readonly status: string;
  readonly nodes?: readonly { readonly taskId: string; readonly status: string }[];
}

export class EndedWorkNeverChanges extends Checker {
  /** As first seen, and the observation at which it was. */
  readonly #first = new Map<string, { readonly image: string; readonly n: number }>();

  override onExchange({ call, answer }: ApiExchange): void {
    if (answer.status !== 200) return;
    const runs =
      call.route === "getRun"
        ? [answer.body as RunView]
        : call.route === "listRuns"
          ? (answer.body as { items: readonly RunView[] }).items
          : [];
    for (const run of runs) {
      const { nodes = [], ...rest } = run;
      for (const name of pageFields) delete (rest as Record<string, unknown>)[name];
      this.#look(run.runId, run.status, JSON.stringify(rest), call.n, answer.n);
      for (const node of nodes) this.#look(node.taskId, node.status, comparableNode(node), call.n, answer.n);
    }
  }

  #look(id: string, status: string, image: string, asked: number, n: number): void {
    const before = this.#first.get(id);
    if (before !== undefined && before.n < asked) {
      this.checkedCount++;
      if (before.image !== image)
        return this.reportViolation(`${id} had ended and changed: ${before.image} became ${image}`, [id]);
    }
    if (before === undefined && endedStatuses.has(status)) this.#first.set(id, { image, n });
  }
}

interface NodeView {
  readonly state?: { readonly worker?: string };
  readonly artifacts?: readonly { readonly removed?: string; readonly status?: string; readonly expiresAt?: string }[];
}

/** A node without its worker's name, which may change, and without the status of its artifacts. */
function comparableNode({ state, artifacts = [], ...node }: object & NodeView): string {
  const { worker: _, ...words } = state ?? {};
  const left = artifacts.map(({ removed: _removed, status: _status, expiresAt: _expiresAt, ...artifact }) => artifact);
  const image = { ...node, artifacts: left, state: words };
  return JSON.stringify(image, (key, value: unknown) => (key === "workerName" ? undefined : value));
}
