// What a server promises and what is in its database, for people, before anything is trusted to it. Reads only, and refuses nothing.

import { fault } from "@astraflow/protocol";
import type { KeptRows } from "../../common/kept-rows.ts";
import { PostgresConnection, parsePostgresUrl, redactedMessage } from "../connection/connection.ts";
import { schemaName } from "../sql/tables.ts";
import { readVersion, schemaVersion } from "./replica-registration.ts";

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
export const inspectPostgres = (options: { readonly url: string }): Promise<PostgresInspection> =>
  withConnection(options.url, inspectServer);

/** What the first tenants by name keep; empty where no scheduler of a version that is known here has been. */
export const inspectPostgresRows = (url: string, tenantsMax: number): Promise<readonly KeptRows[]> =>
  withConnection(url, async (connection) => {
    const version = await readVersion(connection);
    if (version === 0 || version > schemaVersion) return [];
    const rows = await connection.queryRows(`${keptSql} LIMIT ${Math.trunc(tenantsMax)}`);
    return rows.map(([row]) => row as KeptRows);
  });

async function withConnection<T>(url: string, read: (connection: PostgresConnection) => Promise<T>): Promise<T> {
  const address = parsePostgresUrl(url);
  const { label: place } = address;
  let connection: PostgresConnection | null = null;
  try {
    connection = await PostgresConnection.connect(address);
    return await read(connection);
  } catch (error) {
    const why = redactedMessage(address, error);
    throw fault("E.STORE.OPEN", why.includes(place) ? why : `${place} could not be inspected: ${why}`, { place }, error);
  } finally {
    await connection?.close();
  }
}

const serverSql = `SELECT json_build_object('version', current_setting('server_version'), 'fsync', current_setting('fsync'),
  'fullPageWrites', current_setting('full_page_writes'), 'synchronousCommit', current_setting('synchronous_commit'),
  'isReplica', pg_is_in_recovery(), 'clockMs', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)`;
const clusterSql = `SELECT value FROM ${schemaName}.meta WHERE name = 'cluster'`;
const replicasSql = `SELECT r.id, r.epoch, greatest(r.clock, max(l.clock)) FROM ${schemaName}.replica r
  LEFT JOIN ${schemaName}.lane l ON l.replica = r.id GROUP BY r.id ORDER BY r.id`;

/** Of a tenant with more rows than this, so many are counted: an answer must not take minutes. */
const countMax = 1_000_000;
const countSql = (from: string): string =>
  `(SELECT count(*) FROM (SELECT 1 FROM ${schemaName}.${from} LIMIT ${countMax}) AS counted)`;
const keptSql = `SELECT json_build_object('tenant', t.id, 'head', t.position, 'floor', greatest(t.floor, t.removed),
  'runs', ${countSql("run WHERE tenant = t.id")},
  'endedRuns', ${countSql("run WHERE tenant = t.id AND phase IN ('succeeded', 'failed', 'cancelled')")},
  'oldestRunAt', (SELECT "createdAt" FROM ${schemaName}.run WHERE tenant = t.id ORDER BY id LIMIT 1),
  'keys', ${countSql("ask WHERE id > t.id || '/' AND id < t.id || '0'")},
  'goneWorkers', ${countSql("worker WHERE tenant = t.id AND phase IN ('lost', 'left')")})
  FROM ${schemaName}.tenant t ORDER BY t.id`;

async function inspectServer(connection: PostgresConnection): Promise<PostgresInspection> {
  const [[server] = []] = await connection.queryRows(serverSql);
  const version = await readVersion(connection);
  // A newer program may have other tables; only what this one knows is read.
  const isKnown = version > 0 && version <= schemaVersion;
  const [[cluster] = []] = isKnown ? await connection.queryRows(clusterSql) : [];
  const replicas = isKnown ? await connection.queryRows(replicasSql) : [];
  return {
    ...(server as PostgresInspection),
    schema: version === 0 ? null : version,
    schemaKnown: schemaVersion,
    cluster: cluster === undefined ? null : String(cluster),
    replicas: replicas.map(([name, epoch, seenAt]) => ({
      name: String(name),
      epoch: Number(epoch),
      seenAt: Number(seenAt) || null,
    })),
  };
}
