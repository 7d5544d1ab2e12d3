// A map with a bound: what was used least recently leaves first. One for the whole repository, so that every cache forgets in the same way.
// Its fields are visible to a search that copies whole state machines.

export interface LruMapOptions<K, V> {
  readonly entriesMax: number;
  /** Bound on the sum of `estimateRecordBytes`; an entry heavier than all of it is not kept. */
  readonly weightMax?: number;
  readonly weightOf?: (value: V, key: K) => number;
  /** False: reading does not count as use, and the oldest insertion leaves first. */
  readonly touchOnGet?: boolean;
  readonly onEvict?: (key: K, value: V) => void;
}

export class LruMap<K, V> {
  private readonly entries = new Map<K, V>();
  private readonly options: LruMapOptions<K, V>;
  private weight = 0;

  constructor(options: LruMapOptions<K, V>) {
    this.options = options;
  }

  get size(): number {
    return this.entries.size;
  }

  /** The value, which becomes the most recently used one. */
  get(key: K): V | undefined {
    const value = this.entries.get(key);
    if (value !== undefined && this.options.touchOnGet !== false) {
      this.entries.delete(key);
      this.entries.set(key, value);
    }
    return value;
  }

  peek(key: K): V | undefined {
    return this.entries.get(key);
  }

  has(key: K): boolean {
    return this.entries.has(key);
  }

  /** Stores the value as the most recently used one, and evicts the oldest entries that no longer fit. */
  set(key: K, value: V): void {
    this.delete(key);
    this.entries.set(key, value);
    this.weight += this.weightOf(key, value);
    const { entriesMax, weightMax = Number.POSITIVE_INFINITY } = this.options;
    while (this.entries.size > entriesMax || this.weight > weightMax) this.evictOldest();
  }

  delete(key: K): boolean {
    const value = this.entries.get(key);
    if (value !== undefined) this.weight -= this.weightOf(key, value);
    return this.entries.delete(key);
  }

  clear(): void {
    this.entries.clear();
    this.weight = 0;
  }

  /** Oldest first. */
  keys(): MapIterator<K> {
    return this.entries.keys();
  }

  /** Oldest first. */
  values(): MapIterator<V> {
    return this.entries.values();
  }

  private weightOf(key: K, value: V): number {
    return this.options.weightOf?.(value, key) ?? 0;
  }

  private evictOldest(): void {
    for (const [key, value] of this.entries) {
      this.delete(key);
      this.options.onEvict?.(key, value);
      return;
    }
  }
}
