// A request as clients send it: an array of bulk strings.

const crlf = "\r\n";

export function encodeRequest(words: readonly (string | Uint8Array)[]): Buffer {
  const pieces: (string | Uint8Array)[] = [`*${words.length}${crlf}`];
  for (const word of words) {
    const bytes = typeof word === "string" ? Buffer.from(word) : word;
    pieces.push(`$${bytes.length}${crlf}`, bytes, crlf);
  }
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
}
