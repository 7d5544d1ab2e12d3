// The function that opens a turn, or loads more for it: takes roots, reads rows, claims, deadlines, lists and mail, in one call.
// Every statement of a volatile function has a snapshot of its own. So roots are locked first, and what they guard is read by a
// later statement: a task read by the statement that locked its run could be an image from before the lock.

import { createHash } from "node:crypto";
import { collectionsOwnedByRun } from "@astraflow/engine";
import { dueKinds, openPhases, type RowKind } from "../../common/row-shape.ts";
import { rootKinds, rowArraySql, sharedKinds } from "./columns.ts";
import { schemaName } from "./tables.ts";

/**
 * Plans must not depend on what the planner knows of tables that were empty a minute ago: every hot statement has its index, and is
 * planned once a session. To an empty table any index looks as good as another, so where two could serve, a subquery with OFFSET 0
 * or an index that asks for its first column leaves only the right one. Nothing here outlives the transaction, so a pooler may
 * change the session between two turns.
 */
export const functionSettings = `SET search_path = pg_catalog SET plan_cache_mode = force_generic_plan SET jit = off
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off`;

/** A turn that the engine holds this long has lost its engine; its locks must not outlive it. */
const idleMsMax = 5_000;
export const lockMsMax = 5_000;
const statementMsMax = 10_000;
/** Claims that met tasks of another turn's making look again this often. */
const claimTries = 3;
/** So many names that do not exist yet are locked a turn; the space for such locks is limited on the server. */
const namesLockedMax = 256;
/** New runs have ids nobody else can know. A few are locked all the same, for callers that choose their ids. */
const runsLockedMax = 32;

const beginArguments = `
  p_replica text DEFAULT NULL, p_epoch bigint DEFAULT NULL, p_nonce bigint DEFAULT NULL,
  p_born float8 DEFAULT 0, p_scale float8 DEFAULT 1, p_ahead float8 DEFAULT 0,
  p_run text[] DEFAULT NULL, p_worker text[] DEFAULT NULL, p_key text[] DEFAULT NULL, p_ask text[] DEFAULT NULL,
  p_doc text[] DEFAULT NULL, p_guarded text[] DEFAULT NULL, p_route text[] DEFAULT NULL, p_workflow text[] DEFAULT NULL, p_task text[] DEFAULT NULL,
  p_line text[] DEFAULT NULL, p_limit integer[] DEFAULT NULL,
  p_open text[] DEFAULT NULL, p_open_from text[] DEFAULT NULL, p_open_limit integer[] DEFAULT NULL,
  p_range text[] DEFAULT NULL, p_range_from text[] DEFAULT NULL, p_range_to text[] DEFAULT NULL, p_range_limit integer[] DEFAULT NULL,
  p_held text[] DEFAULT NULL, p_held_limit integer[] DEFAULT NULL,
  p_look text[] DEFAULT NULL, p_look_limit integer[] DEFAULT NULL, p_address text[] DEFAULT NULL,
  p_due integer DEFAULT 0, p_mail integer DEFAULT 0,
  p_skip_run text[] DEFAULT '{}', p_skip_worker text[] DEFAULT '{}', p_skip_key text[] DEFAULT '{}', p_skip_doc text[] DEFAULT '{}'`;

/**
 * A function's name holds the digest of its text: two versions of this program may work on one database side by side, each with its
 * own, as long as the tables suit both.
 */
export function versionedFunction(base: string, textOf: (name: string) => string): { name: string; sql: string } {
  const name = `${base}_${createHash("sha256").update(textOf(base)).digest("hex").slice(0, 12)}`;
  return { name, sql: textOf(name) };
}

function createBeginFunctionSql(name: string): string {
  return `CREATE FUNCTION ${schemaName}.${name}(${beginArguments}) RETURNS json LANGUAGE plpgsql VOLATILE ${functionSettings} AS $body$
DECLARE
  v_epoch bigint; v_now bigint; v_instant bigint; v_next bigint; v_count bigint;
  v_got text[]; v_missing text[]; v_there text[]; v_claimed text[]; v_bring text[] := '{}';
  v_busy text[] := '{}'; v_loose text[] := '{}';
  ${dueKinds.map((kind) => `v_due_${kind} text[]; v_least_${kind} bigint;`).join(" ")}
  ${[...rootKinds, ...sharedKinds].map((kind) => `j_${kind} json;`).join(" ")}
  v_due_guarded text[]; j_guarded json; j_range json;
  j_task json; j_claimed json; j_brought json; j_due_worker json; j_due_key json; j_due_doc json; j_open json; j_held json; j_look json; j_mail json; j_address json;
BEGIN
  IF p_replica IS NOT NULL THEN
    SELECT (SELECT epoch FROM ${schemaName}.replica WHERE id = p_replica), pg_try_advisory_xact_lock(p_nonce),
      set_config('idle_in_transaction_session_timeout', '${idleMsMax}', true),
      set_config('lock_timeout', '${lockMsMax}', true), set_config('statement_timeout', '${statementMsMax}', true) INTO v_epoch;
    IF v_epoch IS DISTINCT FROM p_epoch THEN RAISE EXCEPTION USING ERRCODE = 'AF001', MESSAGE = coalesce(v_epoch, 0)::text; END IF;
  END IF;
${rootKinds.map((kind) => takeRootsSql(kind)).join("")}
${sharedKinds.map((kind) => readSharedRowsSql(kind)).join("")}
${claimTasksSql}
  IF p_replica IS NOT NULL THEN
${deadlinesSql}
    IF p_mail > 0 THEN
      SELECT json_agg(json_build_array(m.seq, m.id, m.body) ORDER BY m.seq) INTO j_mail FROM (
        SELECT seq, id, body FROM ${schemaName}.mail WHERE replica = p_replica AND epoch = p_epoch ORDER BY seq LIMIT p_mail
        FOR UPDATE SKIP LOCKED) m;
    END IF;
  END IF;
${taskListsSql}
${readTasksSql}
  IF v_bring <> '{}' THEN
    SELECT json_agg(${rowArraySql("run", "r")}) INTO j_brought FROM ${schemaName}.run r WHERE r.id = ANY (v_bring);
  END IF;
  -- Told last: whatever was read above was stored before this instant.
  IF p_replica IS NOT NULL THEN
    v_instant := ${nowSql};
    v_now := greatest(v_instant, v_now);
  END IF;
  RETURN json_build_object('now', v_now, 'instant', v_instant, 'next', v_next, 'busy', v_busy, 'loose', v_loose,
    ${[...rootKinds, ...sharedKinds].map((kind) => `'${kind}', j_${kind}`).join(", ")}, 'task', j_task, 'guarded', j_guarded, 'claimed', j_claimed,
    'brought', j_brought, 'dueWorker', j_due_worker, 'dueKey', j_due_key, 'dueDoc', j_due_doc, ${dueKinds.map((kind) => `'due_${kind}', v_due_${kind}`).join(", ")},
    'open', j_open, 'range', j_range, 'held', j_held, 'look', j_look, 'mail', j_mail, 'address', j_address);
END $body$`;
}

const nowSql = "floor(p_born + (extract(epoch FROM clock_timestamp())::float8 * 1000 - p_born) * p_scale + p_ahead)::bigint";

/** Existing roots: locked in key order, those in other hands left out. Whoever waits for nobody cannot deadlock. */
function takeRootsSql(kind: (typeof rootKinds)[number]): string {
  return `
  IF p_${kind} IS NOT NULL THEN
    SELECT json_agg(${rowArraySql(kind, "t")}), array_agg(t.id) INTO j_${kind}, v_got FROM (
      SELECT * FROM ${schemaName}.${kind} WHERE id = ANY (p_${kind}) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) t;
    IF cardinality(p_${kind}) > coalesce(cardinality(v_got), 0) THEN
      v_missing := ARRAY(SELECT unnest(p_${kind}) EXCEPT SELECT unnest(v_got));
${lockMissingNamesSql(kind, kind === "run" ? runsLockedMax : namesLockedMax)}
    END IF;
  END IF;`;
}

/** What never changes is read without a lock, else every run of one workflow would be in the others' way. */
function readSharedRowsSql(kind: (typeof sharedKinds)[number]): string {
  return `
  IF p_${kind} IS NOT NULL THEN
    SELECT json_agg(${rowArraySql(kind, "t")}), array_agg(t.id) INTO j_${kind}, v_got
      FROM ${schemaName}.${kind} t WHERE t.id = ANY (p_${kind});
    IF cardinality(p_${kind}) > coalesce(cardinality(v_got), 0) THEN
      v_missing := ARRAY(SELECT unnest(p_${kind}) EXCEPT SELECT unnest(v_got));
${lockMissingNamesSql(kind, namesLockedMax)}
    END IF;
  END IF;`;
}

/**
 * What was not found is either in other hands (busy) or does not exist. A name that does not exist has no row to lock, so the name
 * itself is locked, and looked for once more: it may have appeared in between. Names beyond the limit are left loose: two turns may
 * both make such a row, and the second to commit fails and goes again.
 */
function lockMissingNamesSql(kind: RowKind, lockedMax: number): string {
  return `      v_there := ARRAY(SELECT id FROM ${schemaName}.${kind} WHERE id = ANY (v_missing));
      IF v_there <> '{}' THEN
        v_busy := v_busy || ARRAY(SELECT '${kind}/' || x FROM unnest(v_there) x);
        v_missing := ARRAY(SELECT unnest(v_missing) EXCEPT SELECT unnest(v_there));
      END IF;
      IF cardinality(v_missing) > ${lockedMax} THEN
        v_loose := v_loose || ARRAY(SELECT '${kind}/' || x FROM unnest(v_missing) x);
      ELSIF v_missing <> '{}' THEN
        SELECT array_agg(q.x) FILTER (WHERE q.ok), array_agg('${kind}/' || q.x) FILTER (WHERE NOT q.ok) INTO v_got, v_there FROM (
          SELECT x, pg_try_advisory_xact_lock(hashtextextended('${kind}/' || x, 0)) AS ok FROM unnest(v_missing) x OFFSET 0) q;
        v_busy := v_busy || v_there || ARRAY(SELECT '${kind}/' || id FROM ${schemaName}.${kind} WHERE id = ANY (v_got));
      END IF;`;
}

/** The runs of claimed tasks; tables are joined by the run that a task's id names. */
const runOfTaskSql = "split_part(t.id, '.', 1)";

/** The head of a line whose runs nobody else holds. Exported so that its plan can be looked at. */
export const queueHeadSql = (line: string, limit: string, skip: string): string => `
        SELECT t.id FROM ${schemaName}.task t JOIN ${schemaName}.run r ON r.id = ${runOfTaskSql}
        WHERE t.line = ${line} AND r.id <> ALL (${skip}) ORDER BY t.band, t.rank, t.id LIMIT ${limit}
        FOR NO KEY UPDATE OF r SKIP LOCKED`;

const claimTasksSql = `
  IF p_line IS NOT NULL THEN
    FOR v_try IN 1..${claimTries} LOOP
      SELECT array_agg(x.id) INTO v_claimed FROM unnest(p_line, p_limit) c(line, n)
      CROSS JOIN LATERAL (${queueHeadSql("c.line", "c.n", "p_skip_run")}) x;
      EXIT WHEN v_claimed IS NULL;
      SELECT json_agg(${rowArraySql("task", "t")}), count(*) INTO j_claimed, v_count
        FROM (SELECT * FROM ${schemaName}.task WHERE id = ANY (v_claimed) OFFSET 0) t WHERE t.line = ANY (p_line);
      EXIT WHEN v_count = cardinality(v_claimed);
    END LOOP;
    IF v_claimed IS NOT NULL THEN v_bring := ARRAY(SELECT DISTINCT split_part(x, '.', 1) FROM unnest(v_claimed) x); END IF;
  END IF;`;

/** Documents that belong to a run: it is named behind the collection. */
const runCollectionsSql = `'{${[...collectionsOwnedByRun].join(",")}}'::text[]`;
const runOfDocumentSql = "split_part(split_part(t.id, '/', 3), '.', 1)";

/** Documents that are guarded by their runs; the others are `dueIdsSql`'s. */
export const dueRunDocumentIdsSql = (now: string, limit: string, skip: string): string =>
  `SELECT t.id FROM ${schemaName}.doc t JOIN ${schemaName}.run r ON r.id = ${runOfDocumentSql}
          WHERE t.due <= ${now} AND t.collection = ANY (${runCollectionsSql}) AND r.id <> ALL (${skip})
          ORDER BY t.due, t.id LIMIT ${limit} FOR NO KEY UPDATE OF r SKIP LOCKED`;

export const dueIdsSql = (kind: (typeof dueKinds)[number], now: string, limit: string, skip: string): string =>
  kind === "task"
    ? `SELECT t.id FROM ${schemaName}.task t JOIN ${schemaName}.run r ON r.id = ${runOfTaskSql}
          WHERE t.due <= ${now} AND r.id <> ALL (${skip}) ORDER BY t.due, t.id LIMIT ${limit} FOR NO KEY UPDATE OF r SKIP LOCKED`
    : `SELECT id FROM ${schemaName}.${kind} WHERE due <= ${now} AND id <> ALL (${skip})
          ${kind === "doc" ? `AND collection <> ALL (${runCollectionsSql})` : ""} ORDER BY due, id LIMIT ${limit}
          FOR NO KEY UPDATE SKIP LOCKED`;

export const earliestDueSql = (kind: (typeof dueKinds)[number], after?: string): string =>
  `SELECT due FROM ${schemaName}.${kind} WHERE ${after === undefined ? "due IS NOT NULL" : `due > ${after}`} ORDER BY due LIMIT 1`;

const skipArgumentOf = {
  run: "p_skip_run",
  task: "p_skip_run",
  worker: "p_skip_worker",
  key: "p_skip_key",
  doc: "p_skip_doc",
} as const;

const dueRunDocumentsSql = `
        SELECT array_agg(x.id) INTO v_due_guarded FROM (
          ${dueRunDocumentIdsSql("v_now", "p_due", "p_skip_run")}) x;
        IF v_due_guarded IS NOT NULL THEN
          v_due_doc := v_due_doc || v_due_guarded;
          v_bring := v_bring || ARRAY(SELECT DISTINCT ${runOfDocumentSql} FROM unnest(v_due_guarded) t(id));
        END IF;`;

const deadlinesSql = `    SELECT greatest(${nowSql}, (SELECT max(clock) FROM ${schemaName}.lane)),
      ${dueKinds.map((kind) => `(${earliestDueSql(kind)})`).join(", ")}
    INTO v_now, ${dueKinds.map((kind) => `v_least_${kind}`).join(", ")};
${dueKinds
  .map(
    (kind) => `    IF v_least_${kind} <= v_now THEN
      IF p_due > 0 THEN
        SELECT array_agg(x.id) INTO v_due_${kind} FROM (
          ${dueIdsSql(kind, "v_now", "p_due", skipArgumentOf[kind])}) x;${kind === "doc" ? dueRunDocumentsSql : ""}
      END IF;
      v_least_${kind} := (${earliestDueSql(kind, "v_now")});
    END IF;
`,
  )
  .join("")}    v_next := least(${dueKinds.map((kind) => `v_least_${kind}`).join(", ")});
    IF v_due_run IS NOT NULL THEN v_bring := v_bring || v_due_run; END IF;
    IF v_due_task IS NOT NULL THEN v_bring := v_bring || ARRAY(SELECT DISTINCT split_part(x, '.', 1) FROM unnest(v_due_task) x); END IF;
${(["worker", "key", "doc"] as const)
  .map(
    (kind) => `    IF v_due_${kind} IS NOT NULL THEN
      SELECT json_agg(${rowArraySql(kind, "t")}) INTO j_due_${kind} FROM ${schemaName}.${kind} t WHERE t.id = ANY (v_due_${kind});
    END IF;
`,
  )
  .join("")}`;

/** Tasks that have not ended. */
export const isOpenSql = `t.phase IN (${openPhases.map((phase) => `'${phase}'`).join(", ")})`;

export const openTasksSql = (from: string, run: string, limit: string): string =>
  `SELECT * FROM ${schemaName}.task t WHERE t.id > ${from} AND t.id < ${run} || '/'
      AND ${isOpenSql} ORDER BY t.id LIMIT ${limit}`;
export const taskRangeSql = (from: string, to: string, run: string, limit: string): string =>
  `SELECT * FROM ${schemaName}.task t WHERE t.id > ${from} AND t.id <= ${to} AND t.id < ${run} || '/' ORDER BY t.id LIMIT ${limit}`;
export const heldTasksSql = (worker: string, limit: string): string =>
  `SELECT * FROM ${schemaName}.task t WHERE t.worker = ${worker} AND t.phase = 'leased' ORDER BY t.id LIMIT ${limit}`;
export const queuePreviewSql = (line: string, limit: string): string =>
  `SELECT * FROM ${schemaName}.task t WHERE t.line = ${line} ORDER BY t.band, t.rank, t.id LIMIT ${limit}`;

const taskListsSql = `
  IF p_open IS NOT NULL THEN
    SELECT json_agg(json_build_array(o.n, ${rowArraySql("task", "x")}) ORDER BY o.n, x.id) INTO j_open
    FROM unnest(p_open, p_open_from, p_open_limit) WITH ORDINALITY o(run, start, lim, n)
    CROSS JOIN LATERAL (${openTasksSql("o.start", "o.run", "o.lim")}) x WHERE 'run/' || o.run <> ALL (v_busy);
  END IF;
  IF p_range IS NOT NULL THEN
    SELECT json_agg(json_build_array(o.n, ${rowArraySql("task", "x")}) ORDER BY o.n, x.id) INTO j_range
    FROM unnest(p_range, p_range_from, p_range_to, p_range_limit) WITH ORDINALITY o(run, start, stop, lim, n)
    CROSS JOIN LATERAL (${taskRangeSql("o.start", "o.stop", "o.run", "o.lim")}) x WHERE 'run/' || o.run <> ALL (v_busy);
  END IF;
  IF p_held IS NOT NULL THEN
    SELECT json_agg(json_build_array(o.n, ${rowArraySql("task", "x")}) ORDER BY o.n, x.id) INTO j_held
    FROM unnest(p_held, p_held_limit) WITH ORDINALITY o(worker, lim, n) CROSS JOIN LATERAL (${heldTasksSql("o.worker", "o.lim")}) x;
  END IF;
  IF p_look IS NOT NULL THEN
    SELECT json_agg(json_build_array(o.n, ${rowArraySql("task", "x")}) ORDER BY o.n, x.band, x.rank, x.id) INTO j_look
    FROM unnest(p_look, p_look_limit) WITH ORDINALITY o(line, lim, n) CROSS JOIN LATERAL (${queuePreviewSql("o.line", "o.lim")}) x;
  END IF;
  IF p_address IS NOT NULL THEN
    SELECT json_agg(${rowArraySql("worker", "w")}) INTO j_address FROM ${schemaName}.worker w WHERE w.id = ANY (p_address);
  END IF;`;

const readTasksSql = `
  IF p_task IS NOT NULL OR v_due_task IS NOT NULL THEN
    SELECT json_agg(${rowArraySql("task", "t")}) INTO j_task FROM ${schemaName}.task t
    WHERE t.id = ANY (v_due_task || p_task) AND (v_busy = '{}' OR 'run/' || ${runOfTaskSql} <> ALL (v_busy));
  END IF;
  IF p_guarded IS NOT NULL THEN
    SELECT json_agg(${rowArraySql("doc", "t")}) INTO j_guarded FROM ${schemaName}.doc t
    WHERE t.id = ANY (p_guarded) AND (v_busy = '{}' OR 'run/' || ${runOfDocumentSql} <> ALL (v_busy));
  END IF;`;

export const beginTurnFunction = versionedFunction("turn_begin", createBeginFunctionSql);
