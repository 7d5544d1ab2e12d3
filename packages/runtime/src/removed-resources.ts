// Resources that are gone and of which the scheduler has not been told, gathered into few frames. In which order they leave among the
// outcomes is decided here; that they arrive is the outbox's business.

import { limits, type ResourceRemovedPayload, type ResultArtifact } from "@astraflow/protocol";

type Item = ResourceRemovedPayload["items"][number];

/** While there is no session more than this are not remembered, oldest first: a register says what is kept, and time ends the rest. */
const waitingMax = limits.registeredResourcesMax;

export class RemovedResources {
  readonly #put: (payload: string) => void;
  readonly #waiting: { readonly item: Item; readonly after: number }[] = [];

  /** `put`: the payload of one frame. */
  constructor(put: (payload: string) => void) {
    this.#put = put;
  }

  /** `after`: so many outcomes were known by then, and any of them may name it. */
  add(item: Item, after: number): void {
    this.#waiting.push({ item, after });
    if (this.#waiting.length > waitingMax) this.#waiting.shift();
  }

  /** `left`: so many outcomes are in the outbox, or were. */
  say(left: number): void {
    if (this.#waiting.length === 0) return;
    const end = this.#waiting.findIndex(({ after }) => after > left);
    const due = this.#waiting.splice(0, end < 0 ? this.#waiting.length : end).map(({ item }) => item);
    for (let at = 0; at < due.length; at += limits.batchItemsMax)
      this.#put(JSON.stringify({ items: due.slice(at, at + limits.batchItemsMax) } satisfies ResourceRemovedPayload));
  }
}

/** Of outcomes that an earlier process has left: what they name and nobody keeps any more, such as what was in that process's memory. */
export function lostWith(left: readonly { readonly payload: string }[], kept: ReadonlySet<string>): string[] {
  return left.flatMap(({ payload }) => {
    if (!payload.includes('"artifacts"')) return [];
    const { artifacts = [] } = JSON.parse(payload) as { artifacts?: readonly ResultArtifact[] };
    return artifacts.flatMap(({ resource_id, inline }) => (inline === true || kept.has(resource_id) ? [] : [resource_id]));
  });
}
