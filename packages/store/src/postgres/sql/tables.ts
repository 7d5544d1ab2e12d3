// The tables: one schema of their own, columns from row-shape.ts, and the few indexes that turns and pages read.

import { rowKinds } from "../../common/row-shape.ts";
import { tableColumns } from "./columns.ts";

export const schemaName = "astraflow";

/** Columns that came with a later step. */
const laterColumns: ReadonlySet<string> = new Set([
  "worker.condition",
  "task.state",
  ...["label", "source", "about", "marks", "bindings", "terms"].map((field) => `run.${field}`),
]);
const initialKinds = rowKinds.filter((kind) => kind !== "doc");
const tables = initialKinds.map((kind) => `CREATE TABLE ${schemaName}.${kind} (${tableColumns(kind, laterColumns)});`).join("\n");

export const addWorkerConditionSql = `ALTER TABLE ${schemaName}.worker ADD COLUMN condition text COLLATE "C" NOT NULL DEFAULT '{}'`;

/**
 * Partial indexes: what has ended is in none of them but the primary keys and the list of runs, so claims, deadlines and lists cost
 * the same however much history there is. Some ask for a first column that is never null: without a condition on it they are no choice
 * for the planner. `lane` is updated by every turn; nearly empty pages keep those updates in place.
 */
export const initialSchemaSql = `
CREATE TABLE ${schemaName}.meta (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);
CREATE TABLE ${schemaName}.replica (id text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL, last_turn bigint NOT NULL, clock bigint NOT NULL);
CREATE TABLE ${schemaName}.lane (
  replica text COLLATE "C", lane integer, epoch bigint NOT NULL, last_turn bigint NOT NULL, clock bigint NOT NULL,
  PRIMARY KEY (replica, lane)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
CREATE TABLE ${schemaName}.tenant (
  id text COLLATE "C" PRIMARY KEY, position bigint NOT NULL, clock double precision NOT NULL, floor bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
CREATE TABLE ${schemaName}.line (id text COLLATE "C" PRIMARY KEY, clock double precision NOT NULL) WITH (fillfactor = 50);
CREATE TABLE ${schemaName}.mail (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  replica text COLLATE "C" NOT NULL, epoch bigint NOT NULL, id text COLLATE "C" NOT NULL, body text NOT NULL
);
CREATE UNIQUE INDEX mail_id ON ${schemaName}.mail (replica, epoch, id);
CREATE INDEX mail_to ON ${schemaName}.mail (replica, epoch, seq) WHERE replica IS NOT NULL;
${tables}
CREATE INDEX run_of ON ${schemaName}.run (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX run_phase ON ${schemaName}.run (tenant, phase, id) WHERE phase <> 'succeeded';
CREATE INDEX run_due ON ${schemaName}.run (due, id) WHERE due IS NOT NULL;
CREATE INDEX task_line ON ${schemaName}.task (line, band, rank, id) WHERE line IS NOT NULL;
CREATE INDEX task_held ON ${schemaName}.task (worker, id) WHERE phase = 'leased';
CREATE INDEX task_due ON ${schemaName}.task (due, id) WHERE due IS NOT NULL;
CREATE INDEX worker_due ON ${schemaName}.worker (due, id) WHERE due IS NOT NULL;
CREATE INDEX key_due ON ${schemaName}.key (due, id) WHERE due IS NOT NULL;
CREATE TABLE ${schemaName}.event (
  tenant text COLLATE "C", first bigint, last bigint NOT NULL, at bigint NOT NULL, subject text COLLATE "C" NOT NULL,
  facts text NOT NULL, PRIMARY KEY (tenant, first)
);
CREATE INDEX event_of ON ${schemaName}.event (subject, first);
ALTER TABLE ${schemaName}.task SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE ${schemaName}.run SET (autovacuum_vacuum_scale_factor = 0.05);
`;

/** Words as an index takes them: they are cut already, so no dictionary has a say. */
export const runSearchVectorSql = `array_to_tsvector(string_to_array(terms, ' '))`;
export const documentSearchVectorSql = `array_to_tsvector(string_to_array(words, ' '))`;

/** Runs that are there already get no words: a table of any size must be taken over within the time an opening has. */
export const addDocumentsSql = `
ALTER TABLE ${schemaName}.task ADD COLUMN state text COLLATE "C";
ALTER TABLE ${schemaName}.run ADD COLUMN label text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN about text COLLATE "C" NOT NULL DEFAULT '{}', ADD COLUMN marks text COLLATE "C", ADD COLUMN bindings text COLLATE "C",
  ADD COLUMN terms text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX run_source ON ${schemaName}.run (tenant, source, id) WHERE source <> '';
CREATE INDEX run_words ON ${schemaName}.run USING gin (${runSearchVectorSql});
CREATE TABLE ${schemaName}.doc (${tableColumns("doc", laterColumns)});
CREATE INDEX doc_list ON ${schemaName}.doc (tenant, collection, sort, id);
CREATE INDEX doc_words ON ${schemaName}.doc USING gin (${documentSearchVectorSql}) WHERE words <> '';
CREATE INDEX doc_due ON ${schemaName}.doc (due, id) WHERE due IS NOT NULL;
CREATE TABLE ${schemaName}.chunk (
  task text COLLATE "C", fence bigint, first bigint, count bigint NOT NULL, at bigint NOT NULL, line bigint NOT NULL,
  lines bigint NOT NULL, body text NOT NULL, PRIMARY KEY (task, fence, first)
);
CREATE INDEX chunk_at ON ${schemaName}.chunk (at)`;

/** The highest position of the log that was removed with its run, or by its age. */
export const addRemovedPositionSql = `ALTER TABLE ${schemaName}.tenant ADD COLUMN removed bigint NOT NULL DEFAULT 0`;
