// Values as text inside a statement. Statements go out in one message with their values, since two statements with parameters would
// be two messages, and prepared ones would belong to a session that a pooler may take away.

import { randomBytes } from "node:crypto";

const quoteTag = `$q${randomBytes(6).toString("hex")}$`;

/** Dollar quotes: no setting of the server changes what stands between them, and JSON needs no second escaping. */
export function dollarQuote(text: string): string {
  if (!text.includes(quoteTag)) return quoteTag + text + quoteTag;
  const other = `$q${randomBytes(12).toString("hex")}$`;
  return other + text + other;
}

/** An array of texts, as a statement takes it. */
export const textArrayLiteral = (texts: readonly string[]): string => dollarQuote(formatTextArray(texts));

/** An array of texts, as the server reads one. */
export function formatTextArray(texts: readonly string[]): string {
  let list = "{";
  for (let at = 0; at < texts.length; at++) {
    const text = texts[at] as string;
    // For the server a text ends with a NUL, for us it goes on: no statement may hold one.
    if (text.includes("\0")) throw new Error(`${JSON.stringify(text)} holds a NUL`);
    if (at > 0) list += ",";
    list += `"${text.includes('"') || text.includes("\\") ? text.replace(/["\\]/g, "\\$&") : text}"`;
  }
  return `${list}}`;
}

export const numberArrayLiteral = (numbers: readonly number[]): string => `'{${numbers.join(",")}}'`;

/** One text; an array of one, unpacked, so that there is one way of quoting. */
export const textLiteral = (text: string): string => `(${textArrayLiteral([text])}::text[])[1]`;

/** `f(a => 1, b => 2)`; what is undefined keeps the function's default. */
export function functionCallSql(name: string, values: Readonly<Record<string, string | number | undefined>>): string {
  const words: string[] = [];
  for (const [key, value] of Object.entries(values)) if (value !== undefined) words.push(`p_${key} => ${value}`);
  return `${name}(${words.join(", ")})`;
}

/** PostgreSQL stores neither a NUL nor half of a surrogate pair. */
export const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed();

/** A name that no table can hold equals nothing. */
export const nameLiteral = (value: string): string => (isStorable(value) ? textLiteral(value) : "NULL");

export const integerLiteral = (value: number): string => String(Math.trunc(Number.isFinite(value) ? value : 0));
