import { compilePlan } from "@astraflow/graph";
import type { RunNodeStatus, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createColors } from "../output/terminal.ts";
import { describeTaskPath } from "./run-tree.ts";
import { renderRun } from "./run-view.ts";

const uuid = (digit: number): string => `${String(digit).repeat(8)}-1111-4111-8111-111111111111`;
const workflowNode = (digit: number, label: string) => ({
  id: uuid(digit),
  type: "demo.noop",
  label,
  package: { name: "demo", version: "1.0.0" },
  position: { x: 0, y: 0 },
});

/** A list, a loop over it whose body has two nodes, and a host with two middlewares. */
const workflow = {
  id: uuid(9),
  schemaVersion: "2025-10",
  metadata: { name: "Nested" },
  nodes: [
    {
      ...workflowNode(1, "Each"),
      type: "workflow.container",
      role: "container",
      parameters: { __container: { subgraphId: "body", loop: { mode: "map", items: [1, 2, 3] } } },
    },
    { ...workflowNode(2, "Host"), middlewares: [workflowNode(3, "Outer"), workflowNode(4, "Inner")] },
  ],
  edges: [],
  subgraphs: [
    {
      id: "body",
      definition: {
        id: uuid(8),
        schemaVersion: "2025-10",
        metadata: { name: "Body" },
        nodes: [workflowNode(5, "First"), workflowNode(6, "Second")],
        edges: [],
      },
    },
  ],
} as unknown as Workflow;
const plan = compilePlan(workflow);

const task = (slot: string, status: RunNodeStatus["status"], more: Partial<RunNodeStatus> = {}): RunNodeStatus => ({
  nodeId: "n",
  taskId: `r.${slot}`,
  status,
  ...more,
});
const options = { paint: createColors(false), columns: 200, now: 0, url: "http://s", plan };
const renderTree = (nodes: RunNodeStatus[], rows?: number): string[] =>
  renderRun({ runId: "r", status: "running", definitionHash: "h", clientId: "c", nodes }, workflow, {
    ...options,
    ...(rows !== undefined && { rows }),
  }).map((line) => line.replace(/ +$/, ""));

describe("the tree of a run", () => {
  it("[L15] the run tree shows iterations and their nodes below their container, and counts them on its line", () => {
    const lines = renderTree([
      task("0", "running"),
      task("0*0/0", "succeeded"),
      task("0*0/1", "succeeded"),
      task("0*1/0", "running", { state: { progress: 0.2 } }),
    ]);

    expect(lines[0]).toMatch(/^◔ {2}Each +running · 1 of 2/);
    expect(lines.slice(1, 7).map((line) => line.slice(0, 14).trimEnd())).toEqual([
      "  ✓  #0",
      "    ✓  First",
      "    ✓  Second",
      "  ◔  #1",
      "    ◔  First",
      "    ◌  Second",
    ]);
    expect(lines[5]).toContain("20 %");
  });

  it("[L15] the run tree shows middlewares and further calls below their host", () => {
    const [outer, inner] = plan.nodes[1]?.chain ?? [];
    const lines = renderTree([
      task("1", "running"),
      task(`${outer}`, "running"),
      task(`${inner}~1`, "failed"),
      task(`${inner}~2`, "running"),
      task("1~1", "succeeded"),
      task("1~2", "running"),
    ]);

    expect(lines.slice(1, 6).map((line) => line.slice(0, 12).trimEnd())).toEqual([
      "◔  Host",
      "  ◔  Outer",
      "  ◔  Inner",
      "  ✓  call 1",
      "  ◔  call 2",
    ]);
  });

  it("[L15] the run tree counts what does not fit on the screen, and shows running and failed nodes before done and waiting ones", () => {
    const nodes = [task("0", "running")];
    for (let frame = 0; frame < 40; frame += 1) nodes.push(task(`0*${frame}`, "succeeded"), task(`0*${frame}/0`, "succeeded"));
    nodes.push(task("0*39/1", "failed", { error: { code: "E.X", message: "bad" } }));

    const lines = renderTree(nodes, 10);

    expect(lines.length).toBeLessThanOrEqual(10);
    expect(lines[0]).toMatch(/Each/);
    expect(lines.join("\n")).toMatch(/✕ {2}Second.*E\.X: bad/);
    expect(lines.at(-2)).toMatch(/^… {2}\d+ more done, \d+ more wait$/);
  });

  it("[L15] a change of a nested task is printed with the path to it", () => {
    const [, inner] = plan.nodes[1]?.chain ?? [];

    expect(describeTaskPath(plan, "0*2/1")).toBe("Each › #2 › Second");
    expect(describeTaskPath(plan, "1~2")).toBe("Host › call 2");
    expect(describeTaskPath(plan, `${inner}~1`)).toBe("Host › Inner");
    expect(describeTaskPath(plan, "1")).toBe("Host");
  });
});
