// What tests of the whole house use of the doors: made-up outsides, rows and benches. Never imported by the product.

export { createManifestRecorder } from "./manifests.ts";
export { createFakeEnvironment, type FakeEnvironment } from "./testing/fake-outside.ts";
export { sampleManifest } from "./testing/manifest.ts";
export { cheapPasswordCost } from "./testing/rest-scene.ts";
export { openWorkflowFixture, type WorkflowFixture } from "./testing/workflow-bench.ts";
