// `astra queues list|show`: waiting tasks by what they need, with the workers that could take them.

import type { QueueList } from "@astraflow/protocol";
import { type CommandContext, printItem, printList } from "../api/command-context.ts";
import { type FilterFlags, resolveFilter } from "../lookup/list-filters.ts";
import { findByNameOrId } from "../lookup/name-lookup.ts";
import type { CliExitCode } from "../output/cli-failure.ts";
import { formatPairs, formatTimeSpan } from "../output/format.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

type Queue = QueueList["items"][number];

const formatWaitingCount = ({ waiting, isPartial }: Queue): string => `${waiting}${isPartial ? "+" : ""}`;
const formatOldestWait = ({ oldestWaitMs }: Queue): string => (oldestWaitMs === undefined ? "" : formatTimeSpan(oldestWaitMs));

export async function listQueues(
  flags: FilterFlags & { readonly limit?: number },
  context: CommandContext,
): Promise<CliExitCode> {
  const line = await resolveFilter(flags, "queues", context);
  const list = await context.client.listQueues();
  const texts = (line.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ needs, queue }: Queue): boolean =>
    (line.package === undefined || [needs.package, `${needs.package}@${needs.version}`].includes(line.package)) &&
    (line.pool === undefined || needs.pool === line.pool) &&
    (line.worker === undefined || needs.worker === line.worker) &&
    texts.every((text) => `${queue} ${needs.nodeType} ${needs.package}`.toLowerCase().includes(text));
  const items = list.items.filter(fits).slice(0, flags.limit);
  return printList(
    {
      items,
      jsonBody: { ...list, items },
      id: ({ queue }) => queue,
      columns: [
        { header: "NODE TYPE", value: ({ needs }) => needs.nodeType },
        { header: "PACKAGE", value: ({ needs }) => `${needs.package}@${needs.version}` },
        { header: "WAITING", value: formatWaitingCount },
        { header: "OLDEST", value: formatOldestWait },
        {
          header: "FIT",
          value: ({ workers }) => String(workers.fitting),
          color: ({ workers }) => (workers.fitting === 0 ? "red" : null),
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
    context,
  );
}

/** Shows a queue by its id, node type or the beginning of either. A queue exists only while tasks wait in it. */
export async function showQueue(nameOrId: string, context: CommandContext): Promise<CliExitCode> {
  const { items, asOf } = await context.client.listQueues();
  const named = items.map((one) => ({ id: one.queue, name: one.needs.nodeType, queue: one }));
  const { queue } = findByNameOrId(nameOrId, named, "queue", "astra queues list");
  const { needs, workers } = queue;
  const blocked = Object.entries(workers.blocked).map(([code, count]) => [`  ${code}`, String(count)]);
  const lines = [
    ...formatTable([
      ["queue", stripControlCharacters(queue.queue)],
      ["node type", stripControlCharacters(needs.nodeType)],
      ["package", stripControlCharacters(`${needs.package}@${needs.version}`)],
      ["pool", stripControlCharacters(needs.pool ?? "-")],
      ["tags", formatPairs(needs.tags ?? {}) || "-"],
      ["worker", stripControlCharacters(needs.worker ?? "any")],
      ["waiting", formatWaitingCount(queue)],
      ["oldest", formatOldestWait(queue) || "-"],
      ["could take it", `${workers.fitting} workers`],
    ]),
    ...(blocked.length > 0 ? ["cannot take it now:", ...formatTable(blocked)] : []),
  ];
  printItem({ ...queue, asOf }, lines, context);
  if (!context.json && workers.fitting === 0)
    context.terminal.info(`next: astra workers list --filter package:${stripControlCharacters(needs.package)}`);
  return 0;
}
