// Which roots must commit or fail together: all that one command changed, and all that a later command of the turn saw of them.

import type { RootRef } from "./root.ts";

export class RootGroups {
  /** Each root that is bound, pointing to another of its group. */
  readonly #links = new Map<RootRef, RootRef>();
  #touched: RootRef | null = null;

  /** The root of the present command's change set; null when it changed nothing. */
  get touched(): RootRef | null {
    return this.#touched;
  }

  /** Start of a command. */
  beginCommand(): void {
    this.#touched = null;
  }

  /** Roots that one command changes must commit or fail together: put them into one group. */
  touch(root: RootRef): void {
    if (this.#touched === null) this.#touched = root;
    else if (this.#touched !== root) this.#link(root, this.#touched);
  }

  /** The root that represents the whole group. */
  groupOf(root: RootRef): RootRef {
    if (this.#links.size === 0) return root;
    let at = root;
    for (let up = this.#links.get(at); up !== undefined; up = this.#links.get(at)) at = up;
    return at;
  }

  #link(a: RootRef, b: RootRef): void {
    const [x, y] = [this.groupOf(a), this.groupOf(b)];
    if (x !== y) this.#links.set(x, y);
  }
}
