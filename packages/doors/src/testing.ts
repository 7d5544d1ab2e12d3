// Fakes and fixtures of the doors for tests of other packages. Never imported by the product.

export { createManifestRecorder } from "./packages/manifest-recorder.ts";
export { createFakeEnvironment, type FakeEnvironment } from "./testing/fake-environment.ts";
export { cheapPasswordCost } from "./testing/rest-fixture.ts";
export { sampleManifest } from "./testing/sample-manifest.ts";
export { openWorkflowFixture, type WorkflowFixture } from "./testing/workflow-fixture.ts";
