// What tests of the whole house use of the doors: made-up outsides, rows and benches. Never imported by the product.

export { createManifestNotes } from "./manifests.ts";
export { createFakeOutside, type FakeOutside } from "./testing/fake-outside.ts";
export { manifestOf } from "./testing/manifest.ts";
export { cheapCost } from "./testing/rest-scene.ts";
export { openWorkflowBench, type WorkflowBench } from "./testing/workflow-bench.ts";
