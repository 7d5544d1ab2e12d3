// A look at a server before anything is trusted to it, for people: what it promises, what is in the database, who was there. One
// connection, reads only; nothing is made or changed, and nothing is refused that an opening would refuse.

import { type Fault, fault } from "@astraflow/protocol";
import { parsePostgresUrl } from "../connection/address.ts";
import { PostgresConnection, redactedMessage } from "../connection/connection.ts";
import { schemaName } from "../sql/tables.ts";
import { readVersion, schemaVersion } from "./migrations.ts";

export interface PostgresInspection {
  /** As `SHOW server_version` answers. */
  readonly version: string;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  /** In recovery: it follows another server and takes no writes. */
  readonly isReplica: boolean;
  /** Null where no scheduler has been. */
  readonly schema: number | null;
  /** The schema this version would make. */
  readonly schemaKnown: number;
  readonly cluster: string | null;
  /** The server's wall clock. */
  readonly clockMs: number;
  /** Schedulers that were here; `seenAt` by the store's clock. */
  readonly replicas: readonly { readonly name: string; readonly epoch: number; readonly seenAt: number | null }[];
}

/** Throws E.STORE.OPEN where nobody answers or the server says no; its message never holds the password. */
export async function inspectPostgres(options: { readonly url: string }): Promise<PostgresInspection> {
  const address = parsePostgresUrl(options.url);
  let connection: PostgresConnection | null = null;
  try {
    connection = await PostgresConnection.connect(address, null);
    return await inspectServer(connection);
  } catch (error) {
    throw inspectionFault(address.label, redactedMessage(address, error), error);
  } finally {
    await connection?.close();
  }
}

async function inspectServer(connection: PostgresConnection): Promise<PostgresInspection> {
  const [[version, fsync, fullPageWrites, synchronousCommit, isReplica, clock] = []] = await connection.queryRows(
    `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'),
       current_setting('synchronous_commit'), pg_is_in_recovery(), floor(extract(epoch FROM clock_timestamp()) * 1000)::text`,
  );
  const found = await readVersion(connection);
  // A newer program may have other tables; only what this one knows is read.
  const isKnown = found > 0 && found <= schemaVersion;
  const [[cluster] = []] = isKnown
    ? await connection.queryRows(`SELECT value FROM ${schemaName}.meta WHERE name = 'cluster'`)
    : [];
  const replicas = isKnown
    ? await connection.queryRows(
        `SELECT r.id, r.epoch, greatest(r.clock, max(l.clock)) FROM ${schemaName}.replica r
         LEFT JOIN ${schemaName}.lane l ON l.replica = r.id GROUP BY r.id ORDER BY r.id`,
      )
    : [];
  return {
    version: String(version),
    fsync: String(fsync),
    fullPageWrites: String(fullPageWrites),
    synchronousCommit: String(synchronousCommit),
    isReplica: isReplica === true,
    schema: found === 0 ? null : found,
    schemaKnown: schemaVersion,
    cluster: cluster === undefined ? null : String(cluster),
    clockMs: Number(clock),
    replicas: replicas.map(([name, epoch, seenAt]) => ({
      name: String(name),
      epoch: Number(epoch),
      seenAt: Number(seenAt) === 0 ? null : Number(seenAt),
    })),
  };
}

function inspectionFault(place: string, why: string, cause: unknown): Fault {
  const words = why.includes(place) ? why : `${place} could not be inspected: ${why}`;
  return fault("E.STORE.OPEN", words, { place }, cause);
}
