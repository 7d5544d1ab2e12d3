// What tests of the whole house use of the doors: made-up outsides, rows and benches. Never imported by the product.

export { cheapPasswordCost } from "./testing/rest-fixture.ts";
export { openWorkflowFixture, type WorkflowFixture } from "./testing/workflow-fixture.ts";
