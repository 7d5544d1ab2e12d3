// The stores' entrance.
export type { KeptRows } from "./common/kept-rows.ts";
export type { ClockSource } from "./common/slewed-clock.ts";
export {
  MemoryCluster,
  type MemoryClusterOptions,
  type SimulatedCommitOutcome,
  type StoreMutant,
  type StorePausePoint,
} from "./memory/cluster.ts";
export { PostgresReader } from "./postgres/reader/reader.ts";
export { inspectPostgres, inspectPostgresRows, type PostgresInspection } from "./postgres/setup/inspection.ts";
export { openPostgres, type PostgresOptions, type PostgresStore, postgresFailpoints } from "./postgres/store.ts";
export { backupSqlite, type SqliteBackup } from "./sqlite/file/backup.ts";
export { sqliteFailpoints } from "./sqlite/file/connection.ts";
export { repairSqlite, type StoreRepair } from "./sqlite/file/damage-check.ts";
export { lockDatabase } from "./sqlite/file/database-lock.ts";
export { inspectSqlite, type SqliteInspection } from "./sqlite/file/inspection.ts";
export { SqliteReader } from "./sqlite/reader/reader.ts";
export { openSqlite, type SqliteOptions, type SqliteStore } from "./sqlite/store.ts";
