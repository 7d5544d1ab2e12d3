// Frames on a stream of bytes: four bytes of length, big-endian, then so many bytes of JSON in UTF-8.

import { hostLimits } from "./host-frames.ts";

const lengthBytes = 4;

/** A text is a frame that was written already. */
export function encodeFrames(frames: readonly (object | string)[]): Buffer {
  const texts = frames.map((frame) => (typeof frame === "string" ? frame : JSON.stringify(frame)));
  const sizes = texts.map((text) => Buffer.byteLength(text));
  const bytes = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + size + lengthBytes, 0));
  let at = 0;
  for (const [index, text] of texts.entries()) {
    at = bytes.writeUInt32BE(sizes[index] as number, at);
    at += bytes.write(text, at);
  }
  return bytes;
}

/** Puts frames together again, however the bytes are cut. */
export class FrameDecoder {
  #parts: Buffer[] = [];
  #size = 0;

  /** The values that are complete now; throws where the bytes are none. Nothing may be added after that. */
  *add(bytes: Buffer): Generator<unknown> {
    this.#parts.push(bytes);
    this.#size += bytes.length;
    for (;;) {
      if (this.#size < lengthBytes) return;
      const head = this.#peek(lengthBytes);
      const length = head.readUInt32BE(0);
      if (length > hostLimits.frameBytesMax)
        throw new Error(`a frame of ${length} bytes is larger than the ${hostLimits.frameBytesMax} it may have`);
      if (this.#size < lengthBytes + length) return;
      const frame = this.#peek(lengthBytes + length);
      const text = frame.toString("utf8", lengthBytes, lengthBytes + length);
      this.#skip(lengthBytes + length);
      yield JSON.parse(text) as unknown;
    }
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  #peek(size: number): Buffer {
    const [first] = this.#parts;
    if (first !== undefined && first.length >= size) return first;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [whole];
    return whole;
  }

  #skip(size: number): void {
    const first = this.#parts[0] as Buffer;
    this.#size -= size;
    if (first.length === size) this.#parts.shift();
    else this.#parts[0] = first.subarray(size);
  }
}
