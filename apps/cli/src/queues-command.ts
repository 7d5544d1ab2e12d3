// `astra queues list|show`: what waits for which kind of worker, who could take it, and what keeps the others from it.

import type { QueueList } from "@astraflow/protocol";
import type { ExitCode } from "./failure.ts";
import { type FilterWords, valuesOf } from "./filtering.ts";
import { pick } from "./finding.ts";
import { type Place, printList, printOne, span } from "./place.ts";
import { layTable, tame } from "./terminal.ts";
import { pairs } from "./why-words.ts";

type Queue = QueueList["items"][number];

const waitingOf = ({ waiting, isPartial }: Queue): string => `${waiting}${isPartial ? "+" : ""}`;
const oldestOf = ({ oldestWaitMs }: Queue): string => (oldestWaitMs === undefined ? "" : span(oldestWaitMs));

export async function listQueues(words: FilterWords & { readonly limit?: number }, place: Place): Promise<ExitCode> {
  const line = await valuesOf(words, "queues", place);
  const list = await place.client.listQueues();
  const texts = (line.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ needs, queue }: Queue): boolean =>
    (line.package === undefined || [needs.package, `${needs.package}@${needs.version}`].includes(line.package)) &&
    (line.pool === undefined || needs.pool === line.pool) &&
    (line.worker === undefined || needs.worker === line.worker) &&
    texts.every((text) => `${queue} ${needs.nodeType} ${needs.package}`.toLowerCase().includes(text));
  const items = list.items.filter(fits).slice(0, words.limit);
  return printList(
    {
      items,
      body: { ...list, items },
      id: ({ queue }) => queue,
      columns: [
        { head: "NODE TYPE", of: ({ needs }) => needs.nodeType },
        { head: "PACKAGE", of: ({ needs }) => `${needs.package}@${needs.version}` },
        { head: "WAITING", of: waitingOf },
        { head: "OLDEST", of: oldestOf },
        {
          head: "FIT",
          of: ({ workers }) => String(workers.fitting),
          tone: ({ workers }) => (workers.fitting === 0 ? "red" : null),
        },
        { head: "BLOCKED", of: ({ workers }) => pairs(workers.blocked) },
        { head: "POOL", of: ({ needs }) => needs.pool ?? "", isWide: true },
        { head: "TAGS", of: ({ needs }) => pairs(needs.tags ?? {}), isWide: true },
        { head: "WORKER", of: ({ needs }) => needs.worker ?? "", isWide: true },
        { head: "QUEUE", of: ({ queue }) => queue, isWide: true },
      ],
      none: Object.keys(line).length > 0 ? "No queue fits that filter. All of them: astra queues" : "Nothing waits.",
    },
    place,
  );
}

/** One of them, by its id, node type or the beginning of either. A queue is there only while something waits in it. */
export async function showQueue(word: string, place: Place): Promise<ExitCode> {
  const { items, asOf } = await place.client.listQueues();
  const named = items.map(({ queue, needs }) => ({ id: queue, name: needs.nodeType }));
  const { id } = pick(word, named, "queue", "astra queues list");
  const queue = items.find((one) => one.queue === id) as Queue;
  const { needs, workers } = queue;
  const blocked = Object.entries(workers.blocked).map(([code, count]) => [`  ${code}`, String(count)]);
  const lines = [
    ...layTable([
      ["queue", tame(queue.queue)],
      ["node type", tame(needs.nodeType)],
      ["package", tame(`${needs.package}@${needs.version}`)],
      ["pool", tame(needs.pool ?? "-")],
      ["tags", pairs(needs.tags ?? {}) || "-"],
      ["worker", tame(needs.worker ?? "any")],
      ["waiting", waitingOf(queue)],
      ["oldest", oldestOf(queue) || "-"],
      ["could take it", `${workers.fitting} workers`],
    ]),
    ...(blocked.length > 0 ? ["cannot take it now:", ...layTable(blocked)] : []),
  ];
  printOne({ ...queue, asOf }, lines, place);
  if (!place.json && workers.fitting === 0)
    place.terminal.say(`next: astra workers list --filter package:${tame(needs.package)}`);
  return 0;
}
