// I6: what has ended never changes again. Every read of an ended run or node, on any scheduler, shows the same as the first one.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { endedStatuses, runsShownBy } from "../../checking/run-view.ts";

/** Fields that lists and details do not share. */
const pageFields = ["asOf", "nodesNextCursor", "artifacts"] as const;

export class EndedWorkNeverChanges extends Checker {
  /** As first seen, and the observation at which it was. */
  readonly #first = new Map<string, { readonly image: string; readonly n: number }>();

  override onExchange(exchange: ApiExchange): void {
    for (const { nodes = [], ...run } of runsShownBy(exchange)) {
      for (const name of pageFields) delete (run as Record<string, unknown>)[name];
      this.#check(exchange, run.runId, run.status, JSON.stringify(run));
      for (const node of nodes) this.#check(exchange, node.taskId, node.status, comparableNode(node));
    }
  }

  #check({ call, answer }: ApiExchange, id: string, status: string, image: string): void {
    const before = this.#first.get(id);
    if (before !== undefined && before.n < call.n) {
      this.checkedCount++;
      if (before.image !== image) return this.fail(`${id} had ended and changed: ${before.image} became ${image}`, id);
    }
    if (before === undefined && endedStatuses.has(status)) this.#first.set(id, { image, n: answer.n });
  }
}

interface VolatileNodeFields {
  readonly state?: { readonly worker?: string };
  readonly artifacts?: readonly { readonly removed?: string; readonly status?: string; readonly expiresAt?: string }[];
}

/** A node without its worker's name, which may change, and without the status of its artifacts. */
function comparableNode({ state, artifacts = [], ...node }: object & VolatileNodeFields): string {
  const { worker: _, ...lastingState } = state ?? {};
  const lastingArtifacts = artifacts.map(({ removed: _removed, status: _status, expiresAt: _expiresAt, ...lasting }) => lasting);
  const image = { ...node, artifacts: lastingArtifacts, state: lastingState };
  return JSON.stringify(image, (key, value: unknown) => (key === "workerName" ? undefined : value));
}
