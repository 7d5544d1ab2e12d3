// What tests of the whole house use of the doors: made-up outsides, rows and benches. Never imported by the product.

export { createManifestRecorder } from "./packages/manifest-recorder.ts";
export { createFakeEnvironment, type FakeEnvironment } from "./testing/fake-environment.ts";
export { cheapPasswordCost } from "./testing/rest-fixture.ts";
export { sampleManifest } from "./testing/sample-manifest.ts";
export { openWorkflowFixture, type WorkflowFixture } from "./testing/workflow-fixture.ts";
