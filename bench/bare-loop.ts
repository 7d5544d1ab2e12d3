// The limit beside the engine: a loop that does nothing but write. It replays, statement by statement and commit by commit, what the
// engine wrote in a recorded pass, on a copy of the same database: same rows, same indexes, same commits, no decisions, no reads.

import { DatabaseSync, type SQLInputValue, StatementSync } from "node:sqlite";

export interface Tape {
  readonly transactions: { readonly sql: string; readonly cells: SQLInputValue[] }[][];
}

/** Everything any connection of this process writes while `work` runs. */
export async function recordWrites(work: () => Promise<unknown>): Promise<Tape> {
  const tape: Tape = { transactions: [] };
  let open: Tape["transactions"][number] | null = null;
  const { run } = StatementSync.prototype;
  const { exec } = DatabaseSync.prototype;
  StatementSync.prototype.run = function (this: StatementSync, ...cells: SQLInputValue[]) {
    open?.push({ sql: this.sourceSQL, cells });
    return run.apply(this, cells as never);
  } as typeof run;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
    if (sql.startsWith("BEGIN")) open = [];
    exec.call(this, sql);
    if (sql === "COMMIT" && open !== null) {
      tape.transactions.push(open);
      open = null;
    }
  };
  try {
    await work();
  } finally {
    StatementSync.prototype.run = run;
    DatabaseSync.prototype.exec = exec;
  }
  return tape;
}

export class BareLoop {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(file: string) {
    this.#db = new DatabaseSync(file);
    this.#db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 1000");
  }

  /** Statements are prepared and cells laid out beforehand; only the writing is timed by the caller. */
  load(tape: Tape): () => void {
    const ready = tape.transactions.map((one) => one.map(({ sql, cells }) => [this.#prepare(sql), cells] as const));
    return () => {
      for (const transaction of ready) {
        this.#db.exec("BEGIN IMMEDIATE");
        for (const [statement, cells] of transaction) statement.run(...cells);
        this.#db.exec("COMMIT");
      }
    };
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) this.#statements.set(sql, (statement = this.#db.prepare(sql)));
    return statement;
  }

  close(): void {
    this.#db.close();
  }
}
