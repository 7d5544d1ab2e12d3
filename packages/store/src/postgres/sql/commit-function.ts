// The function that writes a turn: rows, ranks, then everything that turns share, in one order for all, so that no two can wait for
// each other in a ring: clocks of lines by name, tenants by name, facts with their positions, the lane. Then the message says COMMIT.

import { chunkFields, type RowKind, rowKinds } from "../../common/row-shape.ts";
import { functionSettings, versionedFunction } from "./begin-function.ts";
import { castCellSql, columnNames } from "./columns.ts";
import {
  type CommitSection,
  cellSql,
  chunkSection,
  dropSections,
  eventSection,
  hasRowsSql,
  mailSection,
  type RowSection,
  readySection,
  rowSections,
  sectionRowsSql,
} from "./commit-sections.ts";
import { schemaName } from "./tables.ts";

/** In the order in which they are handed over. */
const commitArguments = [
  ["replica", "text"],
  ["epoch", "bigint"],
  ["lane", "integer"],
  ["turn", "bigint"],
  ["now", "bigint"],
  ["updates", "bigint"],
  ["texts", "text[]"],
  ["numbers", "float8[]"],
  ["sections", "integer[]"],
  ["rely_worker", "text[]"],
  ["rely_epoch", "float8[]"],
  ["left_line", "text[]"],
  ["left_rank", "float8[]"],
  ["lines", "text[]"],
  ["tenants", "text[]"],
  ["facts", "float8[]"],
  ["mail_taken", "float8[]"],
] as const;

export type CommitArguments = Readonly<Record<(typeof commitArguments)[number][0], string | number | Buffer | null>>;

export const orderCommitArguments = (values: CommitArguments): (string | number | Buffer | null)[] =>
  commitArguments.map(([name]) => values[name]);

const mailCellSql = (name: string) => cellSql(mailSection, name);
const eventCellSql = (name: string) => cellSql(eventSection, name);
const readyCellSql = (name: string) => cellSql(readySection, name);
const upsertCellSql = (name: string) => cellSql(rowSections.task.upsert, name);
const sectionIdsSql = (section: CommitSection) => `ARRAY(SELECT ${cellSql(section, "id")} FROM ${sectionRowsSql(section)})`;

function createCommitFunctionSql(name: string): string {
  return `CREATE FUNCTION ${schemaName}.${name}(${commitArguments.map(([word, type]) => `p_${word} ${type}`).join(", ")}) RETURNS json LANGUAGE plpgsql VOLATILE ${functionSettings} AS $body$
DECLARE
  v_sure text[]; v_updates bigint := 0; v_rows bigint; v_line_clocks float8[]; v_clocks float8[]; v_ranks float8[]; v_owners integer[]; v_base bigint[];
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    RAISE EXCEPTION USING ERRCODE = 'AF002', MESSAGE = current_setting('synchronous_commit');
  END IF;
${checkReliedWorkersSql}
${computeRanksSql}
${rowKinds.map(writeRowsSql).join("")}
  IF v_updates <> p_updates THEN
    RAISE EXCEPTION USING ERRCODE = 'AF003', MESSAGE = format('%s rows were to be changed and %s were there', p_updates, v_updates);
  END IF;
  IF ${hasRowsSql(chunkSection)} THEN
    INSERT INTO ${schemaName}.chunk (${chunkFields.join(", ")}) SELECT ${chunkFields.map((field) => cellSql(chunkSection, field)).join(", ")}
    FROM ${sectionRowsSql(chunkSection)} ON CONFLICT (task, fence, first) DO NOTHING;
  END IF;
  IF ${hasRowsSql(mailSection)} THEN
    INSERT INTO ${schemaName}.mail (replica, epoch, id, body)
    SELECT ${mailCellSql("replica")}, ${mailCellSql("epoch")}, ${mailCellSql("id")}, ${mailCellSql("body")} FROM ${sectionRowsSql(mailSection)}
    ON CONFLICT (replica, epoch, id) DO NOTHING;
  END IF;
  IF p_mail_taken IS NOT NULL THEN DELETE FROM ${schemaName}.mail WHERE seq = ANY (p_mail_taken::bigint[]); END IF;
  IF p_left_line IS NOT NULL THEN
    INSERT INTO ${schemaName}.line (id, clock) SELECT x.id, x.clock FROM unnest(p_left_line, p_left_rank) x(id, clock) ORDER BY x.id
    ON CONFLICT (id) DO UPDATE SET clock = excluded.clock WHERE line.clock < excluded.clock;
  END IF;
  IF p_tenants IS NOT NULL THEN
    WITH t AS (
      INSERT INTO ${schemaName}.tenant (id, position, clock, floor)
      SELECT q.id, q.n, coalesce(q.clock, 0), 0 FROM unnest(p_tenants, p_facts::bigint[], v_clocks) q(id, n, clock) ORDER BY q.id
      ON CONFLICT (id) DO UPDATE SET position = tenant.position + excluded.position, clock = greatest(tenant.clock, excluded.clock)
      RETURNING id, position)
    SELECT array_agg(t.position - q.n ORDER BY q.o) INTO v_base
    FROM unnest(p_tenants, p_facts::bigint[]) WITH ORDINALITY q(id, n, o) JOIN t ON t.id = q.id;
  END IF;
  IF ${hasRowsSql(eventSection)} THEN
    INSERT INTO ${schemaName}.event (tenant, first, last, at, subject, facts)
    SELECT p_tenants[e.tenant], v_base[e.tenant] + e.first, v_base[e.tenant] + e.first + e.count - 1, p_now, e.subject, e.facts
    FROM (SELECT ${eventCellSql("tenant")}::integer AS tenant, ${eventCellSql("first")}::bigint AS first, ${eventCellSql("count")}::bigint AS count,
      ${eventCellSql("subject")} AS subject, ${eventCellSql("facts")} AS facts FROM ${sectionRowsSql(eventSection)}) e;
  END IF;
  UPDATE ${schemaName}.lane SET last_turn = p_turn, clock = greatest(clock, p_now)
  WHERE replica = p_replica AND lane = p_lane AND epoch = p_epoch;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AF001', MESSAGE = coalesce((SELECT epoch FROM ${schemaName}.replica WHERE id = p_replica), 0)::text;
  END IF;
  RETURN to_json(v_base);
END $body$`;
}

/**
 * Workers that this turn grants to are held as they are until it is committed: many turns may hold one, none while another has it in
 * hand to change it. Nobody is waited for: a worker that cannot be held at once is named, and nothing is written.
 */
const checkReliedWorkersSql = `
  IF p_rely_worker IS NOT NULL THEN
    SELECT array_agg(s.id) INTO v_sure FROM (
      SELECT w.id FROM unnest(p_rely_worker, p_rely_epoch) r(id, epoch) JOIN ${schemaName}.worker w ON w.id = r.id
      WHERE w.epoch = r.epoch AND w.phase = 'online' AND NOT w.draining FOR SHARE OF w SKIP LOCKED) s;
    IF cardinality(p_rely_worker) > coalesce(cardinality(v_sure), 0) THEN
      RAISE EXCEPTION USING ERRCODE = 'AF004',
        MESSAGE = to_json(ARRAY(SELECT unnest(p_rely_worker) EXCEPT SELECT unnest(v_sure)))::text;
    END IF;
  END IF;`;

/**
 * A line's clock stands at the highest rank that has left it; then rank = max(tenant clock, line clock) + cost, in the order of
 * entering, and the tenant's clock moves there. With s the costs so far, that is s + max(tenant clock, max(line clock - s before)):
 * one pass over a window instead of a loop. Clocks are read without a lock: between turns at one moment fairness is approximate.
 */
const computeRanksSql = `
  IF ${hasRowsSql(rowSections.task.upsert)} OR ${hasRowsSql(dropSections.task)} THEN
    SELECT array_agg(q.line), array_agg(q.rank) INTO p_left_line, p_left_rank FROM (
      SELECT a.line, max(a.rank) AS rank FROM (
        SELECT t.line, t.rank FROM ${sectionRowsSql(rowSections.task.upsert)}
          CROSS JOIN LATERAL (SELECT * FROM ${schemaName}.task WHERE id = ${upsertCellSql("id")} OFFSET 0) t
          WHERE t.line IS NOT NULL AND (${upsertCellSql("line")} IS DISTINCT FROM t.line OR ${upsertCellSql("phase")} <> t.phase)
        UNION ALL SELECT t.line, t.rank FROM (SELECT * FROM ${schemaName}.task WHERE id = ANY (${sectionIdsSql(dropSections.task)}) OFFSET 0) t
          WHERE t.line IS NOT NULL
        UNION ALL SELECT x.line, x.rank FROM unnest(p_left_line, p_left_rank) x(line, rank)) a GROUP BY a.line) q;
  END IF;
  IF ${hasRowsSql(readySection)} THEN
    v_line_clocks := ARRAY(SELECT greatest(l.clock, x.rank, 0) FROM unnest(p_lines) WITH ORDINALITY q(id, o)
      LEFT JOIN ${schemaName}.line l ON l.id = q.id LEFT JOIN unnest(p_left_line, p_left_rank) x(id, rank) ON x.id = q.id ORDER BY q.o);
    v_clocks := ARRAY(SELECT coalesce(t.clock, 0) FROM unnest(p_tenants) WITH ORDINALITY q(id, o)
      LEFT JOIN ${schemaName}.tenant t ON t.id = q.id ORDER BY q.o);
    SELECT array_agg(b.s + greatest(v_clocks[b.t], b.m) ORDER BY b.o), array_agg(b.t ORDER BY b.o) INTO v_ranks, v_owners FROM (
      SELECT a.o, a.t, a.s, max(v_line_clocks[a.l] - (a.s - a.c)) OVER (PARTITION BY a.t ORDER BY a.o) AS m FROM (
        SELECT r.o, r.t, r.l, r.c, sum(r.c) OVER (PARTITION BY r.t ORDER BY r.o) AS s FROM (
          SELECT u.o, ${readyCellSql("tenant")}::integer AS t, ${readyCellSql("line")}::integer AS l, ${readyCellSql("cost")} AS c
          FROM ${sectionRowsSql(readySection)}) r) a) b;
    v_clocks := ARRAY(SELECT greatest(v_clocks[q.o], m.clock) FROM generate_subscripts(p_tenants, 1) q(o)
      LEFT JOIN (SELECT x.t, max(x.r) AS clock FROM unnest(v_ranks, v_owners) x(r, t) GROUP BY x.t) m ON m.t = q.o ORDER BY q.o);
  END IF;`;

function writeRowsSql(kind: RowKind): string {
  const { insert: i, upsert: p, updates: changes } = rowSections[kind];
  const changing = columnNames(kind).filter((name) => name !== '"id"');
  return `
  IF ${hasRowsSql(i)} THEN ${insertRowsSql(i)}; END IF;
${changes.map(updateRowsSql).join("")}
  IF ${hasRowsSql(p)} THEN
    ${insertRowsSql(p)} ON CONFLICT (id) DO UPDATE SET ${changing.map((name) => `${name} = excluded.${name}`).join(", ")};
  END IF;
  IF ${hasRowsSql(dropSections[kind])} THEN DELETE FROM ${schemaName}.${kind} WHERE id = ANY (${sectionIdsSql(dropSections[kind])}); END IF;`;
}

function insertRowsSql(section: RowSection): string {
  const values = columnValuesSql(section);
  const names = [...values.keys()].map((name) => `"${name}"`).join(", ");
  return `INSERT INTO ${schemaName}.${section.kind} (${names}) SELECT ${[...values.values()].join(", ")} FROM ${sectionRowsSql(section)}`;
}

function updateRowsSql(section: RowSection): string {
  const changes = [...columnValuesSql(section)].filter(([name]) => name !== "id").map(([name, value]) => `"${name}" = ${value}`);
  return `
  IF ${hasRowsSql(section)} THEN
    UPDATE ${schemaName}.${section.kind} t SET ${changes.join(", ")} FROM ${sectionRowsSql(section)} WHERE t.id = ${cellSql(section, "id")};
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_updates := v_updates + v_rows;
  END IF;`;
}

/** What each column of a section is set to. */
function columnValuesSql(section: RowSection): Map<string, string> {
  const values = new Map(section.columns.map((column) => [column.field, castCellSql(column, cellSql(section, column.field))]));
  if (section.numbers.includes("place"))
    values.set("rank", `coalesce(v_ranks[${cellSql(section, "place")}::integer], ${cellSql(section, "rank")})`);
  return values;
}

export const commitTurnFunction = versionedFunction("turn_commit", createCommitFunctionSql);
export const commitTurnSql = `SELECT ${schemaName}.${commitTurnFunction.name}(${commitArguments.map(([, type], at) => `$${at + 1}::${type}`).join(", ")})`;
