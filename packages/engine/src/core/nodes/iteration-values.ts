// What an iteration offers to the nodes inside, read from rows: its container's parameters, its item and index, the outputs before.

import type { IterationScope } from "@astraflow/graph";
import { LruMap } from "@astraflow/protocol";
import type { RunRow, TaskId, TaskRow } from "../../storage/rows.ts";
import { containerPath, type TaskPath, taskIdAt } from "../rows/task-path.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Parameters in the row of an iteration. */
interface IterationParams {
  readonly index: number;
  readonly item?: unknown;
  readonly last?: unknown;
}

export const iterationParamsText = (values: IterationParams): string => JSON.stringify(values);

export class IterationValues implements IterationScope {
  readonly #work: UnitOfWork;
  readonly #run: RunRow;
  readonly #scope: TaskPath;
  #parsed: IterationParams | null = null;

  constructor(work: UnitOfWork, run: RunRow, scope: TaskPath) {
    this.#work = work;
    this.#run = run;
    this.#scope = scope;
  }

  get parameters(): unknown {
    return readContainerParams(this.#work.existingTask(taskIdAt(this.#run.id, containerPath(this.#scope))));
  }
  get item(): unknown {
    return this.#values.item;
  }
  get index(): number {
    return this.#values.index;
  }
  get last(): unknown {
    return this.#values.last ?? {};
  }

  get #values(): IterationParams {
    this.#parsed ??= JSON.parse(this.#work.existingTask(taskIdAt(this.#run.id, this.#scope)).params ?? "{}") as IterationParams;
    return this.#parsed;
  }
}

/** Parsed lists of containers: one of thousands of items would otherwise be parsed again for each of them. */
const parsedParams = new LruMap<TaskId, { readonly text: string; readonly value: unknown }>({
  entriesMax: 16,
  weightMax: 16 * 1024 * 1024,
  weightOf: ({ text }) => text.length,
  touchOnGet: false,
});

/** The parameters of a container's row. */
export function readContainerParams(row: TaskRow): unknown {
  const text = row.params ?? "{}";
  const known = parsedParams.get(row.id);
  if (known?.text === text) return known.value;
  const value = JSON.parse(text) as unknown;
  parsedParams.set(row.id, { text, value });
  return value;
}
