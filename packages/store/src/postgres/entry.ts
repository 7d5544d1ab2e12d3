// Entering a database as one replica: the newest schema, one cluster, one epoch on, and the lanes of older epochs gone, so that
// whoever still holds one cannot commit any more.

import { fault } from "@astraflow/protocol";
import type { Link } from "./link.ts";
import { textValue } from "./literal.ts";
import { migrate } from "./migrations.ts";
import { schema } from "./schema.ts";

export interface Entry {
  readonly epoch: number;
  readonly lastTurn: number;
  /** When the store was made, by the server's clock: the zero point of scaled time. */
  readonly born: number;
}

const entryLockMsMax = 15_000;

export async function enter(
  link: Link,
  me: { replica: string; cluster: string },
  lanes: number,
  step: (name: string) => void,
): Promise<Entry> {
  await link.query(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = ${entryLockMsMax}`, 2);
  await migrate(link, step);
  const born = await settleMeta(link, me.cluster);
  const [[raised] = []] = await link.rows(
    `INSERT INTO ${schema}.replica AS r (id, epoch, last_turn, clock) VALUES (${textValue(me.replica)}, 1, 0, 0)
     ON CONFLICT (id) DO UPDATE SET epoch = r.epoch + 1 RETURNING epoch`,
  );
  const epoch = Number(raised);
  // Waits for a commit of the older epoch that is under way and sees what it wrote; one that comes later finds its lane gone.
  await link.query(
    `WITH gone AS (DELETE FROM ${schema}.lane WHERE replica = ${textValue(me.replica)} RETURNING last_turn, clock)
     UPDATE ${schema}.replica r SET last_turn = greatest(r.last_turn, g.last_turn), clock = greatest(r.clock, g.clock)
     FROM (SELECT max(last_turn) AS last_turn, max(clock) AS clock FROM gone) g WHERE r.id = ${textValue(me.replica)};
     INSERT INTO ${schema}.lane (replica, lane, epoch, last_turn, clock)
     SELECT id, n, ${epoch}, 0, clock FROM ${schema}.replica, generate_series(0, ${lanes - 1}) n WHERE id = ${textValue(me.replica)};
     DELETE FROM ${schema}.mail WHERE replica = ${textValue(me.replica)} AND epoch < ${epoch}`,
    3,
  );
  const [[lastTurn] = []] = await link.rows(`SELECT last_turn FROM ${schema}.replica WHERE id = ${textValue(me.replica)}`);
  await link.query("COMMIT", 1);
  return { epoch, lastTurn: Number(lastTurn), born };
}

/** The cluster's name is written once and compared ever after. */
async function settleMeta(link: Link, given: string): Promise<number> {
  await link.query(
    `INSERT INTO ${schema}.meta (name, value) VALUES ('cluster', ${textValue(given)}),
       ('born', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text) ON CONFLICT (name) DO NOTHING`,
    1,
  );
  const meta = new Map(
    (await link.rows(`SELECT name, value FROM ${schema}.meta`)).map(([name, value]) => [String(name), String(value)]),
  );
  const cluster = meta.get("cluster");
  if (cluster !== given)
    throw fault("E.STORE.OPEN", `${link.place} belongs to cluster ${cluster}, not to ${given}`, {
      place: link.place,
      cluster,
      given,
    });
  return Number(meta.get("born"));
}
