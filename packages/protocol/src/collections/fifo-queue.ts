// A first-in-first-out list that stays cheap however long it grows: taking from an array's front moves every other element.
// Its fields are visible to a search that copies whole state machines.

const compactThreshold = 1_024;

export class FifoQueue<T> {
  private items: (T | undefined)[] = [];
  private head = 0;

  get size(): number {
    return this.items.length - this.head;
  }

  push(item: T): void {
    this.items.push(item);
  }

  peek(): T | undefined {
    return this.items[this.head];
  }

  shift(): T | undefined {
    if (this.head === this.items.length) return undefined;
    const item = this.items[this.head];
    this.items[this.head] = undefined;
    this.head++;
    if (this.head === this.items.length) {
      this.items = [];
      this.head = 0;
    } else if (this.head >= compactThreshold && this.head * 2 >= this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
    return item;
  }

  at(index: number): T | undefined {
    return this.items[this.head + index];
  }

  /** Puts older items in front of all that wait. */
  putInFront(older: readonly T[]): void {
    if (older.length === 0) return;
    this.items = [...older, ...this.items.slice(this.head)];
    this.head = 0;
  }

  forEach(visit: (item: T) => void): void {
    for (let at = this.head; at < this.items.length; at += 1) visit(this.items[at] as T);
  }

  drain(): T[] {
    const all = this.items.slice(this.head) as T[];
    this.items = [];
    this.head = 0;
    return all;
  }
}
