import { memoryStage, sqliteStage } from "./stages.ts";
import { storeContract } from "./suite.ts";

storeContract("memory, strong", () => memoryStage("strong"));
storeContract("memory, weak", () => memoryStage("weak"));
storeContract("sqlite", () => sqliteStage());
storeContract("sqlite with a cache too small for any turn, and indexes that are always behind", () =>
  sqliteStage({ cacheRows: 1, freshRuns: 3, searchedRows: 1, tailRows: 2 }),
);
