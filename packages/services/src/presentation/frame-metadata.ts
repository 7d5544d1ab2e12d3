// What dashboards of the field read in the metadata of a node: the chain around it and the frame that it stands in. Beside the fields of our own. Pure.

import { lastStep, nodeAt } from "@astraflow/engine";
import type { JsonObject, RunNodeStatus } from "@astraflow/protocol";
import type { CompiledDefinition } from "./plan-cache.ts";

/** `holder`: the path of the iteration that the node stands in, or of the iteration itself; empty at the top level. */
export function chainAndFrameMetadata(
  definition: CompiledDefinition,
  holder: string,
  { middlewares }: Pick<RunNodeStatus, "middlewares">,
): JsonObject {
  const frame = holder === "" ? null : frameOf(definition, holder);
  return { ...(middlewares !== undefined && { middlewares }), ...(frame !== null && { __frame: frame }) };
}

function frameOf({ plan, workflowId, subgraphNames }: CompiledDefinition, holder: string): JsonObject | null {
  const steps = holder.split("/");
  let frameId = workflowId;
  let containerNodeId = "";
  const aliasChain: string[] = [];
  for (const depth of steps.keys()) {
    const path = steps.slice(0, depth + 1).join("/");
    const node = nodeAt(plan, path);
    if (node === null || node.container === null) return null;
    const { subgraph } = node.container;
    const number = lastStep(path).iteration ?? 0;
    // In the field a container runs once; only the frames of later iterations need something to tell them apart.
    frameId += `::${node.id}::${subgraph}${number === 0 ? "" : `#${number}`}`;
    containerNodeId = node.id;
    aliasChain.push(subgraph);
  }
  const subgraphId = aliasChain.at(-1) ?? "";
  return { frameId, containerNodeId, subgraphId, aliasChain, subgraphName: subgraphNames.get(subgraphId) ?? subgraphId };
}
