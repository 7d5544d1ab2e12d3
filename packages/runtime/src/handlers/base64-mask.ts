// Removes secrets from bytes that travel as base64, whether every chunk is base64 by itself or one base64 text was cut into chunks.

import { base64FormsOf, MaskedStream, replaceIntervals, SecretPatterns } from "./secret-patterns.ts";

/** The same number of characters, so that everything behind stays where it is; decodes to stars. */
const base64Stars = (length: number): string => "Kioq".repeat(Math.ceil(length / 4)).slice(0, length);

/** Bytes of a secret's forms, one character each. */
export const toByteText = (text: string): string => Buffer.from(text).toString("latin1");

export function createBase64Patterns(secrets: readonly string[]): SecretPatterns {
  return new SecretPatterns(secrets.flatMap((secret) => base64FormsOf(Buffer.from(secret))));
}

export class MaskedBase64Stream {
  readonly #base64Patterns: SecretPatterns;
  readonly #bytes: MaskedStream;
  /** The newest chunks, or the end of one: together they may be the beginning of a secret in base64. */
  #held: string[] = [];
  /** So many characters of them belong to a secret whose beginning was replaced and sent. */
  #openLength = 0;

  constructor(base64Patterns: SecretPatterns, bytePatterns: SecretPatterns) {
    this.#base64Patterns = base64Patterns;
    this.#bytes = new MaskedStream(bytePatterns);
  }

  /** What may be sent now, each text as a chunk of its own. */
  next(chunk: string): string[] {
    const pieces = [...this.#held, chunk];
    const joined = pieces.join("");
    const intervals = this.#base64Patterns.findIntervals(joined, this.#openLength);
    const clean = replaceIntervals(joined, intervals, base64Stars);
    const safeEnd = joined.length - this.#base64Patterns.partialMatchLength(joined);
    const given: string[] = [];
    this.#held = [];
    let from = 0;
    for (const { length } of pieces) {
      const to = from + length;
      // Cut between whole groups: both parts are base64.
      const cut = Math.max(from, Math.min(to, from + Math.floor((safeEnd - from) / 4) * 4));
      const end = safeEnd >= to ? to : cut;
      if (end > from) given.push(clean.slice(from, end));
      // Held as it came: with the next chunk more of it may turn out to be a secret.
      if (to > end) this.#held.push(joined.slice(end, to));
      from = to;
    }
    const heldFrom = joined.length - this.#held.reduce((sum, { length }) => sum + length, 0);
    const open = intervals.find(([start, end]) => (start < heldFrom || (start === 0 && this.#openLength > 0)) && end > heldFrom);
    this.#openLength = open === undefined ? 0 : open[1] - heldFrom;
    return given.flatMap((text) => this.#maskBytes(text));
  }

  end(): string[] {
    const joined = this.#held.join("");
    const clean = replaceIntervals(joined, this.#base64Patterns.findIntervals(joined, this.#openLength), base64Stars);
    let from = 0;
    const given = this.#held.flatMap(({ length }) => this.#maskBytes(clean.slice(from, (from += length))));
    this.#held = [];
    const rest = this.#bytes.end();
    return rest === "" ? given : [...given, Buffer.from(rest, "latin1").toString("base64")];
  }

  #maskBytes(text: string): string[] {
    const bytes = Buffer.from(text, "base64").toString("latin1");
    const clean = this.#bytes.next(bytes);
    if (clean === bytes) return [text];
    return clean === "" ? [] : [Buffer.from(clean, "latin1").toString("base64")];
  }
}
