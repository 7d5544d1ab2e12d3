// The stores' entrance.
export type { ClockSource } from "./clock.ts";
export {
  createMemoryCluster,
  type MemoryCluster,
  type MemoryClusterOptions,
  type SimulatedCommitOutcome,
  type StoreMutant,
  type StorePausePoint,
} from "./memory/cluster.ts";
export { inspectPostgres, type PostgresInspection } from "./postgres/inspection.ts";
export { type PostgresOptions, type PostgresStore, postgresFailpoints } from "./postgres/options.ts";
export { openPostgresReader } from "./postgres/reader.ts";
export { openPostgres } from "./postgres/store.ts";
export { sqliteFailpoints } from "./sqlite/connection.ts";
export { openSqliteReader } from "./sqlite/reader.ts";
export { openSqlite, type SqliteOptions, type SqliteStore } from "./sqlite/store.ts";
