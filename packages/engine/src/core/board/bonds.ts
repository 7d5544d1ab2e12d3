// Which roots must commit or fail together: all that one command changed, and all that a later command of the turn saw of them.

import type { Root } from "./root.ts";

export class Bonds {
  /** Each root that is bound, pointing to another of its group. */
  readonly #links = new Map<Root, Root>();
  #touched: Root | null = null;

  /** The root whose unit the present command belongs to; null when it changed nothing. */
  get touched(): Root | null {
    return this.#touched;
  }

  /** Start of a command. */
  begin(): void {
    this.#touched = null;
  }

  /** Roots that one command changes must commit or fail together: remember that they belong to one unit. */
  touch(root: Root): void {
    if (this.#touched === null) this.#touched = root;
    else if (this.#touched !== root) this.#link(root, this.#touched);
  }

  /** The root that stands for the whole group of this one. */
  find(root: Root): Root {
    if (this.#links.size === 0) return root;
    let at = root;
    for (let up = this.#links.get(at); up !== undefined; up = this.#links.get(at)) at = up;
    return at;
  }

  #link(a: Root, b: Root): void {
    const [x, y] = [this.find(a), this.find(b)];
    if (x !== y) this.#links.set(x, y);
  }
}
