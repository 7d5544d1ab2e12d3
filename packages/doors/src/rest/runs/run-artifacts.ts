// What the nodes of a run left with their workers, over all of its tasks, however many pages those are.

import type { Reader, RunDetail, TaskRow } from "@astraflow/engine";
import type { RunArtifact } from "@astraflow/protocol";
import { planOfText } from "../../plans.ts";
import { type NodeContext, viewTasks } from "./view-nodes.ts";

/** Tasks read at once, and in all for one answer. */
const artifactLimits = { tasksPage: 1_000, pagesMax: 20 } as const;

export interface ArtifactPage {
  readonly items: RunArtifact[];
  /** The last task that was looked at; null: there are no more. */
  readonly next: string | null;
}

/** At least `limit` of them where there are so many: what one task left is never torn apart. */
export async function readArtifacts(
  reader: Reader,
  { run, workflow }: Pick<RunDetail, "run" | "workflow">,
  contextOf: (tasks: readonly TaskRow[]) => Promise<NodeContext>,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<ArtifactPage> {
  const plan = planOfText(workflow);
  const items: RunArtifact[] = [];
  // Names of workers are read once, when the first task has one.
  let context: NodeContext | null = null;
  let from = after;
  for (let pages = 0; pages < artifactLimits.pagesMax; pages++) {
    const page = await reader.page({
      page: "tasks",
      tenant: run.tenant,
      run: run.id,
      limit: artifactLimits.tasksPage,
      ...(from !== undefined && { after: from }),
    });
    if (context === null || context.workers.size === 0) context = await contextOf(page.items);
    for (const node of viewTasks(plan, page.items, context)) {
      items.push(...artifactsOf(node));
      const isLast = node.taskId === page.items.at(-1)?.id && page.next === null;
      if (items.length >= limit) return { items, next: isLast ? null : node.taskId };
    }
    if (page.next === null) return { items, next: null };
    from = page.next;
  }
  return { items, next: from ?? null };
}

/** Each with the node that left it. */
export const artifactsOf = ({
  nodeId,
  artifacts = [],
}: {
  readonly nodeId: string;
  readonly artifacts?: readonly RunArtifact[];
}): RunArtifact[] => artifacts.map((one) => ({ ...one, nodeId }));
