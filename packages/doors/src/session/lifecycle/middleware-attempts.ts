// Finds the attempt of a middleware by run and node, which is all that older workers name when it calls the next of its chain. Pure.

import type { AttemptRef, SendDispatch } from "@astraflow/engine";

export class MiddlewareAttempts {
  readonly #byNode = new Map<string, AttemptRef[]>();
  readonly #nodeOf = new Map<string, string>();

  /** Does nothing for attempts that are not in a chain. */
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

  /** The attempt of `task` if this session holds it, else the last one of that node. */
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
