// The thread in which user code runs: loads the packages, calls their handlers, and says what came of it. It may block, crash or run out
// of memory; the link lives in another thread and notices. Started by host-spawn.ts; no room imports this file.

import { type MessagePort, workerData } from "node:worker_threads";
import { type Attempt, makeAttempt } from "./attempt.ts";
import { Executor } from "./executor.ts";
import { type ExtDraft, ExtHub } from "./ext.ts";
import { type AttemptName, type FromHost, type HostSettings, type HostShelf, Mail, nameOf, type ToHost } from "./host-words.ts";
import type { NextAnswer, NextDraft } from "./next.ts";
import { encodeOutcome, type Outcome, type Spill } from "./outcome.ts";
import { loadPackages, type PackageShelf } from "./packages.ts";
import type { RemovedReason } from "./resource.ts";
import { ResourceFolder } from "./resource-folder.ts";
import { ResourceRegistry } from "./resources.ts";
import { spillTo } from "./runner.ts";

/** A handler that keeps the thread for longer than this before it returns is one that blocks: what others have said leaves before it. */
const blockingMs = 2;

class HandlerThread {
  readonly #mail: Mail<FromHost>;
  readonly #executor: Executor;
  readonly #ext: ExtHub;
  readonly #attempts = new Map<string, Attempt>();
  readonly #asked = new Map<number, (isTaken: boolean) => void>();
  readonly #calls = new Map<number, (answer: NextAnswer) => void>();
  readonly #resources: ResourceRegistry;
  readonly #spill: Spill;
  #tickets = 0;
  /** Types of nodes that were seen blocking. */
  readonly #blocking = new Set<string>();
  /** Said and not yet in the mail: a handler that comes back with its outcome says both in one word. */
  #finished: (AttemptName & { outcome: Outcome; attempt: Attempt }) | null = null;

  constructor(port: MessagePort, settings: HostSettings, shelf: PackageShelf) {
    this.#mail = new Mail((words) => port.postMessage(words), setImmediate);
    this.#ext = shelf.ext ?? new ExtHub();
    const folder = new ResourceFolder(settings.resourceDir, settings.workRoot);
    const report = (problem: { message: string; cause: unknown }) => this.#report(problem);
    const announced = (resource: string) => this.#mail.push({ type: "announced", resource });
    const removed = (resource: string, reason: RemovedReason) => this.#mail.push({ type: "removed", resource, reason });
    this.#resources = new ResourceRegistry(
      { wall: () => Date.now(), after: afterUnheld, report, announced, removed },
      folder,
      settings.resources,
    );
    this.#resources.recall();
    this.#spill = spillTo(this.#resources);
    this.#executor = new Executor(
      {
        now: () => performance.now(),
        after,
        next: (attempt, draft, answer) => this.#next(attempt, draft, answer),
        spawned: (pid) => this.#mail.pushUrgent({ type: "spawned", pid }),
        reaped: (pid) => this.#mail.push({ type: "reaped", pid }),
        finished: (attempt, outcome) => {
          this.#tellFinished(false);
          this.#finished = { task: attempt.task, fence: attempt.fence, attempt, outcome };
          // One that is out of time is said although its handler is not back.
          queueMicrotask(() => this.#tellFinished(false));
        },
        settled: (attempt) => this.#settled(attempt),
        feedback: (attempt, input) => this.#feedback(attempt, input),
        report,
      },
      {
        tenant: settings.tenant,
        handlers: shelf.handlers,
        ext: this.#ext.face,
        resources: this.#resources,
        workRoot: settings.workRoot,
      },
    );
    this.#mail.push({ type: "loaded", shelf: describeShelf(shelf), kept: this.#resources.announced() });
    this.#ext.connect({
      send: (draft) => this.#sendExt(draft),
      listening: (types) => this.#mail.push({ type: "listening", types }),
      report: (problem) => this.#report(problem),
    });
    port.on("message", (words: readonly ToHost[]) => this.#hear(words, port));
    // A handler that ends the thread must not take along what others have said.
    process.on("exit", () => this.#mail.flush());
  }

  #hear(words: readonly ToHost[], port: MessagePort): void {
    for (const word of words) {
      switch (word.type) {
        case "start":
          this.#start(makeAttempt(word.dispatch, word.fence, 0));
          break;
        case "stop":
          this.#attempts.get(nameOf(word))?.stop.stop(new Error(word.reason));
          break;
        case "ext":
          this.#ext.hear(word.frame);
          break;
        case "ext-answer":
          this.#asked.get(word.ticket)?.(word.isTaken);
          this.#asked.delete(word.ticket);
          break;
        case "next-answer": {
          const answer = this.#calls.get(word.ticket);
          this.#calls.delete(word.ticket);
          answer?.(word.answer);
          break;
        }
        case "ping":
          this.#mail.push({ type: "pong", ping: word.ping, resources: this.#resources.numbers() });
          break;
        case "end":
          this.#mail.flush();
          port.close();
      }
    }
  }

  #start(attempt: Attempt): void {
    const { node_type } = attempt.dispatch;
    if (this.#blocking.has(node_type)) this.#mail.flush();
    attempt.phase = "running";
    this.#attempts.set(nameOf(attempt), attempt);
    const since = performance.now();
    this.#executor.start(attempt);
    this.#tellFinished(false);
    if (performance.now() - since < blockingMs) return;
    this.#blocking.add(node_type);
    this.#mail.flush();
  }

  #settled({ task, fence }: Attempt): void {
    this.#attempts.delete(nameOf({ task, fence }));
    if (this.#finished?.task === task && this.#finished.fence === fence) this.#tellFinished(true);
    else this.#mail.push({ type: "settled", task, fence });
  }

  #tellFinished(isSettled: boolean): void {
    if (this.#finished === null) return;
    const { task, fence, attempt, outcome } = this.#finished;
    this.#finished = null;
    const { type, payload } = encodeOutcome(attempt, outcome, this.#spill);
    this.#mail.push({ type: "finished", task, fence, written: { frame: type, payload }, isSettled });
  }

  #feedback({ task, fence }: Attempt, input: object): void {
    let text: string | undefined;
    try {
      text = JSON.stringify(input);
    } catch (cause) {
      return this.#report({ message: `feedback of task ${task} cannot be written as JSON and was dropped`, cause });
    }
    if (text !== undefined) this.#mail.pushUrgent({ type: "feedback", task, fence, input: text });
  }

  #next({ task, fence }: Attempt, draft: NextDraft, answer: (answer: NextAnswer) => void): () => void {
    const ticket = this.#tickets++;
    this.#calls.set(ticket, answer);
    this.#mail.pushUrgent({ type: "next", ticket, task, fence, draft });
    return () => {
      if (this.#calls.delete(ticket)) this.#mail.push({ type: "next-forget", ticket });
    };
  }

  #sendExt(draft: ExtDraft): Promise<boolean> {
    const ticket = this.#tickets++;
    return new Promise((resolve) => {
      this.#asked.set(ticket, resolve);
      this.#mail.pushUrgent({ type: "ext", ticket, draft });
    });
  }

  #report({ message, cause }: { message: string; cause: unknown }): void {
    this.#mail.push({ type: "report", message, cause: String(cause) });
  }
}

function after(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms);
  return () => clearTimeout(timer);
}

/** A look at what is kept is no reason for the thread to stay. */
function afterUnheld(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms).unref();
  return () => clearTimeout(timer);
}

function describeShelf(shelf: PackageShelf): HostShelf {
  return {
    packages: shelf.packages.map(({ name, version, dir, written, handlers }) => ({
      name,
      version,
      dir,
      written,
      nodeTypes: handlers.map(({ nodeType }) => nodeType),
    })),
    problems: shelf.problems.map(({ dir, fault }) => ({ dir, code: fault.code, message: fault.message })),
  };
}

const { port, settings } = workerData as { port: MessagePort; settings: HostSettings };
// Listening only once all is loaded: what comes meanwhile waits in the port.
new HandlerThread(port, settings, await loadPackages(settings.packagesDir));
