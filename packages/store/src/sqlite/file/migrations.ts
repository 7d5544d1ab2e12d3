// The sqlite tables, as numbered steps. A step that has been released is never edited: a change is the next step.

import type { DatabaseSync } from "node:sqlite";

/** "ASTR": lets us refuse a database that belongs to another program before anything is written to it. */
export const applicationId = 0x41535452;

// Phases are small integers: their place in the lists of row-shape.ts. A task's run is read from its id, so it has no column.
// Tables keyed by text have no rowid, one tree instead of two, where rows that change together lie together.
const migrations: readonly string[] = [
  `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE replica (
    id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, last_turn INTEGER NOT NULL, clock INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE tenant (
    id TEXT PRIMARY KEY, position INTEGER NOT NULL, clock REAL NOT NULL, floor INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE line (id TEXT PRIMARY KEY, clock REAL NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE mail (
    seq INTEGER PRIMARY KEY, replica TEXT NOT NULL, epoch INTEGER NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX mail_to ON mail (replica, epoch, id);

  CREATE TABLE run (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, phase INTEGER NOT NULL, workflow TEXT NOT NULL, client TEXT NOT NULL,
    band INTEGER NOT NULL, open INTEGER NOT NULL, verdict TEXT, cursor TEXT, "createdAt" INTEGER NOT NULL,
    "startedAt" INTEGER, "endedAt" INTEGER, due INTEGER, error TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX run_of ON run (tenant, id);
  CREATE INDEX run_phase ON run (tenant, phase, id) WHERE phase <> 3;
  CREATE INDEX run_due ON run (due) WHERE due IS NOT NULL;

  CREATE TABLE task (
    id TEXT PRIMARY KEY, phase INTEGER NOT NULL, route TEXT NOT NULL, pin TEXT, line TEXT, band INTEGER NOT NULL, rank REAL,
    needs INTEGER NOT NULL, fence INTEGER NOT NULL, attempt INTEGER NOT NULL, deliveries INTEGER NOT NULL,
    failures INTEGER NOT NULL, worker TEXT, boot TEXT, epoch INTEGER NOT NULL, acked INTEGER NOT NULL, key TEXT, due INTEGER,
    "readyAt" INTEGER, "grantedAt" INTEGER, "endedAt" INTEGER, params TEXT, result TEXT, error TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX task_line ON task (line, band, rank, id) WHERE line IS NOT NULL;
  CREATE INDEX task_held ON task (worker, id) WHERE phase = 3;
  CREATE INDEX task_due ON task (due) WHERE due IS NOT NULL;

  CREATE TABLE worker (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, phase INTEGER NOT NULL, boot TEXT NOT NULL,
    epoch INTEGER NOT NULL, replica TEXT NOT NULL, draining INTEGER NOT NULL, "joinedAt" INTEGER NOT NULL,
    "seenAt" INTEGER NOT NULL, due INTEGER, about TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX worker_due ON worker (due) WHERE due IS NOT NULL;

  CREATE TABLE key (id TEXT PRIMARY KEY, "limit" INTEGER NOT NULL, holders TEXT NOT NULL, due INTEGER) STRICT, WITHOUT ROWID;
  CREATE INDEX key_due ON key (due) WHERE due IS NOT NULL;
  CREATE TABLE route (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, needs TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE workflow (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE ask (id TEXT PRIMARY KEY, digest TEXT NOT NULL, run TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE event (
    tenant TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL, subject TEXT NOT NULL,
    facts TEXT NOT NULL, PRIMARY KEY (tenant, first)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX event_of ON event (subject, first);
  `,
  `ALTER TABLE worker ADD COLUMN "replicaEpoch" INTEGER NOT NULL DEFAULT 0;`,
  `ALTER TABLE worker ADD COLUMN condition TEXT NOT NULL DEFAULT '{}';`,
  // Texts that stand in very many rows are words: stored once, named by a number.
  // Tasks in the order of their birth: those that wait, are granted and end together then share pages, where in the order of their
  // ids each of them, being of another run, dirties one of its own. The index by id is dirtied by births alone.
  `
  CREATE TABLE word (no INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
  INSERT INTO word (text) SELECT route FROM task UNION SELECT worker FROM task WHERE worker IS NOT NULL
    UNION SELECT boot FROM task WHERE boot IS NOT NULL;
  CREATE TABLE task_by_birth (
    id TEXT NOT NULL PRIMARY KEY, phase INTEGER NOT NULL, route INTEGER NOT NULL, pin TEXT, line TEXT, band INTEGER NOT NULL,
    rank REAL, needs INTEGER NOT NULL, fence INTEGER NOT NULL, attempt INTEGER NOT NULL, deliveries INTEGER NOT NULL,
    failures INTEGER NOT NULL, worker INTEGER, boot INTEGER, epoch INTEGER NOT NULL, acked INTEGER NOT NULL, key TEXT,
    due INTEGER, "readyAt" INTEGER, "grantedAt" INTEGER, "endedAt" INTEGER, params TEXT, result TEXT, error TEXT
  ) STRICT;
  INSERT INTO task_by_birth SELECT id, phase, (SELECT no FROM word WHERE text = route), pin, line, band, rank, needs, fence, attempt,
    deliveries, failures, (SELECT no FROM word WHERE text = worker), (SELECT no FROM word WHERE text = boot), epoch, acked, key, due,
    "readyAt", "grantedAt", "endedAt", params, result, error FROM task;
  DROP TABLE task;
  ALTER TABLE task_by_birth RENAME TO task;
  CREATE INDEX task_line ON task (line, band, rank, id) WHERE line IS NOT NULL;
  CREATE INDEX task_held ON task (worker, id) WHERE phase = 3;
  CREATE INDEX task_due ON task (due, id) WHERE due IS NOT NULL;

  DROP INDEX event_of;
  CREATE TABLE event_of (
    subject TEXT NOT NULL, tenant TEXT NOT NULL, first INTEGER NOT NULL, PRIMARY KEY (subject, tenant, first)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO event_of SELECT subject, tenant, first FROM event ORDER BY subject, tenant, first;
  ALTER TABLE tenant ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
  UPDATE tenant SET indexed = position;
  `,
  // Documents, what tasks print, and both documents and runs by their words. Documents lie by their birth: long bodies would spread an
  // index by name over many pages. Runs that are there already are noted for the index of words, which the opening brings up to date.
  `
  ALTER TABLE task ADD COLUMN state TEXT;
  ALTER TABLE run ADD COLUMN label TEXT NOT NULL DEFAULT '';
  ALTER TABLE run ADD COLUMN source TEXT NOT NULL DEFAULT '';
  ALTER TABLE run ADD COLUMN about TEXT NOT NULL DEFAULT '{}';
  ALTER TABLE run ADD COLUMN marks TEXT;
  ALTER TABLE run ADD COLUMN bindings TEXT;
  CREATE INDEX run_source ON run (tenant, source, id) WHERE source <> '';

  CREATE TABLE doc (
    no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, collection TEXT NOT NULL, rev INTEGER NOT NULL, at INTEGER NOT NULL,
    due INTEGER, sort TEXT NOT NULL, terms TEXT NOT NULL, body TEXT NOT NULL
  ) STRICT;
  CREATE INDEX doc_list ON doc (tenant, collection, sort, id);
  CREATE INDEX doc_due ON doc (due, id) WHERE due IS NOT NULL;
  CREATE VIRTUAL TABLE doc_words USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

  CREATE TABLE chunk (
    task TEXT NOT NULL, fence INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
    line INTEGER NOT NULL, lines INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (task, fence, first)
  ) STRICT;
  CREATE INDEX chunk_at ON chunk (at);

  CREATE TABLE run_fresh (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
  INSERT INTO run_fresh SELECT id FROM run;
  CREATE VIRTUAL TABLE run_words USING fts5 (words, content = '', columnsize = 0, detail = none, tokenize = 'ascii');
  `,
  // Large values of tasks. Those that are in their tasks' rows already stay there until the task is written again. However a task is
  // deleted, its values go with it.
  `
  CREATE TABLE task_value (task TEXT NOT NULL, field TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (task, field)) STRICT;
  CREATE TRIGGER task_value_gone AFTER DELETE ON task BEGIN DELETE FROM task_value WHERE task = old.id; END;
  `,
  // The highest position of the log that was removed with its run: below it the log as a whole has gaps.
  `ALTER TABLE tenant ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;`,
];

export const schemaVersion = migrations.length;

/** Brings the schema up to date, each step in a transaction of its own that also raises `user_version`. */
export function migrate(db: DatabaseSync, from: number, failpoint: (name: string) => void): void {
  for (const [index, sql] of migrations.entries()) {
    if (index < from) continue;
    failpoint("sqlite.migrate");
    inTransaction(db, () => {
      db.exec(sql);
      db.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${index + 1}`);
      failpoint("sqlite.migrated");
    });
  }
}

/** Writes in one transaction, which is rolled back if they throw. */
export function inTransaction<T>(db: DatabaseSync, write: () => T): T {
  db.exec("BEGIN IMMEDIATE");
  try {
    const answer = write();
    db.exec("COMMIT");
    return answer;
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}
