import { describe, expect, it } from "vitest";
import { testContainer, testNode, testSubgraph, testWorkflow } from "../testing/workflow-fixtures.ts";
import { sizeLimits } from "./check-size.ts";
import { checkWorkflow } from "./check-workflow.ts";
import { type PackageCatalogue, resolveFromCatalogue } from "./package-catalogue.ts";

/** A package with one node type, whose schema counts how often it is written out. */
function catalogueWith(chars: number) {
  const counted = { written: 0 };
  const parameters = { type: "object", description: "d".repeat(chars) };
  Object.defineProperty(parameters, "toJSON", {
    value: () => {
      counted.written += 1;
      return { ...parameters };
    },
  });
  const catalogue: PackageCatalogue = {
    node: () => ({ schema: { parameters } }),
    versions: () => ["1.0.0"],
    names: ["demo"],
    isListed: () => true,
  };
  return { catalogue, counted };
}

const nodesOf = (count: number, first = 0) => Array.from({ length: count }, (_, at) => testNode(first + at));
const costlyPaths = (nodes: ReturnType<typeof nodesOf>, catalogue: PackageCatalogue, stepsMax?: number) =>
  checkWorkflow(resolveFromCatalogue(testWorkflow(nodes), catalogue), catalogue, { stepsMax })
    .filter(({ code }) => code === "E.WORKFLOW.TOO_COSTLY")
    .map(({ path }) => path);

describe("the size of a workflow with the schemas of its packages", () => {
  it("[G804] a workflow whose nodes get more schemas from the catalogue than it may have is refused at the node that is too much, and each schema is written once", () => {
    const { catalogue, counted } = catalogueWith(sizeLimits.describedCharsMax / 10);

    expect(costlyPaths(nodesOf(9), catalogue)).toEqual([]);
    expect(costlyPaths(nodesOf(1_000), catalogue)).toEqual(["/nodes/9/schema"]);
    expect(counted.written).toBe(1);
  });

  it("[G804] nodes in subgraphs and middlewares count as well", () => {
    const { catalogue } = catalogueWith(sizeLimits.describedCharsMax / 10);
    const subgraphs = [testSubgraph("a", testWorkflow(nodesOf(6, 100)))];
    const workflow = testWorkflow([testNode(0, { middlewares: nodesOf(5, 200) }), testContainer(1, { subgraphId: "a" })], [], {
      subgraphs,
    });

    const problems = checkWorkflow(resolveFromCatalogue(workflow, catalogue), catalogue);

    expect(problems.map(({ code }) => code)).toContain("E.WORKFLOW.TOO_COSTLY");
  });

  it("[G804] who may spend few steps is told so long before", () => {
    const { catalogue } = catalogueWith(50_000);

    expect(costlyPaths(nodesOf(50), catalogue)).toEqual([]);
    expect(costlyPaths(nodesOf(50), catalogue, 10_000)).not.toEqual([]);
    expect(costlyPaths(nodesOf(5), catalogue, 10_000)).toEqual([]);
  });
});
