// Resources that are gone and of which the scheduler has not been told, gathered into few frames. In which order they leave among the
// outcomes is decided here; that they arrive is the outbox's business.

import { limits, type ResourceRemovedPayload, type ResultArtifact } from "@astraflow/protocol";

type RemovedItem = ResourceRemovedPayload["items"][number];

/** While there is no session more than this are not remembered, oldest first: a register says what is kept, and time ends the rest. */
const pendingMax = limits.registeredResourcesMax;

export class RemovedResourceReports {
  readonly #sendPayload: (payload: string) => void;
  readonly #pending: { readonly item: RemovedItem; readonly after: number }[] = [];

  /** `put`: the payload of one frame. */
  constructor(put: (payload: string) => void) {
    this.#sendPayload = put;
  }

  /** `after`: so many outcomes were known by then, and any of them may name it. */
  add(item: RemovedItem, after: number): void {
    this.#pending.push({ item, after });
    if (this.#pending.length > pendingMax) this.#pending.shift();
  }

  /** `left`: so many outcomes are in the outbox, or were. */
  sendDue(left: number): void {
    if (this.#pending.length === 0) return;
    const end = this.#pending.findIndex(({ after }) => after > left);
    const due = this.#pending.splice(0, end < 0 ? this.#pending.length : end).map(({ item }) => item);
    for (let at = 0; at < due.length; at += limits.batchItemsMax)
      this.#sendPayload(JSON.stringify({ items: due.slice(at, at + limits.batchItemsMax) } satisfies ResourceRemovedPayload));
  }
}

/** Of outcomes that an earlier process has left: what they name and nobody keeps any more, such as what was in that process's memory. */
export function findLostResources(left: readonly { readonly payload: string }[], kept: ReadonlySet<string>): string[] {
  return left.flatMap(({ payload }) => {
    if (!payload.includes('"artifacts"')) return [];
    const { artifacts = [] } = JSON.parse(payload) as { artifacts?: readonly ResultArtifact[] };
    return artifacts.flatMap(({ resource_id, inline }) => (inline === true || kept.has(resource_id) ? [] : [resource_id]));
  });
}
