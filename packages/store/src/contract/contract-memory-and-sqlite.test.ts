import { describeStoreContract } from "./contract.ts";
import { createMemoryFixture, createSqliteFixture } from "./fixtures/memory-and-sqlite-fixtures.ts";

describeStoreContract("memory, strong", () => createMemoryFixture("strong"));
describeStoreContract("memory, weak", () => createMemoryFixture("weak"));
describeStoreContract("sqlite", () => createSqliteFixture());
describeStoreContract("sqlite with a cache too small for any turn, and indexes that are always behind", () =>
  createSqliteFixture({ cacheRows: 1, unindexedRunsMax: 3, searchedRows: 1, unindexedLogRowsMax: 2 }),
);
