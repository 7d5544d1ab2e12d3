// Which attempt of a session is meant by a run and a node of it: workers of the older dialects name a middleware that calls on by these
// alone. Pure. Whether the attempt is still theirs, the engine knows.

import type { AttemptRef, SendDispatch } from "@astraflow/engine";

export class ChainAttempts {
  readonly #byNode = new Map<string, AttemptRef[]>();
  readonly #nodeOf = new Map<string, string>();

  /** Only those in a chain can ask for the next of it. */
  add({ run, node, task, fence, chainIndex }: SendDispatch["dispatch"]): void {
    if (chainIndex === undefined) return;
    this.remove(task);
    const name = nodeKey(run, node);
    this.#byNode.set(name, [...(this.#byNode.get(name) ?? []), { task, fence }]);
    this.#nodeOf.set(task, name);
  }

  remove(task: string): void {
    const name = this.#nodeOf.get(task);
    if (name === undefined) return;
    this.#nodeOf.delete(task);
    const left = (this.#byNode.get(name) ?? []).filter((held) => held.task !== task);
    if (left.length === 0) this.#byNode.delete(name);
    else this.#byNode.set(name, left);
  }

  /** `task`: as the frame names it, which counts where this session holds it. Else the last one granted of that node. */
  find(run: string, nodes: readonly string[], task: string | null): AttemptRef | null {
    for (const node of nodes) {
      const held = this.#byNode.get(nodeKey(run, node)) ?? [];
      const one = held.find((candidate) => candidate.task === task) ?? held.at(-1);
      if (one !== undefined) return one;
    }
    return null;
  }
}

const nodeKey = (run: string, node: string): string => JSON.stringify([run, node]);
