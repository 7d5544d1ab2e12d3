// Collects the outputs of all iterations of a list, in the order of the list, as one result. Reads a limited number of rows per
// turn and ignores failed tries. What becomes of the result is decided in containers.ts.

import type { HostingTask } from "../../storage/rows.ts";
import { loadTasks } from "../nodes/end-host-task.ts";
import type { RunProgress } from "../nodes/run-progress.ts";
import { iterationPath, taskIdAt, taskPathOf } from "../rows/task-path.ts";
import type { LoopState } from "../rows/task-state.ts";
import { iterationStateOf } from "./iterations.ts";
import { resultBytesMax } from "./outcome.ts";

export type CollectedOutputs =
  | { readonly result: string }
  /** There are more rows than a turn may read. */
  | { readonly loop: LoopState }
  | "too large";

export function collectOutputs(progress: RunProgress, row: HostingTask, loop: LoopState): CollectedOutputs {
  const { work, run } = progress;
  const from = loop.gathered ?? 0;
  const to = Math.min(loop.frames, from + work.settings.sweepTasksMax);
  const items: (string | null)[] = [...(loop.items ?? Array.from({ length: loop.count }, () => null))];
  const ids = Array.from({ length: to - from }, (_, at) => taskIdAt(run.id, iterationPath(taskPathOf(row), from + at)));
  for (const iteration of loadTasks(work, ids))
    if (iteration?.phase === "succeeded") items[iterationStateOf(iteration).index] = iteration.result;
  const bytes = items.reduce((sum, item) => sum + Buffer.byteLength(item ?? "") + 1, 0);
  if (bytes > resultBytesMax) return "too large";
  if (to < loop.frames) return { loop: { ...loop, gathered: to, items } };
  // Each output is a JSON text already: read and written again it would be the same text.
  return { result: `{"items":[${items.map((item) => item ?? "null").join(",")}],"count":${loop.count}}` };
}
