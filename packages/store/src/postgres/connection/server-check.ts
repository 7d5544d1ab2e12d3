// What a server must promise before it is trusted with turns, asked on every new connection: after a failover it may be another one.

import { fault } from "@astraflow/protocol";
import type { PostgresConnection } from "./connection.ts";

/** The oldest server whose functions and row locks these statements use and are tested with. */
const versionMin = 140_000;

export async function checkServer(connection: PostgresConnection): Promise<void> {
  const { label: place } = connection;
  const [[version, encoding, fsync, synchronous, isStandby] = []] = await connection.queryRows(
    `SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'), current_setting('fsync'),
       current_setting('synchronous_commit'), pg_is_in_recovery()`,
  );
  if (Number(version) < versionMin)
    throw fault("E.STORE.OPEN", `${place} is PostgreSQL ${String(version)}; version ${versionMin / 10_000} or newer is needed`, {
      place,
    });
  if (encoding !== "UTF8")
    throw fault("E.STORE.OPEN", `${place} has encoding ${String(encoding)}; create the database with ENCODING 'UTF8'`, { place });
  if (isStandby === true)
    throw fault("E.STORE.OPEN", `${place} is a standby and takes no writes; use the address of the primary`, { place });
  if (fsync !== "on")
    throw durabilityFault(place, "fsync", String(fsync), "set it to on in postgresql.conf and restart the server");
  checkSynchronousCommit(place, String(synchronous));
}

/** `local` and `remote_write` answer before a standby that the operator asked for has the data on disk; `off` before anybody has. */
function checkSynchronousCommit(place: string, setting: string): void {
  if (setting !== "on" && setting !== "remote_apply")
    throw durabilityFault(
      place,
      "synchronous_commit",
      setting,
      "set it to on for this database (ALTER DATABASE … SET synchronous_commit = on) and for its role",
    );
}

function durabilityFault(place: string, setting: string, value: string, advice: string) {
  return fault("E.STORE.DURABILITY", `${place} has ${setting} = ${value}, so an acknowledged change could be lost; ${advice}`, {
    place,
    setting,
    value,
  });
}
