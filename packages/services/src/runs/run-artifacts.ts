// What the nodes of a run left with their workers, over all of its tasks, however many pages those are, and whether it can still be had.

import { type DocRow, type RunDetail, readTaskState, type StoreReader, type TaskRow } from "@astraflow/engine";
import type { RunArtifact, RunNodeStatus, RunSnapshot } from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";
import { type ArtifactStatus, type NodeViewContext, presentTasks } from "../presentation/node-view.ts";
import { cachedDefinitionOf } from "../presentation/plan-cache.ts";

/** Tasks read at once, and in all for one answer; documents of artifacts read at once. */
const artifactLimits = { tasksPage: 1_000, pagesMax: 20, docsPage: 500 } as const;

export interface ArtifactPage {
  readonly items: RunArtifact[];
  /** The last task that was looked at; null: there are no more. */
  readonly next: string | null;
}

export interface ArtifactQuery {
  readonly after?: string | undefined;
  readonly limit: number;
  /** Whether what is gone is listed too. */
  readonly isAll: boolean;
}

/** At least `limit` of them where there are so many: what one task left is never torn apart. */
export async function readArtifacts(
  reader: StoreReader,
  { run, workflow }: Pick<RunDetail, "run" | "workflow">,
  contextOf: (tasks: readonly TaskRow[]) => Promise<NodeViewContext>,
  { after, limit, isAll }: ArtifactQuery,
): Promise<ArtifactPage> {
  const items: RunArtifact[] = [];
  let from = after;
  for (let pages = 0; pages < artifactLimits.pagesMax; pages++) {
    const query = { page: "tasks", tenant: run.tenant, run: run.id, limit: artifactLimits.tasksPage } as const;
    const page = await reader.page({ ...query, ...(from !== undefined && { after: from }) });
    const tasksWithArtifacts = page.items.filter((task) => (readTaskState(task).artifacts ?? []).length > 0);
    const nodes =
      tasksWithArtifacts.length === 0
        ? []
        : presentTasks(cachedDefinitionOf(workflow), tasksWithArtifacts, await contextOf(tasksWithArtifacts));
    for (const node of nodes) {
      items.push(...artifactsOf(node).filter(({ status = "ready" }) => isAll || status === "ready"));
      const isLast = node.taskId === page.items.at(-1)?.id && page.next === null;
      if (items.length >= limit) return { items, next: isLast ? null : node.taskId };
    }
    if (page.next === null) return { items, next: null };
    from = page.next;
  }
  return { items, next: from ?? null };
}

/** Each with the node that left it. */
export const artifactsOf = ({ nodeId, artifacts = [] }: RunNodeStatus): RunArtifact[] =>
  artifacts.map((one) => ({ ...one, nodeId }));

type ArtifactStatusOf = NonNullable<NodeViewContext["fateOf"]>;

/** What became of the artifacts of these tasks: their documents are read, many at once. What came inline lives as long as its result. */
export async function readArtifactStatuses(reader: StoreReader, tenant: string, tasks: readonly TaskRow[], now: number) {
  const left = tasks.flatMap((task) => readTaskState(task).artifacts ?? []);
  const kept = left.filter((one) => one.inline !== true && one.removed === undefined);
  const names = [...new Set(kept.map(({ resource }) => resource))];
  const docs = new Map<string, DocRow>();
  for (let at = 0; at < names.length; at += artifactLimits.docsPage) {
    const part = names.slice(at, at + artifactLimits.docsPage);
    const { items } = await reader.page({ page: "doc", tenant, collection: "artifact", names: part });
    for (const [place, doc] of items.entries()) if (doc !== null) docs.set(part[place] ?? "", doc);
  }
  const statusOf: ArtifactStatusOf = ({ resource, inline, expiresAt, removed }, task) => {
    if (inline === true) return { status: "ready" };
    if (removed !== undefined) return goneStatus(removed);
    const doc = docs.get(resource);
    // Another task may have left something under the same name since: then this one's is no longer there.
    const isOwn = doc !== undefined && (JSON.parse(doc.body) as { task?: string }).task === task;
    // Each use makes it live on: its document knows until when.
    if (isOwn && (doc.due === null || doc.due > now))
      return { status: "ready", ...(doc.due !== null && { expiresAt: isoTime(doc.due) }) };
    return { status: isOwn || (expiresAt !== undefined && expiresAt <= now) ? "expired" : "removed" };
  };
  return statusOf;
}

const goneStatus = (reason: string): ArtifactStatus => ({
  status: reason === "expired" ? "expired" : "removed",
  removed: reason,
});

/** What the log had said of them by then. */
export const artifactStatusesAt =
  ({ removed }: Pick<RunSnapshot, "removed">): ArtifactStatusOf =>
  ({ resource }) => {
    const reason = removed.get(resource);
    return reason === undefined ? { status: "ready" } : goneStatus(reason);
  };
