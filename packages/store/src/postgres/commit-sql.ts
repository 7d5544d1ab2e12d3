// The function that writes a turn: rows, ranks, then everything that turns share, in one order for all, so that no two can wait for
// each other in a ring: clocks of lines by name, tenants by name, facts with their positions, the lane. Then the message says COMMIT.

import { functionSettings } from "./begin-sql.ts";
import { columnNames, type Kind, kinds, recordColumns } from "./columns.ts";
import { schema } from "./schema.ts";

/** `i`: rows that must not exist. `u`: rows that this turn has locked and read. `p`: either. */
export const modes = ["i", "u", "p"] as const;
export type Mode = (typeof modes)[number];

const commitArguments = `
  p_replica text, p_epoch bigint, p_lane integer, p_turn bigint, p_now bigint, p_updates bigint,
  ${kinds.flatMap((kind) => modes.map((mode) => `p_${kind}_${mode} json DEFAULT NULL`)).join(", ")},
  ${kinds.map((kind) => `p_drop_${kind} text[] DEFAULT NULL`).join(", ")},
  p_rely_worker text[] DEFAULT NULL, p_rely_epoch bigint[] DEFAULT NULL,
  p_left_line text[] DEFAULT NULL, p_left_rank float8[] DEFAULT NULL,
  p_lines text[] DEFAULT NULL, p_tenants text[] DEFAULT NULL, p_facts bigint[] DEFAULT NULL,
  p_ready json DEFAULT NULL, p_events json DEFAULT NULL, p_mail json DEFAULT NULL, p_mail_taken bigint[] DEFAULT NULL`;

export function commitSql(name: string): string {
  return `CREATE FUNCTION ${schema}.${name}(${commitArguments}) RETURNS json LANGUAGE plpgsql VOLATILE ${functionSettings} AS $body$
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
  IF p_mail IS NOT NULL THEN
    INSERT INTO ${schema}.mail (replica, epoch, id, body) SELECT m.r, m.e, m.i, m.b
    FROM json_to_recordset(p_mail) AS m(r text, e bigint, i text, b text) ON CONFLICT (replica, epoch, id) DO NOTHING;
  END IF;
  IF p_mail_taken IS NOT NULL THEN DELETE FROM ${schema}.mail WHERE seq = ANY (p_mail_taken); END IF;
  IF p_left_line IS NOT NULL THEN
    INSERT INTO ${schema}.line (id, clock) SELECT x.id, x.clock FROM unnest(p_left_line, p_left_rank) x(id, clock) ORDER BY x.id
    ON CONFLICT (id) DO UPDATE SET clock = excluded.clock WHERE line.clock < excluded.clock;
  END IF;
  IF p_tenants IS NOT NULL THEN
    WITH t AS (
      INSERT INTO ${schema}.tenant (id, position, clock, floor)
      SELECT q.id, q.n, coalesce(q.clock, 0), 0 FROM unnest(p_tenants, p_facts, v_clocks) q(id, n, clock) ORDER BY q.id
      ON CONFLICT (id) DO UPDATE SET position = tenant.position + excluded.position, clock = greatest(tenant.clock, excluded.clock)
      RETURNING id, position)
    SELECT array_agg(t.position - q.n ORDER BY q.o) INTO v_base
    FROM unnest(p_tenants, p_facts) WITH ORDINALITY q(id, n, o) JOIN t ON t.id = q.id;
  END IF;
  IF p_events IS NOT NULL THEN
    INSERT INTO ${schema}.event (tenant, first, last, at, subject, facts)
    SELECT p_tenants[e.t], v_base[e.t] + e.f, v_base[e.t] + e.f + e.n - 1, p_now, e.s, e.d::text
    FROM json_to_recordset(p_events) AS e(t integer, f bigint, n bigint, s text, d json);
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
  IF p_task_p IS NOT NULL OR p_drop_task IS NOT NULL THEN
    SELECT array_agg(q.line), array_agg(q.rank) INTO p_left_line, p_left_rank FROM (
      SELECT a.line, max(a.rank) AS rank FROM (
        SELECT t.line, t.rank FROM json_to_recordset(p_task_p) AS u(id text, line text, phase text)
          CROSS JOIN LATERAL (SELECT * FROM ${schema}.task WHERE id = u.id OFFSET 0) t
          WHERE t.line IS NOT NULL AND (u.line IS DISTINCT FROM t.line OR u.phase <> t.phase)
        UNION ALL SELECT t.line, t.rank FROM (SELECT * FROM ${schema}.task WHERE id = ANY (p_drop_task) OFFSET 0) t
          WHERE t.line IS NOT NULL
        UNION ALL SELECT x.line, x.rank FROM unnest(p_left_line, p_left_rank) x(line, rank)) a GROUP BY a.line) q;
  END IF;
  IF p_ready IS NOT NULL THEN
    v_line_clocks := ARRAY(SELECT greatest(l.clock, x.rank, 0) FROM unnest(p_lines) WITH ORDINALITY q(id, o)
      LEFT JOIN ${schema}.line l ON l.id = q.id LEFT JOIN unnest(p_left_line, p_left_rank) x(id, rank) ON x.id = q.id ORDER BY q.o);
    v_clocks := ARRAY(SELECT coalesce(t.clock, 0) FROM unnest(p_tenants) WITH ORDINALITY q(id, o)
      LEFT JOIN ${schema}.tenant t ON t.id = q.id ORDER BY q.o);
    SELECT array_agg(b.s + greatest(v_clocks[b.t], b.m) ORDER BY b.o), array_agg(b.t ORDER BY b.o) INTO v_ranks, v_owners FROM (
      SELECT a.o, a.t, a.s, max(v_line_clocks[a.l] - (a.s - a.c)) OVER (PARTITION BY a.t ORDER BY a.o) AS m FROM (
        SELECT r.o, r.t, r.l, r.c, sum(r.c) OVER (PARTITION BY r.t ORDER BY r.o) AS s
        FROM json_to_recordset(p_ready) AS r(o integer, t integer, l integer, c float8)) a) b;
    v_clocks := ARRAY(SELECT greatest(v_clocks[q.o], m.clock) FROM generate_subscripts(p_tenants, 1) q(o)
      LEFT JOIN (SELECT x.t, max(x.r) AS clock FROM unnest(v_ranks, v_owners) x(r, t) GROUP BY x.t) m ON m.t = q.o ORDER BY q.o);
  END IF;`;

function writeKind(kind: Kind): string {
  const names = columnNames(kind);
  const record = kind === "task" ? `${recordColumns(kind)}, ord integer` : recordColumns(kind);
  const value = (name: string) => (kind === "task" && name === '"rank"' ? "coalesce(v_ranks[u.ord], u.rank)" : `u.${name}`);
  const rows = (mode: Mode) => `json_to_recordset(p_${kind}_${mode}) AS u(${record})`;
  const insert = (mode: Mode) =>
    `INSERT INTO ${schema}.${kind} (${names.join(", ")}) SELECT ${names.map(value).join(", ")} FROM ${rows(mode)}`;
  const changing = names.filter((name) => name !== '"id"');
  return `
  IF p_${kind}_i IS NOT NULL THEN ${insert("i")}; END IF;
  IF p_${kind}_u IS NOT NULL THEN
    UPDATE ${schema}.${kind} t SET ${changing.map((name) => `${name} = ${value(name)}`).join(", ")} FROM ${rows("u")} WHERE t.id = u.id;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_updates := v_updates + v_rows;
  END IF;
  IF p_${kind}_p IS NOT NULL THEN
    ${insert("p")} ON CONFLICT (id) DO UPDATE SET ${changing.map((name) => `${name} = excluded.${name}`).join(", ")};
  END IF;
  IF p_drop_${kind} IS NOT NULL THEN DELETE FROM ${schema}.${kind} WHERE id = ANY (p_drop_${kind}); END IF;`;
}
