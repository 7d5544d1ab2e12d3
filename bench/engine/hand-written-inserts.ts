// The limit for the engine: a loop that inserts the same rows as the engine (same tables, indexes, columns, texts, rows per commit) without decisions,
// reads, checks or fences. What it writes is compared with what the engine wrote, table by table; a difference is an error.

import { DatabaseSync, type SQLInputValue, StatementSync } from "node:sqlite";

/** As many runs as the store leaves outside its search index. */
const unindexedRunsMax = 512;

export class HandWrittenInserts {
  readonly #db: DatabaseSync;
  readonly #chainLength: number;
  readonly #runsPerCommit: number;
  readonly #insertRun: StatementSync;
  readonly #updateRunBindings: StatementSync;
  readonly #endRun: StatementSync;
  readonly #insertTask: StatementSync;
  readonly #endTask: StatementSync;
  readonly #insertEvent: StatementSync;
  readonly #updateTenant: StatementSync;
  readonly #updateReplica: StatementSync;
  readonly #insertFreshRuns: StatementSync;
  readonly #insertSearchWords: StatementSync;
  readonly #deleteFreshRuns: StatementSync;
  #ids = 0;
  #searchRowCount = 0;
  #unindexedRuns: string[] = [];
  #position: number;
  #turn = 1_000_000_000;
  /** Rows written, by statement, as `Tape` counts them. */
  readonly counts = new Map<string, number>();

  constructor(file: string, options: { length: number; inFlight: number }) {
    this.#chainLength = options.length;
    this.#runsPerCommit = options.inFlight;
    this.#db = new DatabaseSync(file);
    this.#db.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -65536",
    );
    const prepare = (sql: string) => this.#db.prepare(sql);
    this.#insertRun = prepare(
      `INSERT INTO run (id, tenant, phase, workflow, client, band, open, verdict, cursor, "createdAt", "startedAt", "endedAt", due, error, label, source, about, marks, bindings) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#updateRunBindings = prepare("UPDATE run SET bindings = ? WHERE id = ?");
    this.#endRun = prepare(`UPDATE run SET phase = ?, open = ?, "endedAt" = ? WHERE id = ?`);
    this.#insertTask = prepare(
      `INSERT INTO task (id, phase, route, pin, line, band, rank, needs, fence, attempt, deliveries, failures, worker, boot, epoch, acked, key, due, "readyAt", "grantedAt", "endedAt", params, result, error, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#endTask = prepare(`UPDATE task SET phase = ?, "endedAt" = ?, result = ? WHERE id = ?`);
    this.#insertEvent = prepare("INSERT INTO event (tenant, first, last, at, subject, facts) VALUES (?, ?, ?, ?, ?, ?)");
    this.#updateTenant = prepare("UPDATE tenant SET position = ? WHERE id = ?");
    this.#updateReplica = prepare("UPDATE replica SET last_turn = ?, clock = ? WHERE id = ?");
    this.#insertFreshRuns = prepare(
      "INSERT INTO run_fresh (id) SELECT value FROM json_each(?) WHERE true ON CONFLICT (id) DO NOTHING",
    );
    this.#insertSearchWords = prepare("INSERT INTO run_words (rowid, words) VALUES (?, ?)");
    this.#deleteFreshRuns = prepare("DELETE FROM run_fresh WHERE id <= ?");
    this.#position = 1_000_000_000;
  }

  #write(label: string, statement: StatementSync, ...cells: SQLInputValue[]): void {
    statement.run(...cells);
    this.counts.set(label, (this.counts.get(label) ?? 0) + 1);
  }

  #insertEventRow(run: string, now: number, facts: readonly [string, Record<string, unknown>][]): void {
    const first = this.#position + 1;
    this.#position += facts.length;
    this.#write("insert event", this.#insertEvent, "bench", first, this.#position, now, `run/${run}`, JSON.stringify(facts));
  }

  /** As many lives as the engine makes of `tasks`: whole chains, side by side, one step of each in a commit. */
  run(tasks: number): number {
    const runs = Math.ceil(tasks / this.#chainLength);
    let written = 0;
    for (let from = 0; from < runs; from += this.#runsPerCommit) {
      const side = Math.min(this.#runsPerCommit, runs - from);
      const ids = Array.from({ length: side }, () => this.#nextRunId());
      for (let step = 0; step <= this.#chainLength; step++) this.#commit(ids, step);
      written += side * this.#chainLength;
    }
    return written;
  }

  #commit(runs: readonly string[], step: number): void {
    const now = Date.now();
    this.#db.exec("BEGIN IMMEDIATE");
    for (const run of runs) this.#writeStep(run, step, now);
    this.#write("insert tenant", this.#updateTenant, this.#position, "bench");
    if (step === 0) this.#indexNewRuns(runs);
    this.#write("update replica", this.#updateReplica, ++this.#turn, now, "bench");
    this.#db.exec("COMMIT");
  }

  /** New runs are noted for the search index; once they are many they are indexed together. */
  #indexNewRuns(runs: readonly string[]): void {
    this.#write("insert run_fresh", this.#insertFreshRuns, JSON.stringify(runs));
    this.#unindexedRuns.push(...runs);
    if (this.#unindexedRuns.length <= unindexedRunsMax) return;
    for (const run of this.#unindexedRuns)
      this.#write(
        "insert run_words",
        this.#insertSearchWords,
        ++this.#searchRowCount,
        `62656e6368 ${run.replaceAll("-", " ")} bench`,
      );
    this.#write("delete run_fresh", this.#deleteFreshRuns, this.#unindexedRuns.sort().at(-1) ?? "");
    this.#unindexedRuns = [];
  }

  /** One step of one chain: the previous task ends, the next is inserted with its grant, and both are logged. */
  #writeStep(run: string, step: number, now: number): void {
    const facts: [string, Record<string, unknown>][] = [];
    const ended = `${run}.${step - 1}`;
    if (step === 0) {
      this.#write(
        "insert run",
        this.#insertRun,
        run,
        "bench",
        1,
        "bench/0123456789abcdefghijkl",
        "bench",
        5,
        1,
        null,
        null,
        now,
        now,
        null,
        null,
        null,
        "",
        "",
        "{}",
        null,
        null,
      );
      facts.push(["run.created", { by: "bench", workflow: "0123456789abcdefghijkl", client: "bench" }], ["run.started", {}]);
    } else {
      this.#write("update task", this.#endTask, 4, now, '{"out":"a result of some forty characters, say"}', ended);
      facts.push(["task.succeeded", { task: ended, fence: now, worker: "bench/w", durationMs: 1 }]);
    }
    // The first success binds the run's package to its worker.
    if (step === 1 && step < this.#chainLength)
      this.#write("update run", this.#updateRunBindings, JSON.stringify({ bench: { worker: "bench/w", at: now } }), run);
    if (step === this.#chainLength) {
      this.#write("update run", this.#endRun, 3, 0, now, run);
      facts.push(["run.succeeded", {}]);
    } else {
      const task = `${run}.${step}`;
      const params = JSON.stringify(step === 0 ? { n: step } : { n: step, in: "a result of some forty characters, say" });
      // biome-ignore format: one row of the table, in its order; route, worker and boot are numbers of words
      this.#write("insert task", this.#insertTask, task, 3, 1, null, null, 5, null, 0, now, 1, 1, 0, 2, 3, 1, 0, null, null, now, now, null, params, null, null, null);
      facts.push(["task.granted", { task, worker: "bench/w", fence: now, attempt: 1 }]);
    }
    this.#insertEventRow(run, now, facts);
  }

  #nextRunId(): string {
    const time = Date.now().toString(16).padStart(12, "0");
    const rest = (++this.#ids).toString(16).padStart(15, "f");
    return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(0, 3)}-9${rest.slice(3, 6)}-${rest.slice(6).padStart(12, "0")}`;
  }

  close(): void {
    this.#db.close();
  }
}

export interface RecordedWrites {
  /** Statements that wrote, by what they did to which table. */
  readonly counts: ReadonlyMap<string, number>;
  readonly transactions: { readonly sql: string; readonly cells: SQLInputValue[] }[][];
}

/** Everything any connection of this process writes while `work` runs. */
export async function recordWrites(work: () => Promise<unknown>): Promise<RecordedWrites> {
  const counts = new Map<string, number>();
  const transactions: RecordedWrites["transactions"] = [];
  let open: RecordedWrites["transactions"][number] | null = null;
  const { run } = StatementSync.prototype;
  const { exec } = DatabaseSync.prototype;
  StatementSync.prototype.run = function (this: StatementSync, ...cells: SQLInputValue[]) {
    const name = /^(INSERT|UPDATE|DELETE)(?: INTO| FROM)? "?(\w+)/.exec(this.sourceSQL);
    const label = `${name?.[1]?.toLowerCase()} ${name?.[2]}`;
    counts.set(label, (counts.get(label) ?? 0) + 1);
    open?.push({ sql: this.sourceSQL, cells });
    return run.apply(this, cells as never);
  } as typeof run;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
    if (sql.startsWith("BEGIN")) open = [];
    exec.call(this, sql);
    if (sql === "COMMIT" && open !== null) transactions.push(open);
  };
  try {
    await work();
  } finally {
    StatementSync.prototype.run = run;
    DatabaseSync.prototype.exec = exec;
  }
  return { counts, transactions };
}

/** The stricter limit: the engine's own statements with cells already laid out, played again on a copy. Nobody could write them faster. */
export class WriteReplay {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(file: string) {
    this.#db = new DatabaseSync(file);
    this.#db.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -65536",
    );
  }

  prepareReplay(writes: RecordedWrites): () => void {
    const ready = writes.transactions.map((one) => one.map(({ sql, cells }) => [this.#prepare(sql), cells] as const));
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
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  close(): void {
    this.#db.close();
  }
}
