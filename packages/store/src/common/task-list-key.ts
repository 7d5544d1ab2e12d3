// The name of a list of tasks: two lists that ask for the same have the same, so that a turn answers both with one.

import type { TaskListQuery } from "@astraflow/engine";

export function taskListKey(list: TaskListQuery): string {
  switch (list.of) {
    case "open":
      return `open ${list.limit} ${list.run} ${list.after}`;
    case "held":
      return `held ${list.limit} ${list.worker}`;
    case "line":
      return `line ${list.limit} ${list.line}`;
    case "range":
      return `range ${list.limit} ${list.after} ${list.last}`;
  }
}
