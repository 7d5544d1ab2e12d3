// The text of server-sent events, read piece by piece as it comes. What events mean is events.ts.

export interface SseMessage {
  /** Of this message or the last before it that had one. */
  readonly id: string;
  readonly type: string;
  /** Null: only the cursor moved. */
  readonly data: string | null;
}

/** A line longer than this is no event of ours. */
const lineCharsMax = 64 * 1024 * 1024;

/** Messages in the order they come; ends with the stream, and frees it when the reader leaves early. */
export async function* readSseMessages(
  body: ReadableStream<Uint8Array>,
  onActivity: () => void,
): AsyncGenerator<SseMessage, void> {
  const decoder = new TextDecoder();
  const parser = createSseParser();
  const reader = body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      onActivity();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // The stream may be broken already: nothing to do.
    const isGone = (): void => undefined;
    await reader.cancel().then(isGone, isGone);
  }
}

/** Lines end with CR, LF or both; an empty line ends a message; an incomplete message is dropped. */
export function createSseParser(): { push(text: string): SseMessage[] } {
  let rest = "";
  let id = "";
  let fields: { id?: string; type?: string; data?: string } = {};
  return {
    push(text) {
      const found: SseMessage[] = [];
      rest += text;
      // A CR at the very end may be the first half of CR LF.
      const isHalf = rest.endsWith("\r");
      const lines = (isHalf ? rest.slice(0, -1) : rest).split(/\r\n|\n|\r/);
      rest = (lines.pop() ?? "") + (isHalf ? "\r" : "");
      if (rest.length > lineCharsMax) throw new RangeError(`a line of the stream is longer than ${lineCharsMax} characters`);
      for (const line of lines) {
        if (line !== "") {
          readField(line, fields);
          continue;
        }
        if (fields.id !== undefined) id = fields.id;
        if (fields.data !== undefined || fields.id !== undefined)
          found.push({ id, type: fields.type ?? "message", data: fields.data ?? null });
        fields = {};
      }
      return found;
    },
  };
}

function readField(line: string, fields: { id?: string; type?: string; data?: string }): void {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "id" && !value.includes("\0")) fields.id = value;
  else if (name === "event") fields.type = value;
  else if (name === "data") fields.data = fields.data === undefined ? value : `${fields.data}\n${value}`;
}
