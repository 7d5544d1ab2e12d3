// The one reader of server-sent events for tests: of text that a handler wrote, or of the body of a response. It is written apart from the
// client's parser on purpose, so that tests do not read the wire with the code under test.

export interface SseTestEvent {
  /** Null: the event has no such line. */
  readonly id: string | null;
  readonly type: string | null;
  readonly data: string | null;
}

export class SseTestReader {
  /** Everything received so far, comments and retry lines included. */
  text = "";
  /** All complete events, with those that only move the cursor. */
  readonly events: SseTestEvent[] = [];
  #incomplete = "";
  readonly #body: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #decoder = new TextDecoder();

  constructor(body?: ReadableStream<Uint8Array> | null) {
    this.#body = body?.getReader();
  }

  /** Adds text and returns the events that it completes. */
  push(text: string): SseTestEvent[] {
    this.text += text;
    const blocks = (this.#incomplete + text).split("\n\n");
    this.#incomplete = blocks.pop() ?? "";
    const found = blocks
      .map((block) => ({ id: field(block, "id"), type: field(block, "event"), data: field(block, "data") }))
      .filter(({ id, type, data }) => id !== null || type !== null || data !== null);
    this.events.push(...found);
    return found;
  }

  /** Reads the body until `isEnough`; returns false if the stream ended before. */
  async readUntil(isEnough: (reader: this) => boolean): Promise<boolean> {
    while (!isEnough(this)) {
      const { value, done } = (await this.#body?.read()) ?? { done: true };
      if (done) return false;
      this.push(this.#decoder.decode(value, { stream: true }));
    }
    return true;
  }

  async close(): Promise<void> {
    await this.#body?.cancel();
  }
}

function field(block: string, name: string): string | null {
  const prefix = `${name}: `;
  const lines = block.split("\n").filter((line) => line.startsWith(prefix));
  return lines.length === 0 ? null : lines.map((line) => line.slice(prefix.length)).join("\n");
}
