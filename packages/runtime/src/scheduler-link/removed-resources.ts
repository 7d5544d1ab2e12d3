// Reports of removed resources, gathered into few frames and put in order among the outcomes.

import { limits, type ResourceRemovedPayload, type ResultArtifact } from "@astraflow/protocol";

type RemovedItem = ResourceRemovedPayload["items"][number];

/** Without a session the oldest reports above this are dropped: the next register lists what is kept, and the rest expires. */
const pendingMax = limits.registeredResourcesMax;

export class RemovedResourceReports {
  readonly #sendPayload: (payload: string) => void;
  readonly #pending: { readonly item: RemovedItem; readonly after: number }[] = [];

  constructor(sendPayload: (payload: string) => void) {
    this.#sendPayload = sendPayload;
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
