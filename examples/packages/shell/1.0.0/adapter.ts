// The nodes of the package: one program, or several connected by pipes. Which ones may be started decides the worker's operator; arguments are
// a list that no shell reads, so that a value from an edge stays one argument, whatever is in it.

import type { HandlerContext } from "@astraflow/sdk";
import { type Program, runPrograms } from "./program-run.ts";

interface SharedParams {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly maxOutputBytes?: number;
}

const defaults = { timeoutMs: 60_000, outputBytes: 1024 * 1024 } as const;

const readOptions = ({ stdin, env, timeoutMs, maxOutputBytes }: SharedParams) => ({
  stdin: stdin ?? "",
  env: env ?? {},
  timeoutMs: timeoutMs ?? defaults.timeoutMs,
  outputBytesMax: maxOutputBytes ?? defaults.outputBytes,
});

export async function run(ctx: HandlerContext) {
  const params = ctx.params as unknown as SharedParams & Program;
  const { exitCodes, ...printed } = await runPrograms(ctx, [params], readOptions(params));
  return { exitCode: exitCodes[0], ...printed };
}

export async function pipe(ctx: HandlerContext) {
  const params = ctx.params as unknown as SharedParams & { readonly programs: readonly Program[] };
  return runPrograms(ctx, params.programs, readOptions(params));
}
