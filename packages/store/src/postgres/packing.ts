// Lists of texts and numbers in the server's binary form of arrays: a head, then the length and the bytes of each. The server takes
// them without parsing, and we write them without quoting. What the lists mean is in sections.ts.

const headBytes = 20;
const nullLength = -1;
const textType = 25;
const numberType = 701;
const numberBytes = 8;
const fewBytes = 200;

/** Half of a surrogate pair has no bytes, and would silently become another character. */
export class BrokenText extends Error {}

class List {
  protected bytes: Buffer;
  protected view: DataView;
  protected at = headBytes;
  #count = 0;
  readonly #type: number;

  constructor(type: number, bytesLikely: number) {
    this.#type = type;
    this.bytes = Buffer.allocUnsafe(headBytes + bytesLikely);
    this.view = viewOf(this.bytes);
  }

  get count(): number {
    return this.#count;
  }

  pushNull(): void {
    this.reserve(4);
    this.view.setInt32(this.at, nullLength);
    this.at += 4;
  }

  /** The list is over: its bytes are not changed any more. */
  finish(): Buffer {
    for (const [at, word] of [1, 1, this.#type, this.#count, 1].entries()) this.view.setInt32(4 * at, word);
    return this.bytes.subarray(0, this.at);
  }

  protected reserve(bytes: number): void {
    this.#count++;
    if (this.at + bytes <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.at + bytes));
    this.bytes.copy(larger, 0, 0, this.at);
    this.bytes = larger;
    this.view = viewOf(larger);
  }
}

const viewOf = ({ buffer, byteOffset, length }: Buffer) => new DataView(buffer, byteOffset, length);

export class TextList extends List {
  constructor(bytesLikely = fewBytes) {
    super(textType, bytesLikely);
  }

  push(text: string): void {
    this.reserve(4 + 3 * text.length);
    const length = this.bytes.write(text, this.at + 4);
    if (length !== text.length && !text.isWellFormed()) throw new BrokenText(`${JSON.stringify(text)} is no text`);
    this.view.setInt32(this.at, length);
    this.at += 4 + length;
  }
}

/** Whole numbers and fractions alike: no count of ours is beyond what a double holds exactly. */
export class NumberList extends List {
  constructor(bytesLikely = fewBytes) {
    super(numberType, bytesLikely);
  }

  push(number: number): void {
    this.reserve(4 + numberBytes);
    this.view.setInt32(this.at, numberBytes);
    this.view.setFloat64(this.at + 4, number);
    this.at += 4 + numberBytes;
  }
}

export function packTexts(texts: Iterable<string>): Buffer {
  const list = new TextList();
  for (const text of texts) list.push(text);
  return list.finish();
}

export function packNumbers(numbers: Iterable<number>): Buffer {
  const list = new NumberList();
  for (const number of numbers) list.push(number);
  return list.finish();
}
