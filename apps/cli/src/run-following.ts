// Follows a run until it ends, whatever happens to the scheduler in between: looks at it again and again, draws it in a terminal,
// writes one line per change in a pipe, or hands on the facts as JSON lines. Stopping to look never stops the run.

import { setTimeout as pause } from "node:timers/promises";
import type { Run, RunEvent, Workflow } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, exitCodes } from "./failure.ts";
import { describeChanges, drawRun, isEnded } from "./run-picture.ts";
import { foldProgress, noProgress, type Progress, withProgress } from "./run-progress.ts";
import type { Terminal } from "./terminal.ts";

/** At most ten pictures a second. */
const lookMs = 100;
/** Between tries while nobody answers. */
const reconnectMs = 500;

export interface Following {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly view: "picture" | "facts" | "none";
  readonly signal: AbortSignal;
  now(): number;
}

export async function followRun(id: string, following: Following): Promise<Run> {
  const { client, terminal, view, signal } = following;
  const keep = <T>(ask: () => Promise<T>) => askUntilAnswered(ask, following);
  const workflow = await keep(() => client.definition(id));
  let seen: Run | null = null;
  let cursor: string | null = null;
  let progress: Progress = noProgress;
  for (;;) {
    const found: Run = await keep(() => client.run(id));
    // The run before its facts: once it has ended, the facts read after it are all there are.
    const facts: RunEvent[] = view === "none" ? [] : await keep(() => readFacts(client, id, cursor));
    cursor = cursorAfter(facts, cursor);
    progress = foldProgress(progress, facts);
    const run = withProgress(found, progress);
    if (view === "facts") for (const fact of facts) terminal.print(JSON.stringify({ cursor: String(fact.position), ...fact }));
    if (view === "picture") showPicture({ before: seen, run, workflow }, following);
    seen = run;
    if (isEnded(run)) break;
    await pause(lookMs, undefined, { signal });
  }
  terminal.settle();
  return seen;
}

function showPicture(look: { before: Run | null; run: Run; workflow: Workflow }, { client, terminal, now }: Following): void {
  if (terminal.isLive) {
    terminal.draw(
      drawRun(look.run, look.workflow, { paint: terminal.paint, columns: terminal.columns, now: now(), url: client.url }),
    );
  } else for (const line of describeChanges(look.before, look.run, look.workflow)) terminal.say(line);
}

/** All facts after a cursor, page by page. */
export async function readFacts(client: Client, id: string, after: string | null): Promise<RunEvent[]> {
  const facts: RunEvent[] = [];
  for (let cursor = after; ; ) {
    const page = await client.events(id, cursor);
    facts.push(...page.items);
    if (page.nextCursor === null || page.items.length === 0) return facts;
    cursor = page.nextCursor;
  }
}

function cursorAfter(facts: readonly RunEvent[], before: string | null): string | null {
  const last = facts.at(-1);
  return last ? String(last.position) : before;
}

/** A scheduler that is away (restarting, unreachable) is waited for: the log continues after the cursor, so nothing is missed. */
async function askUntilAnswered<T>(ask: () => Promise<T>, { client, terminal, signal }: Following): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      const answer = await ask();
      if (!isFirst) terminal.say("connected again, nothing missed");
      return answer;
    } catch (cause) {
      if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.unreachable) throw cause;
      if (isFirst) terminal.say(`the scheduler at ${client.url} does not answer; reconnecting, nothing is missed`);
      await pause(reconnectMs, undefined, { signal });
    }
  }
}
