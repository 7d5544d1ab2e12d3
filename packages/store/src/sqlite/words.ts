// Words: texts that stand in very many rows, such as the worker of a task, are stored once and named by a number everywhere else. Rows
// and indexes get smaller by a third that way, and so does every page a turn writes. For reading, SQL looks them up itself.

import type { Connection } from "./connection.ts";

const putSql = "INSERT INTO word (text) VALUES (?) ON CONFLICT (text) DO NOTHING";
const numberSql = "SELECT no FROM word WHERE text = ?";
const wordsMax = 100_000;

/** In place of a column that holds a word's number: its text. */
export const textOfSql = (column: string): string => `(SELECT text FROM word WHERE no = ${column})`;
/** In place of a parameter that is compared with such a column. */
export const numberOfSql = "(SELECT no FROM word WHERE text = ?)";

export class Words {
  readonly #connection: Connection;
  readonly #numbers = new Map<string, number>();
  /** Given in the turn that is being written; they count only once it is in. */
  readonly #fresh = new Map<string, number>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Runs inside the open transaction: a text that is new gets its row there. */
  numberOf(text: string): number {
    return this.#numbers.get(text) ?? this.#fresh.get(text) ?? this.#give(text);
  }

  /** Before a turn is written: what one that failed has given is gone with it. */
  forget(): void {
    this.#fresh.clear();
  }

  /** The turn is in. */
  keep(): void {
    if (this.#fresh.size === 0) return;
    if (this.#numbers.size >= wordsMax) this.#numbers.clear();
    for (const [text, number] of this.#fresh) this.#numbers.set(text, number);
    this.#fresh.clear();
  }

  #give(text: string): number {
    this.#connection.run(this.#connection.prepare(putSql), [text]);
    const number = Number(this.#connection.get(numberSql, text)?.[0]);
    this.#fresh.set(text, number);
    return number;
  }
}
