// Who calls the handlers, as the link's side of the worker sees it: in the same thread (here) or in one of its own (host.ts).

import type { Attempt } from "./attempt.ts";
import { Executor } from "./executor.ts";
import { type ExtDraft, ExtHub } from "./ext.ts";
import type { FeedbackInput } from "./feedback.ts";
import type { ExtFrame } from "./link-ports.ts";
import type { Outcome } from "./outcome.ts";
import type { Outside } from "./outside.ts";
import type { PackageShelf } from "./packages.ts";

/** What a runner says. None of it is said before the worker has begun. */
export interface RunnerEars {
  /** The outcome of an attempt is known. Exactly once per start. */
  finished(attempt: Attempt, outcome: Outcome): void;
  /** Its handler has come back, after `finished` or at once. */
  settled(attempt: Attempt): void;
  feedback(attempt: Attempt, input: FeedbackInput): void;
  /** Gives false where the link takes no more. */
  ext(draft: ExtDraft): boolean;
  report(problem: { readonly message: string; readonly cause: unknown }): void;
  /** `problems` are others now. */
  changed(): void;
}

export interface Runner {
  start(attempt: Attempt): void;
  /** A vendor's frame. False: nobody listens to its type. */
  hearExt(frame: ExtFrame): boolean;
  /** Why nothing should be started here now, in sentences. */
  readonly problems: readonly string[];
  /** Ends what still runs, one way or the other; resolves once it is gone. */
  close(): Promise<void>;
}

export interface LocalRunnerOptions {
  readonly tenant: string;
  readonly shelf: PackageShelf;
  readonly workRoot: string;
  readonly outside: Pick<Outside, "now" | "after">;
}

/** Handlers beside the link: one that blocks the loop blocks the heartbeat too. */
export function createLocalRunner(ears: RunnerEars, { tenant, shelf, workRoot, outside }: LocalRunnerOptions): Runner {
  const hub = shelf.ext ?? new ExtHub();
  hub.connect({ send: async (draft) => ears.ext(draft), listening: () => {}, report: ears.report });
  const executor = new Executor(
    {
      now: outside.now,
      after: outside.after,
      finished: ears.finished,
      settled: ears.settled,
      feedback(attempt, input) {
        // Merged with others and written later, where nobody could tell whose it was.
        try {
          JSON.stringify(input);
        } catch (cause) {
          return ears.report({ message: `feedback of task ${attempt.task} cannot be written as JSON and was dropped`, cause });
        }
        ears.feedback(attempt, input);
      },
      report: ears.report,
    },
    { tenant, handlers: shelf.handlers, ext: hub.face, workRoot },
  );
  return {
    start: (attempt) => executor.start(attempt),
    hearExt: (frame) => hub.hear(frame),
    problems: [],
    close: async () => {},
  };
}
