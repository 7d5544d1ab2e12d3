import { memoryStage, sqliteStage } from "./stages.ts";
import { storeContract } from "./suite.ts";

storeContract("memory, strong", () => memoryStage("strong"));
storeContract("memory, weak", () => memoryStage("weak"));
storeContract("sqlite", () => sqliteStage());
storeContract("sqlite with a cache too small for any turn", () => sqliteStage({ cacheRows: 1 }));
