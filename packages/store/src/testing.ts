// What other packages' tests need of the stores: the contract, its cases, the stages to run it on, and servers for them.
export { StoreClient, withFixture } from "./contract/hand.ts";
export { type Pgbouncer, startPgbouncer } from "./contract/pgbouncer.ts";
export { type PostgresServer, type PostgresServerOptions, startPostgres } from "./contract/postgres-server.ts";
export { createPostgresFixture, type PostgresFixtureOptions } from "./contract/postgres-stage.ts";
export type { ContractCase, MakeStoreFixture, StoreFixture } from "./contract/stage.ts";
export { createMemoryFixture, createSqliteFixture, ManualClock } from "./contract/stages.ts";
export { contractCases, describeStoreContract } from "./contract/suite.ts";
