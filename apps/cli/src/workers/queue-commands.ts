// `astra queues list|show`: waiting tasks by what they need, with the workers that could take them.

import type { QueueList } from "@astraflow/protocol";
import { type CommandContext, printItem, printList, type TextInput } from "../api/command-context.ts";
import { type FilterFlags, matchesEveryWord, resolveFilter } from "../lookup/list-filters.ts";
import { findByNameOrId } from "../lookup/name-lookup.ts";
import type { ExitCode } from "../output/cli-failure.ts";
import { formatCount, formatPairs, formatTimeSpan } from "../output/format.ts";
import { formatTextTable } from "../output/table.ts";

type Queue = QueueList["items"][number];

export const formatWaitingCount = ({ waiting, isPartial }: Queue): string => `${waiting}${isPartial ? "+" : ""}`;
export const formatOldestWait = ({ oldestWaitMs }: Queue): string =>
  oldestWaitMs === undefined ? "" : formatTimeSpan(oldestWaitMs);

export async function listQueues(context: CommandContext, flags: FilterFlags & { limit?: number }): Promise<ExitCode> {
  const line = await resolveFilter(flags, "queues", context);
  const list = await context.client.listQueues();
  const fits = ({ needs, queue }: Queue): boolean =>
    (line.package === undefined || [needs.package, `${needs.package}@${needs.version}`].includes(line.package)) &&
    (line.pool === undefined || needs.pool === line.pool) &&
    (line.worker === undefined || needs.worker === line.worker) &&
    matchesEveryWord(line.text, `${queue} ${needs.nodeType} ${needs.package}`);
  const items = list.items.filter(fits).slice(0, flags.limit);
  return printList<Queue>(
    context,
    { ...list, items },
    {
      id: ({ queue }) => queue,
      columns: [
        { header: "NODE TYPE", value: ({ needs }) => needs.nodeType, isKept: true },
        { header: "PACKAGE", value: ({ needs }) => `${needs.package}@${needs.version}` },
        { header: "WAITING", value: formatWaitingCount, isKept: true },
        { header: "OLDEST", value: formatOldestWait },
        {
          header: "FIT",
          value: ({ workers }) => String(workers.fitting),
          isKept: true,
          color: ({ workers }) => (workers.fitting ? null : "red"),
        },
        { header: "BLOCKED", value: ({ workers }) => formatPairs(workers.blocked) },
        { header: "POOL", value: ({ needs }) => needs.pool ?? "", isWide: true },
        { header: "TAGS", value: ({ needs }) => formatPairs(needs.tags ?? {}), isWide: true },
        { header: "WORKER", value: ({ needs }) => needs.worker ?? "", isWide: true },
        { header: "QUEUE", value: ({ queue }) => queue, isWide: true },
      ],
      emptyMessage:
        Object.keys(line).length > 0 ? "No queue matches the filter. Show all with: astra queues" : "No tasks are waiting.",
    },
  );
}

/** Shows a queue by its id, node type or the beginning of either. A queue exists only while tasks wait in it. */
export async function showQueue(context: CommandContext, { queue: nameOrId }: TextInput<"queue">): Promise<ExitCode> {
  const { items, asOf } = await context.client.listQueues();
  const named = items.map((one) => ({ id: one.queue, name: one.needs.nodeType, queue: one }));
  const { queue } = findByNameOrId(nameOrId, named, "queue", "astra queues list");
  const { needs, workers } = queue;
  const blocked = Object.entries(workers.blocked).map(([code, count]) => [`  ${code}`, String(count)]);
  const about = [
    ["queue", queue.queue],
    ["node type", needs.nodeType],
    ["package", `${needs.package}@${needs.version}`],
    ["pool", needs.pool ?? "-"],
    ["tags", formatPairs(needs.tags ?? {}) || "-"],
    ["worker", needs.worker ?? "any"],
    ["waiting", formatWaitingCount(queue)],
    ["oldest", formatOldestWait(queue) || "-"],
    ["could take it", formatCount(workers.fitting, "worker")],
  ];
  const lines = [...formatTextTable(about), ...(blocked.length > 0 ? ["cannot take it now:", ...formatTextTable(blocked)] : [])];
  const hint = workers.fitting === 0 && `next: astra workers list --filter package:${needs.package}`;
  return printItem(context, { ...queue, asOf }, lines, hint);
}
