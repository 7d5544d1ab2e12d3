// Lists in the server's binary form of arrays, taken without parsing and written without quoting: a head, then length and bytes of each.

const headBytes = 20;
const nullLength = -1;
const textType = 25;
const numberType = 701;
const numberBytes = 8;
const initialBytes = 200;

/** Half of a surrogate pair has no bytes, and would silently become another character. */
export class IllFormedText extends Error {}

class BinaryArrayWriter {
  protected bytes: Buffer;
  protected view: DataView;
  protected position = headBytes;
  #count = 0;
  readonly #type: number;

  constructor(type: number, expectedBytes: number) {
    this.#type = type;
    this.bytes = Buffer.allocUnsafe(headBytes + expectedBytes);
    this.view = viewOf(this.bytes);
  }

  get count(): number {
    return this.#count;
  }

  pushNull(): void {
    this.reserve(4);
    this.view.setInt32(this.position, nullLength);
    this.position += 4;
  }

  /** The list is over: its bytes are not changed any more. */
  finish(): Buffer {
    for (const [at, field] of [1, 1, this.#type, this.#count, 1].entries()) this.view.setInt32(4 * at, field);
    return this.bytes.subarray(0, this.position);
  }

  protected reserve(bytes: number): void {
    this.#count++;
    if (this.position + bytes <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.position + bytes));
    this.bytes.copy(larger, 0, 0, this.position);
    this.bytes = larger;
    this.view = viewOf(larger);
  }
}

const viewOf = ({ buffer, byteOffset, length }: Buffer) => new DataView(buffer, byteOffset, length);

export class TextArrayWriter extends BinaryArrayWriter {
  constructor(expectedBytes = initialBytes) {
    super(textType, expectedBytes);
  }

  push(text: string): void {
    this.reserve(4 + 3 * text.length);
    const length = this.bytes.write(text, this.position + 4);
    if (length !== text.length && !text.isWellFormed())
      throw new IllFormedText(`${JSON.stringify(text)} contains a NUL or half of a surrogate pair`);
    this.view.setInt32(this.position, length);
    this.position += 4 + length;
  }
}

/** Whole numbers and fractions alike: no count of ours is beyond what a double holds exactly. */
export class NumberArrayWriter extends BinaryArrayWriter {
  constructor(expectedBytes = initialBytes) {
    super(numberType, expectedBytes);
  }

  push(number: number): void {
    this.reserve(4 + numberBytes);
    this.view.setInt32(this.position, numberBytes);
    this.view.setFloat64(this.position + 4, number);
    this.position += 4 + numberBytes;
  }
}
