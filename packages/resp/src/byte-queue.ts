// Bytes that have arrived and are not read yet. Large values are joined once, when they are whole, however many pieces they came in.

const lineFeed = 0x0a;

export class ByteQueue {
  readonly #pieces: Buffer[] = [];
  #length = 0;
  /** So much of the first piece is read already. */
  #offset = 0;
  /** The bytes before this place hold no line feed. */
  #searched = 0;

  get length(): number {
    return this.#length;
  }

  add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#pieces.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
    this.#length += bytes.length;
  }

  /** The next byte, which stays; undefined where there is none. */
  peek(): number | undefined {
    return this.#pieces[0]?.[this.#offset];
  }

  /** The bytes before the next line feed, without it; null where there is none yet. The search goes on where it ended. */
  takeLine(): Buffer | null {
    let before = 0;
    for (const [index, piece] of this.#pieces.entries()) {
      const start = index === 0 ? this.#offset : 0;
      const size = piece.length - start;
      if (before + size > this.#searched) {
        const found = piece.indexOf(lineFeed, start + Math.max(0, this.#searched - before));
        if (found >= 0) {
          const line = this.take(before + found - start);
          this.skip(1);
          return line;
        }
      }
      before += size;
    }
    this.#searched = this.#length;
    return null;
  }

  /** Exactly so many bytes, which must be there. */
  take(count: number): Buffer {
    const parts: Buffer[] = [];
    for (let missing = count; missing > 0; ) {
      const piece = this.#pieces[0] as Buffer;
      const part = piece.subarray(this.#offset, this.#offset + missing);
      parts.push(part);
      missing -= part.length;
      this.skip(part.length);
    }
    this.#searched = 0;
    // A copy: what is kept of a request must not hold the larger piece that it arrived in.
    return Buffer.concat(parts);
  }

  skip(count: number): void {
    this.#length -= count;
    this.#searched = 0;
    for (let left = count; left > 0; ) {
      const rest = (this.#pieces[0] as Buffer).length - this.#offset;
      if (left < rest) {
        this.#offset += left;
        return;
      }
      left -= rest;
      this.#pieces.shift();
      this.#offset = 0;
    }
  }
}
