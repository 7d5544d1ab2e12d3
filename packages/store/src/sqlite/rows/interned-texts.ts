// Interned texts: strings that occur in very many rows are stored once and referred to by number, which makes rows and indexes a third smaller.

import type { SqliteConnection } from "../file/connection.ts";

const insertTextSql = "INSERT INTO word (text) VALUES (?) ON CONFLICT (text) DO NOTHING";
const selectNumberSql = "SELECT no FROM word WHERE text = ?";
const cachedTextsMax = 100_000;

/** In place of a column that holds a word's number: its text. */
export const internedTextSql = (column: string): string => `(SELECT text FROM word WHERE no = ${column})`;
/** In place of a parameter that is compared with such a column. */
export const internedNumberSql = "(SELECT no FROM word WHERE text = ?)";

export class InternedTexts {
  readonly #connection: SqliteConnection;
  readonly #numbers = new Map<string, number>();
  /** Numbers assigned in the turn that is being written; they are valid only once it is committed. */
  readonly #uncommitted = new Map<string, number>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  /** Runs inside the open transaction: a text that is new gets its row there. */
  numberOf(text: string): number {
    return this.#numbers.get(text) ?? this.#uncommitted.get(text) ?? this.#insertText(text);
  }

  /** Called before a turn is written: the numbers of a turn that failed are gone. */
  discardUncommitted(): void {
    this.#uncommitted.clear();
  }

  /** The turn is committed. */
  keepCommitted(): void {
    if (this.#uncommitted.size === 0) return;
    if (this.#numbers.size >= cachedTextsMax) this.#numbers.clear();
    for (const [text, number] of this.#uncommitted) this.#numbers.set(text, number);
    this.#uncommitted.clear();
  }

  #insertText(text: string): number {
    this.#connection.write(insertTextSql, text);
    const number = Number(this.#connection.get(selectNumberSql, text)?.[0]);
    this.#uncommitted.set(text, number);
    return number;
  }
}
