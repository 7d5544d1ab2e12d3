// The function that writes a turn: rows, ranks, then everything that turns share, in one order for all, so that no two can wait for
// each other in a ring: clocks of lines by name, tenants by name, facts with their positions, the lane. Then the message says COMMIT.

import { chunkFields } from "../row-shape.ts";
import { functionSettings } from "./begin-sql.ts";
import { castCell, columnNames, type Kind, kinds } from "./columns.ts";
import { schema } from "./schema.ts";
import {
  cellOf,
  chunkSection,
  dropSections,
  eventSection,
  hasRows,
  mailSection,
  type RowSection,
  readySection,
  rowSections,
  rowsOf,
  type Section,
} from "./sections.ts";

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

export const commitValues = (values: CommitArguments): (string | number | Buffer | null)[] =>
  commitArguments.map(([name]) => values[name]);

export const commitCall = (name: string): string =>
  `SELECT ${schema}.${name}(${commitArguments.map(([, type], at) => `$${at + 1}::${type}`).join(", ")})`;

const mail = (name: string) => cellOf(mailSection, name);
const event = (name: string) => cellOf(eventSection, name);
const ready = (name: string) => cellOf(readySection, name);
const put = (name: string) => cellOf(rowSections.task.p, name);
const idsOf = (section: Section) => `ARRAY(SELECT ${cellOf(section, "id")} FROM ${rowsOf(section)})`;

export function commitSql(name: string): string {
  return `CREATE FUNCTION ${schema}.${name}(${commitArguments.map(([word, type]) => `p_${word} ${type}`).join(", ")}) RETURNS json LANGUAGE plpgsql VOLATILE ${functionSettings} AS $body$
DECLARE
  v_sure text[]; v_updates bigint := 0; v_rows bigint; v_line_clocks float8[]; v_clocks float8[]; v_ranks float8[]; v_owners integer[]; v_base bigint[];
BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    RAISE EXCEPTION USING ERRCODE = 'AF002', MESSAGE = current_setting('synchronous_commit');
  END IF;
${reliances}
${ranks}
${kinds.map(writeKind).join("")}
  IF v_updates <> p_updates THEN
    RAISE EXCEPTION USING ERRCODE = 'AF003', MESSAGE = format('%s rows were to be changed and %s were there', p_updates, v_updates);
  END IF;
  IF ${hasRows(chunkSection)} THEN
    INSERT INTO ${schema}.chunk (${chunkFields.join(", ")}) SELECT ${chunkFields.map((field) => cellOf(chunkSection, field)).join(", ")}
    FROM ${rowsOf(chunkSection)} ON CONFLICT (task, fence, first) DO NOTHING;
  END IF;
  IF ${hasRows(mailSection)} THEN
    INSERT INTO ${schema}.mail (replica, epoch, id, body)
    SELECT ${mail("replica")}, ${mail("epoch")}, ${mail("id")}, ${mail("body")} FROM ${rowsOf(mailSection)}
    ON CONFLICT (replica, epoch, id) DO NOTHING;
  END IF;
  IF p_mail_taken IS NOT NULL THEN DELETE FROM ${schema}.mail WHERE seq = ANY (p_mail_taken::bigint[]); END IF;
  IF p_left_line IS NOT NULL THEN
    INSERT INTO ${schema}.line (id, clock) SELECT x.id, x.clock FROM unnest(p_left_line, p_left_rank) x(id, clock) ORDER BY x.id
    ON CONFLICT (id) DO UPDATE SET clock = excluded.clock WHERE line.clock < excluded.clock;
  END IF;
  IF p_tenants IS NOT NULL THEN
    WITH t AS (
      INSERT INTO ${schema}.tenant (id, position, clock, floor)
      SELECT q.id, q.n, coalesce(q.clock, 0), 0 FROM unnest(p_tenants, p_facts::bigint[], v_clocks) q(id, n, clock) ORDER BY q.id
      ON CONFLICT (id) DO UPDATE SET position = tenant.position + excluded.position, clock = greatest(tenant.clock, excluded.clock)
      RETURNING id, position)
    SELECT array_agg(t.position - q.n ORDER BY q.o) INTO v_base
    FROM unnest(p_tenants, p_facts::bigint[]) WITH ORDINALITY q(id, n, o) JOIN t ON t.id = q.id;
  END IF;
  IF ${hasRows(eventSection)} THEN
    INSERT INTO ${schema}.event (tenant, first, last, at, subject, facts)
    SELECT p_tenants[e.tenant], v_base[e.tenant] + e.first, v_base[e.tenant] + e.first + e.count - 1, p_now, e.subject, e.facts
    FROM (SELECT ${event("tenant")}::integer AS tenant, ${event("first")}::bigint AS first, ${event("count")}::bigint AS count,
      ${event("subject")} AS subject, ${event("facts")} AS facts FROM ${rowsOf(eventSection)}) e;
  END IF;
  UPDATE ${schema}.lane SET last_turn = p_turn, clock = greatest(clock, p_now)
  WHERE replica = p_replica AND lane = p_lane AND epoch = p_epoch;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AF001', MESSAGE = coalesce((SELECT epoch FROM ${schema}.replica WHERE id = p_replica), 0)::text;
  END IF;
  RETURN to_json(v_base);
END $body$`;
}

/**
 * Workers that this turn grants to are held as they are until it is committed: many turns may hold one, none while another has it in
 * hand to change it. Nobody is waited for: a worker that cannot be held at once is named, and nothing is written.
 */
const reliances = `
  IF p_rely_worker IS NOT NULL THEN
    SELECT array_agg(s.id) INTO v_sure FROM (
      SELECT w.id FROM unnest(p_rely_worker, p_rely_epoch) r(id, epoch) JOIN ${schema}.worker w ON w.id = r.id
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
const ranks = `
  IF ${hasRows(rowSections.task.p)} OR ${hasRows(dropSections.task)} THEN
    SELECT array_agg(q.line), array_agg(q.rank) INTO p_left_line, p_left_rank FROM (
      SELECT a.line, max(a.rank) AS rank FROM (
        SELECT t.line, t.rank FROM ${rowsOf(rowSections.task.p)}
          CROSS JOIN LATERAL (SELECT * FROM ${schema}.task WHERE id = ${put("id")} OFFSET 0) t
          WHERE t.line IS NOT NULL AND (${put("line")} IS DISTINCT FROM t.line OR ${put("phase")} <> t.phase)
        UNION ALL SELECT t.line, t.rank FROM (SELECT * FROM ${schema}.task WHERE id = ANY (${idsOf(dropSections.task)}) OFFSET 0) t
          WHERE t.line IS NOT NULL
        UNION ALL SELECT x.line, x.rank FROM unnest(p_left_line, p_left_rank) x(line, rank)) a GROUP BY a.line) q;
  END IF;
  IF ${hasRows(readySection)} THEN
    v_line_clocks := ARRAY(SELECT greatest(l.clock, x.rank, 0) FROM unnest(p_lines) WITH ORDINALITY q(id, o)
      LEFT JOIN ${schema}.line l ON l.id = q.id LEFT JOIN unnest(p_left_line, p_left_rank) x(id, rank) ON x.id = q.id ORDER BY q.o);
    v_clocks := ARRAY(SELECT coalesce(t.clock, 0) FROM unnest(p_tenants) WITH ORDINALITY q(id, o)
      LEFT JOIN ${schema}.tenant t ON t.id = q.id ORDER BY q.o);
    SELECT array_agg(b.s + greatest(v_clocks[b.t], b.m) ORDER BY b.o), array_agg(b.t ORDER BY b.o) INTO v_ranks, v_owners FROM (
      SELECT a.o, a.t, a.s, max(v_line_clocks[a.l] - (a.s - a.c)) OVER (PARTITION BY a.t ORDER BY a.o) AS m FROM (
        SELECT r.o, r.t, r.l, r.c, sum(r.c) OVER (PARTITION BY r.t ORDER BY r.o) AS s FROM (
          SELECT u.o, ${ready("tenant")}::integer AS t, ${ready("line")}::integer AS l, ${ready("cost")} AS c
          FROM ${rowsOf(readySection)}) r) a) b;
    v_clocks := ARRAY(SELECT greatest(v_clocks[q.o], m.clock) FROM generate_subscripts(p_tenants, 1) q(o)
      LEFT JOIN (SELECT x.t, max(x.r) AS clock FROM unnest(v_ranks, v_owners) x(r, t) GROUP BY x.t) m ON m.t = q.o ORDER BY q.o);
  END IF;`;

function writeKind(kind: Kind): string {
  const { i, p, changes } = rowSections[kind];
  const changing = columnNames(kind).filter((name) => name !== '"id"');
  return `
  IF ${hasRows(i)} THEN ${insertSql(i)}; END IF;
${changes.map(updateSql).join("")}
  IF ${hasRows(p)} THEN
    ${insertSql(p)} ON CONFLICT (id) DO UPDATE SET ${changing.map((name) => `${name} = excluded.${name}`).join(", ")};
  END IF;
  IF ${hasRows(dropSections[kind])} THEN DELETE FROM ${schema}.${kind} WHERE id = ANY (${idsOf(dropSections[kind])}); END IF;`;
}

function insertSql(section: RowSection): string {
  const values = valuesOf(section);
  const names = [...values.keys()].map((name) => `"${name}"`).join(", ");
  return `INSERT INTO ${schema}.${section.kind} (${names}) SELECT ${[...values.values()].join(", ")} FROM ${rowsOf(section)}`;
}

function updateSql(section: RowSection): string {
  const changes = [...valuesOf(section)].filter(([name]) => name !== "id").map(([name, value]) => `"${name}" = ${value}`);
  return `
  IF ${hasRows(section)} THEN
    UPDATE ${schema}.${section.kind} t SET ${changes.join(", ")} FROM ${rowsOf(section)} WHERE t.id = ${cellOf(section, "id")};
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_updates := v_updates + v_rows;
  END IF;`;
}

/** What each column of a section is set to. */
function valuesOf(section: RowSection): Map<string, string> {
  const values = new Map(section.columns.map((column) => [column.field, castCell(column, cellOf(section, column.field))]));
  if (section.numbers.includes("place"))
    values.set("rank", `coalesce(v_ranks[${cellOf(section, "place")}::integer], ${cellOf(section, "rank")})`);
  return values;
}
