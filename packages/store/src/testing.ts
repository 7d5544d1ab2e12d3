// What other packages' tests need of the stores: the contract, its cases, and the stages to run it on.
export { Hand, onStage } from "./contract/hand.ts";
export type { ContractCase, MakeStage, Stage } from "./contract/stage.ts";
export { HandClock, memoryStage, sqliteStage } from "./contract/stages.ts";
export { contractCases, storeContract } from "./contract/suite.ts";
