// Loaded into a scheduler before anything else (`--import`), in rounds that are not timed: counts what each statement writes, per thread, and writes the
// counts to a file when the thread closes its database. BENCH_WRITES_FILE names the file.

import { appendFileSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, StatementSync } from "node:sqlite";

/** One line of the file: what one connection wrote, by what it did to which table. */
export type WriteCounts = Readonly<Record<string, { readonly statements: number; readonly rows: number }>>;

const file = process.env["BENCH_WRITES_FILE"];
if (file !== undefined) {
  const counts = new Map<string, { statements: number; rows: number }>();
  let commits = 0;
  const { run } = StatementSync.prototype;
  const { close, exec } = DatabaseSync.prototype;
  StatementSync.prototype.run = function (this: StatementSync, ...cells: SQLInputValue[]) {
    const answer = run.apply(this, cells as never);
    const name = /^\s*(INSERT|UPDATE|DELETE|REPLACE)(?: OR \w+)?(?: INTO| FROM)? "?(\w+)/.exec(this.sourceSQL);
    const label = name === null ? "other" : `${name[1]?.toLowerCase()} ${name[2]}`;
    const count = counts.get(label) ?? { statements: 0, rows: 0 };
    counts.set(label, count);
    count.statements += 1;
    count.rows += Number(answer.changes);
    return answer;
  } as typeof run;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
    exec.call(this, sql);
    if (sql === "COMMIT") commits += 1;
  };
  DatabaseSync.prototype.close = function (this: DatabaseSync) {
    close.call(this);
    if (counts.size === 0) return;
    counts.set("commit", { statements: commits, rows: 0 });
    appendFileSync(file, `${JSON.stringify(Object.fromEntries(counts))}\n`);
    counts.clear();
  };
}
