// A list kept in order by comparison, for the memory store's indexes. Entries are found by binary search; equal entries do not occur.

export class SortedList<T> {
  readonly #items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    const last = this.#items.at(-1);
    // Most entries come in order; searching for them would be the whole cost of a large line.
    if (last === undefined || this.#compare(last, item) < 0) this.#items.push(item);
    else this.#items.splice(this.#indexOf(item), 0, item);
  }

  remove(item: T): void {
    const index = this.#indexOf(item);
    const found = this.#items[index];
    if (found === undefined || this.#compare(found, item) !== 0) throw new Error("an index of the memory store lost an entry");
    if (index === 0) this.#items.shift();
    else this.#items.splice(index, 1);
  }

  /** Entries from the first that is not below `from`, in order. Must not be changed while they are read. */
  *from(from: T): Generator<T> {
    for (let index = this.#indexOf(from); index < this.#items.length; index++) yield this.#items[index] as T;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items.values();
  }

  #indexOf(item: T): number {
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(this.#items[middle] as T, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Sorted lists by name; a list is there as long as it has entries. */
export class SortedLists<Name, T> {
  readonly #lists = new Map<Name, SortedList<T>>();
  readonly #compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  names(): Name[] {
    return [...this.#lists.keys()];
  }

  get(name: Name): SortedList<T> | undefined {
    return this.#lists.get(name);
  }

  add(name: Name, item: T): void {
    let list = this.#lists.get(name);
    if (list === undefined) this.#lists.set(name, (list = new SortedList<T>(this.#compare)));
    list.add(item);
  }

  remove(name: Name, item: T): void {
    const list = this.#lists.get(name);
    if (list === undefined) throw new Error(`the memory store has no list ${String(name)}`);
    list.remove(item);
    if (list.size === 0) this.#lists.delete(name);
  }
}
