// A bounded queue in which tenants take turns: one that sends many requests delays the requests of another by one, not by all of its own.

export interface TurnLimits {
  readonly itemsMax: number;
  readonly itemsPerTenantMax: number;
  readonly bytesMax: number;
  readonly bytesPerTenantMax: number;
}

interface QueuedItem<T> {
  readonly item: T;
  readonly bytes: number;
}

interface TenantQueue<T> {
  readonly items: QueuedItem<T>[];
  bytes: number;
}

export class TenantTurns<T> {
  readonly #limits: TurnLimits;
  /** The tenant whose turn it is comes first. */
  readonly #queues = new Map<string, TenantQueue<T>>();
  #lastTenant: string | null = null;
  #items = 0;
  #bytes = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#items;
  }

  /** Null: it was taken. Otherwise why not. */
  push(tenant: string, item: T, bytes: number): string | null {
    const { itemsMax, itemsPerTenantMax, bytesMax, bytesPerTenantMax } = this.#limits;
    const queue = this.#queues.get(tenant) ?? { items: [], bytes: 0 };
    if (queue.items.length >= itemsPerTenantMax) return `${itemsPerTenantMax} of tenant ${tenant} wait already`;
    if (this.#items >= itemsMax) return `${itemsMax} wait already`;
    // One is always taken: its size has a limit of its own.
    if (queue.items.length > 0 && queue.bytes + bytes > bytesPerTenantMax)
      return `those of tenant ${tenant} that wait have ${queue.bytes} bytes already`;
    if (this.#items > 0 && this.#bytes + bytes > bytesMax) return `those that wait have ${this.#bytes} bytes already`;
    queue.items.push({ item, bytes });
    queue.bytes += bytes;
    this.#queues.set(tenant, queue);
    this.#items += 1;
    this.#bytes += bytes;
    return null;
  }

  /** The oldest of the tenant whose turn it is. */
  shift(): T | undefined {
    const [first, second] = this.#queues;
    if (first === undefined) return undefined;
    // A tenant whose last item was just taken may have come back before the others.
    const [tenant, queue] = first[0] === this.#lastTenant && second !== undefined ? second : first;
    this.#lastTenant = tenant;
    const queued = queue.items.shift();
    this.#queues.delete(tenant);
    if (queue.items.length > 0) this.#queues.set(tenant, queue);
    if (queued === undefined) return undefined;
    queue.bytes -= queued.bytes;
    this.#items -= 1;
    this.#bytes -= queued.bytes;
    return queued.item;
  }

  drain(): T[] {
    const all: T[] = [];
    for (let item = this.shift(); item !== undefined; item = this.shift()) all.push(item);
    return all;
  }
}
