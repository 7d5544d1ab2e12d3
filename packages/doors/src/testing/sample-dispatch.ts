// Sample effects of the engine, for tests that need only a few of their fields.

import type { SendDispatch } from "@astraflow/engine";

export function sampleDispatch(
  session: string,
  task: string,
  fence: number,
  more: Partial<SendDispatch["dispatch"]> = {},
): SendDispatch {
  const run = task.slice(0, task.indexOf("."));
  return {
    type: "dispatch",
    session,
    worker: "default/w-1",
    tenant: "default",
    dispatch: {
      id: `${task}#${fence}`,
      run,
      task,
      node: "n-1",
      nodeType: "demo.noop",
      packageName: "demo",
      packageVersion: "1.0.0",
      params: '{"text":"hi"}',
      fence,
      attempt: 1,
      timeoutMs: null,
      concurrencyKey: `${run}:n-1`,
      priority: 5,
      ...more,
    },
  };
}
