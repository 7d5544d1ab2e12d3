// Fakes and fixtures of the doors for tests of other packages. Never imported by the product.

export { cheapPasswordCost } from "./testing/rest-fixture.ts";
export { openWorkflowFixture, type WorkflowFixture } from "./testing/workflow-fixture.ts";
