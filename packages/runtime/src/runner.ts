// Who calls the handlers, as the link's side of the worker sees it: in the same thread (here) or in one of its own (host.ts).

import type { Attempt } from "./attempt.ts";
import { Executor } from "./executor.ts";
import { type ExtDraft, ExtHub } from "./ext.ts";
import type { FeedbackInput } from "./feedback.ts";
import type { GroupWatch } from "./group-watch.ts";
import type { ExtFrame } from "./link-ports.ts";
import type { NextAnswer, NextDraft } from "./next.ts";
import { encodeOutcome, type Outcome, type Spill } from "./outcome.ts";
import type { Outside } from "./outside.ts";
import type { PackageShelf } from "./packages.ts";
import type { RemovedReason, ResourceSettings } from "./resource.ts";
import { ResourceFolder } from "./resource-folder.ts";
import { ResourceRegistry } from "./resources.ts";

/** What a runner says. None of it is said before the worker has begun. */
export interface RunnerEars {
  /** The outcome of an attempt is known. Exactly once per start. */
  finished(attempt: Attempt, outcome: Outcome): void;
  /** Its handler has come back, after `finished` or at once. */
  settled(attempt: Attempt): void;
  feedback(attempt: Attempt, input: FeedbackInput): void;
  /** A middleware calls the next of its chain; the answer is said at most once. What is returned takes the call back. */
  next(attempt: Attempt, draft: NextDraft, answer: (answer: NextAnswer) => void): () => void;
  /** Gives false where the link takes no more. */
  ext(draft: ExtDraft): boolean;
  /** A resource that a result has named is no longer kept. */
  removed(resource: string, reason: RemovedReason): void;
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
  /** Numbers for the heartbeat. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Resources that results have named and that are still kept. */
  readonly kept: Iterable<string>;
  /** Ends what still runs, one way or the other; resolves once it is gone. */
  close(): Promise<void>;
}

export interface LocalRunnerOptions {
  readonly tenant: string;
  readonly shelf: PackageShelf;
  readonly workRoot: string;
  readonly resources: ResourceSettings;
  readonly resourceDir: string;
  readonly outside: Pick<Outside, "now" | "after" | "wall">;
  /** Ends the handlers' processes where this process cannot any more. */
  readonly watch?: GroupWatch;
}

/** Handlers beside the link: one that blocks the loop blocks the heartbeat too. */
export function createLocalRunner(ears: RunnerEars, options: LocalRunnerOptions): Runner {
  const { tenant, shelf, workRoot, outside, watch } = options;
  const folder = new ResourceFolder(options.resourceDir, workRoot);
  const resources = new ResourceRegistry(
    { wall: outside.wall, after: outside.after, report: ears.report, removed: ears.removed },
    folder,
    options.resources,
  );
  resources.recall();
  const spill = spillTo(resources);
  const hub = shelf.ext ?? new ExtHub();
  hub.connect({ send: async (draft) => ears.ext(draft), listening: () => {}, report: ears.report });
  const executor = new Executor(
    {
      now: outside.now,
      after: outside.after,
      finished(attempt, outcome) {
        const { type: frame, payload } = encodeOutcome(attempt, outcome, spill);
        ears.finished(attempt, { type: "written", frame, payload });
      },
      next: ears.next,
      spawned: (pid) => watch?.look(pid),
      reaped: (pid) => watch?.forget(pid),
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
    { tenant, handlers: shelf.handlers, ext: hub.face, resources, workRoot },
  );
  return {
    start: (attempt) => executor.start(attempt),
    hearExt: (frame) => hub.hear(frame),
    problems: [],
    get metrics() {
      return resources.numbers();
    },
    get kept() {
      return resources.announced();
    },
    close: async () => watch?.close(),
  };
}

/** Large values of results become resources of the run. */
export function spillTo(resources: ResourceRegistry): Spill {
  return {
    inlineBytesMax: resources.settings.inlineBytesMax,
    keep: (id, text, scope) => resources.artifact(resources.registerJson(id, text, { scope }).id),
  };
}
