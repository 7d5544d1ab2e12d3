// What other packages' tests need of the stores: the contract, its cases, the stages to run it on, and servers for them.
export { Hand, onStage } from "./contract/hand.ts";
export { type Pgbouncer, startPgbouncer } from "./contract/pgbouncer.ts";
export { type PostgresServer, type PostgresServerOptions, startPostgres } from "./contract/postgres-server.ts";
export { type PostgresStageOptions, postgresStage } from "./contract/postgres-stage.ts";
export type { ContractCase, MakeStage, Stage } from "./contract/stage.ts";
export { HandClock, memoryStage, sqliteStage } from "./contract/stages.ts";
export { contractCases, storeContract } from "./contract/suite.ts";
