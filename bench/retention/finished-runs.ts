// A file with many finished runs for the retention bench. The real engine runs one; its rows are then multiplied inside the file, with older ids and
// positions of their own, and their words are indexed when the store is opened next. A million turns would take minutes and write the same rows.

import { DatabaseSync } from "node:sqlite";
import { EngineLoad } from "../engine/engine-load.ts";
import { showProgress } from "../harness/statistics.ts";

const runsPerStatement = 20_000;
/** Runs were started this far apart, the last of them a day ago. */
const runIntervalMs = 1_000;
const dayMs = 86_400_000;

export async function fillFinishedRuns(file: string, runs: number, chain: number): Promise<void> {
  const load = new EngineLoad(file, { length: chain, inFlight: 1 });
  await load.start();
  await load.run(chain);
  await load.stop();
  const db = new DatabaseSync(file);
  try {
    // Only the measured part has to survive a crash.
    db.exec("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; PRAGMA wal_autocheckpoint = 50000");
    copyRun(db, runs);
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

function copyRun(db: DatabaseSync, runs: number): void {
  const cell = (sql: string): unknown => Object.values(db.prepare(sql).get() ?? {})[0];
  const run = String(cell("SELECT id FROM run"));
  const facts = Number(cell(`SELECT sum(last - first + 1) FROM event WHERE subject = 'run/${run}'`));
  const head = Number(cell("SELECT max(position) FROM tenant"));
  const createdAt = Number(cell(`SELECT "createdAt" FROM run`));
  const firstAt = createdAt - dayMs - runs * runIntervalMs;
  const at = `(${firstAt} + g.no * ${runIntervalMs})`;
  const time = `printf('%012x', ${at})`;
  const id = `(substr(${time}, 1, 8) || '-' || substr(${time}, 9) || '-7000-8000-' || printf('%012x', g.no))`;
  const moved = (column: string) => `t."${column}" - ${createdAt} + ${at}`;
  const first = Number(cell(`SELECT min(first) FROM event WHERE subject = 'run/${run}'`));
  const shift = `${head - first + 1} + (g.no - 1) * ${facts}`;
  const changed: Record<string, Record<string, string>> = {
    run: { id, createdAt: at, startedAt: moved("startedAt"), endedAt: moved("endedAt") },
    task: {
      id: `${id} || substr(t.id, ${run.length + 1})`,
      readyAt: moved("readyAt"),
      grantedAt: moved("grantedAt"),
      endedAt: moved("endedAt"),
    },
    event: {
      first: `t.first + ${shift}`,
      last: `t.last + ${shift}`,
      at,
      subject: `'run/' || ${id}`,
      facts: `replace(t.facts, '${run}', ${id})`,
    },
  };
  const ofRun: Record<string, string> = {
    run: `t.id = '${run}'`,
    task: `t.id LIKE '${run}.%'`,
    event: `t.subject = 'run/${run}'`,
  };
  // Apart from the table that grows, which would be searched for every copy.
  for (const [table, condition] of Object.entries(ofRun))
    db.exec(`CREATE TEMP TABLE one_${table} AS SELECT * FROM ${table} t WHERE ${condition}`);
  for (let done = 0; done < runs; done += runsPerStatement) {
    const to = Math.min(runs, done + runsPerStatement);
    db.exec("BEGIN");
    for (const [table, values] of Object.entries(changed)) {
      const names = db
        .prepare(`SELECT name FROM pragma_table_info('${table}')`)
        .all()
        .map((row) => String(row["name"]));
      const cells = names.map((name) => values[name] ?? `t."${name}"`).join(", ");
      db.exec(`INSERT INTO ${table} (${names.map((name) => `"${name}"`).join(", ")})
        WITH RECURSIVE g(no) AS (SELECT ${done + 1} UNION ALL SELECT no + 1 FROM g WHERE no < ${to})
        SELECT ${cells} FROM g CROSS JOIN temp.one_${table} t`);
    }
    db.exec("COMMIT");
    showProgress("filling the store", to, runs);
  }
  // As the engine leaves them: histories indexed by their subjects, runs noted for the index of words.
  db.exec(`UPDATE tenant SET position = position + ${facts * runs}, indexed = position + ${facts * runs};
    INSERT INTO event_of SELECT subject, tenant, first FROM event WHERE true ORDER BY subject, tenant, first ON CONFLICT DO NOTHING;
    INSERT INTO run_fresh SELECT id FROM run WHERE true ON CONFLICT DO NOTHING`);
}
