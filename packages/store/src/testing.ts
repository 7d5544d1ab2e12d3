// What other packages' tests need of the stores: the contract, its cases, the stages to run it on, and servers for them.

export { contractCases, describeStoreContract } from "./contract/contract.ts";
export { createMemoryFixture, createSqliteFixture, ManualClock } from "./contract/fixtures/memory-and-sqlite-fixtures.ts";
export { createPostgresFixture, type PostgresFixtureOptions } from "./contract/fixtures/postgres-fixture.ts";
export { StoreClient, withFixture } from "./contract/fixtures/store-client.ts";
export type { ContractCase, MakeStoreFixture, StoreFixture } from "./contract/fixtures/store-fixture.ts";
export { type Pgbouncer, startPgbouncer } from "./contract/servers/pgbouncer.ts";
export { type PostgresServer, type PostgresServerOptions, startPostgres } from "./contract/servers/postgres-server.ts";
