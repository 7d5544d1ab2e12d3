// Fakes and sample rows for tests of this package and of those above it. Never imported by the product.

export { createAwaitableQueue } from "./testing/awaitable-queue.ts";
export { createFakeDocumentStore, type FakeDocumentStore, type FakeDocumentStoreOptions } from "./testing/fake-document-store.ts";
export { createFakeEngine, type FakeEngine, joinAnswer } from "./testing/fake-engine.ts";
export { createFakeEnvironment, type FakeEnvironment } from "./testing/fake-environment.ts";
export { forgeUserTokens } from "./testing/forged-tokens.ts";
export { sampleDigest } from "./testing/sample-digest.ts";
export { sampleGrant } from "./testing/sample-grant.ts";
export { sampleManifest } from "./testing/sample-manifest.ts";
export { createFakeReader, nodeIds, runRow, sampleChain, taskRow, workerRow } from "./testing/sample-rows.ts";
