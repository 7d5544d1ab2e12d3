// The handlers' thread as the link's side sees it: hands attempts over, tells what came back, and starts it anew when it dies. Attempts
// that died with it are answered for; how often it may die is decided here. The thread itself is host-thread.ts.

import type { JsonValue } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import { endGroup } from "./children.ts";
import type { FeedbackInput } from "./feedback.ts";
import type { GroupWatch } from "./group-watch.ts";
import type { HostThread, ThreadEars } from "./host-spawn.ts";
import { type FromHost, type HostShelf, Mail, nameOf, type ToHost } from "./host-words.ts";
import type { ExtFrame } from "./link-ports.ts";
import { failure } from "./outcome.ts";
import type { Outside } from "./outside.ts";
import type { Runner, RunnerEars } from "./runner.ts";
import { maskFor } from "./secrets.ts";

export interface HostPorts {
  readonly outside: Pick<Outside, "now" | "after" | "soon">;
  spawn(ears: ThreadEars): HostThread;
  /** Ends the handlers' processes where this process cannot any more. */
  readonly watch?: GroupWatch;
}

export const hostSettings = {
  /** So many ends within the window are a loop: the worker says that it is not well. */
  crashesMax: 5,
  crashWindowMs: 60_000,
  /** Pause before the second start within the window; doubles up to the second. The first start is at once. */
  pauseMs: 250,
  pauseMsMax: 30_000,
  /** How long handlers may take to let go once nothing more is wanted of them. */
  endMs: 300,
  /** How long a thread that was told to stop may take: only a call into the system can hold it up. */
  killMs: 1_000,
} as const;

const deaf: RunnerEars = {
  finished: () => {},
  settled: () => {},
  feedback: () => {},
  next: () => () => {},
  ext: () => false,
  removed: () => {},
  report: () => {},
  changed: () => {},
};

export class Host implements Runner {
  readonly #ports: HostPorts;
  readonly #attempts = new Map<string, Attempt>();
  #ears = deaf;
  #thread: HostThread | null = null;
  #mail: Mail<ToHost> | null = null;
  /** Attempts whose start waits for a thread that has loaded its packages. */
  #early: ToHost[] = [];
  #shelf: HostShelf = { packages: [], problems: [] };
  #types: ReadonlySet<string> = new Set();
  /** When it died, within the window. */
  #crashes: number[] = [];
  #heapPct: number | null = null;
  #isAskingHeap = false;
  /** The ping that is not answered, and when it left. */
  #pinged: { readonly ping: number; readonly at: number } | null = null;
  #pings = 0;
  /** What the thread keeps, as it said last. */
  #metrics: Readonly<Record<string, number>> = {};
  /** What it keeps of what results have named. */
  readonly #kept = new Set<string>();
  /** Groups of processes of its handlers. */
  readonly #groups = new Set<number>();
  /** Takes back calls that are not answered yet, by their ticket. */
  readonly #forgets = new Map<number, () => void>();
  #cancelStart = () => {};
  #isClosed = false;
  readonly #opened = Promise.withResolvers<HostShelf>();
  readonly #gone = Promise.withResolvers<void>();

  constructor(ports: HostPorts) {
    this.#ports = ports;
  }

  /** Starts the thread; resolves with what it has loaded. Rejects where it dies over that: nobody could tell which package does it. */
  open(): Promise<HostShelf> {
    this.#start();
    return this.#opened.promise;
  }

  listen(ears: RunnerEars): void {
    this.#ears = ears;
  }

  /** What the thread has loaded last. */
  get shelf(): HostShelf {
    return this.#shelf;
  }

  /** Of the thread's memory, as last heard; asks again for the next time. */
  get heapPct(): number | null {
    if (!this.#isAskingHeap && this.#thread !== null) {
      this.#isAskingHeap = true;
      void this.#thread.heapPct().then((pct) => {
        this.#isAskingHeap = false;
        this.#heapPct = pct;
      });
    }
    return this.#heapPct;
  }

  /** For how long the thread has not got to a question asked of it: 0 while it answers. The next question is asked by this. */
  get lagMs(): number {
    const at = this.#ports.outside.now();
    if (this.#pinged !== null) return at - this.#pinged.at;
    this.#ping(at);
    return 0;
  }

  #ping(at: number): void {
    if (this.#pinged !== null || this.#mail === null) return;
    this.#pinged = { ping: this.#pings++, at };
    this.#mail.push({ type: "ping", ping: this.#pinged.ping });
  }

  start(attempt: Attempt): void {
    const { task, fence, dispatch } = attempt;
    this.#attempts.set(nameOf(attempt), attempt);
    this.#tell({ type: "start", fence, dispatch });
    attempt.stop.heard = ({ message }) => this.#tell({ type: "stop", task, fence, reason: message });
  }

  hearExt(frame: ExtFrame): boolean {
    if (!this.#types.has(frame.type)) return false;
    this.#tell({ type: "ext", frame });
    return true;
  }

  get problems(): readonly string[] {
    const crashes = this.#recentCrashes();
    return crashes < hostSettings.crashesMax
      ? []
      : [`the thread of the handlers ended ${crashes} times within ${hostSettings.crashWindowMs / 1_000} s`];
  }

  /** As last heard; asks again for the next time. */
  get metrics(): Readonly<Record<string, number>> {
    this.#ping(this.#ports.outside.now());
    return this.#metrics;
  }

  get kept(): ReadonlySet<string> {
    return this.#kept;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelStart();
    await this.#endThread();
    this.#ports.watch?.close();
  }

  async #endThread(): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    if (this.#mail !== null) {
      // Behind the stops that are on their way: handlers whose signal was aborted may remove what they made.
      this.#mail.push({ type: "end" });
      this.#mail.flush();
      await this.#within(hostSettings.endMs, this.#gone.promise);
    }
    if (this.#thread !== null) await this.#within(hostSettings.killMs, thread.kill());
  }

  /** Closed, and still there: only the end of the process ends it. */
  get isStuck(): boolean {
    return this.#isClosed && this.#thread !== null;
  }

  async #within(ms: number, what: Promise<void>): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = this.#ports.outside.after(ms, late.resolve);
    await Promise.race([what, late.promise]);
    cancel();
  }

  #start(): void {
    const thread = this.#ports.spawn({
      heard: (words) => {
        for (const word of words) this.#hear(word, thread);
      },
      ended: (reason) => this.#ended(reason),
    });
    this.#thread = thread;
  }

  #tell(word: ToHost): void {
    if (this.#mail === null) this.#early.push(word);
    else this.#mail.push(word);
  }

  #hear(word: FromHost, thread: HostThread): void {
    switch (word.type) {
      case "loaded":
        this.#loaded(word.shelf, thread);
        this.#recall(word.kept);
        return;
      case "finished":
        this.#with(word, (attempt) => {
          this.#ears.finished(attempt, { type: "written", ...word.written });
          if (word.isSettled) this.#settle(attempt);
        });
        return;
      case "settled":
        this.#with(word, (attempt) => this.#settle(attempt));
        return;
      case "feedback":
        this.#with(word, (attempt) => this.#ears.feedback(attempt, JSON.parse(word.input) as FeedbackInput & JsonValue));
        return;
      case "listening":
        this.#types = new Set(word.types);
        return;
      case "ext":
        this.#tell({ type: "ext-answer", ticket: word.ticket, isTaken: this.#ears.ext(word.draft) });
        return;
      case "next":
        this.#hearNext(word);
        return;
      case "next-forget":
        this.#forgets.get(word.ticket)?.();
        this.#forgets.delete(word.ticket);
        return;
      case "spawned":
        this.#groups.add(word.pid);
        this.#ports.watch?.look(word.pid);
        return;
      case "reaped":
        this.#groups.delete(word.pid);
        this.#ports.watch?.forget(word.pid);
        return;
      case "announced":
        this.#kept.add(word.resource);
        return;
      case "removed":
        this.#kept.delete(word.resource);
        this.#ears.removed(word.resource, word.reason);
        return;
      case "pong":
        this.#metrics = word.resources;
        if (word.ping === this.#pinged?.ping) this.#pinged = null;
        return;
      case "report":
        this.#ears.report(word);
    }
  }

  #hearNext(word: Extract<FromHost, { type: "next" }>): void {
    const { ticket, draft } = word;
    const attempt = this.#attempts.get(nameOf(word));
    // It is over on this side; its handler hears that by its signal.
    if (attempt === undefined) return;
    let isAnswered = false;
    const forget = this.#ears.next(attempt, draft, (answer) => {
      isAnswered = true;
      this.#forgets.delete(ticket);
      this.#tell({ type: "next-answer", ticket, answer });
    });
    if (!isAnswered) this.#forgets.set(ticket, forget);
  }

  #loaded(shelf: HostShelf, thread: HostThread): void {
    this.#shelf = shelf;
    this.#mail = new Mail((words) => thread.post(words), this.#ports.outside.soon);
    for (const word of this.#early.splice(0)) this.#mail.push(word);
    this.#opened.resolve(shelf);
  }

  /** What the thread before kept in memory went with it. */
  #recall(recalled: readonly string[]): void {
    const still = new Set(recalled);
    const lost = [...this.#kept].filter((resource) => !still.has(resource));
    this.#kept.clear();
    for (const resource of recalled) this.#kept.add(resource);
    for (const resource of lost) this.#ears.removed(resource, "lost");
  }

  #with(name: { task: string; fence: number }, call: (attempt: Attempt) => void): void {
    const attempt = this.#attempts.get(nameOf(name));
    if (attempt !== undefined) call(attempt);
  }

  #settle(attempt: Attempt): void {
    this.#attempts.delete(nameOf(attempt));
    attempt.stop.heard = null;
    this.#ears.settled(attempt);
  }

  #ended(reason: string): void {
    this.#thread = null;
    this.#mail = null;
    this.#heapPct = null;
    this.#pinged = null;
    this.#types = new Set();
    this.#metrics = {};
    this.#forgets.clear();
    // A thread that was ended by force could not do it.
    for (const pid of this.#groups) {
      endGroup(pid, "SIGKILL");
      this.#ports.watch?.forget(pid);
    }
    this.#groups.clear();
    if (this.#isClosed) return this.#gone.resolve();
    this.#opened.reject(new Error(`the thread of the handlers ended while it loaded the packages: ${reason}`));
    this.#ears.report({ message: "the thread of the handlers ended and is started anew", cause: reason });
    this.#crashes.push(this.#ports.outside.now());
    const crashes = this.#recentCrashes();
    const doubled = hostSettings.pauseMs * 2 ** Math.min(Math.max(0, crashes - 2), 20);
    const pauseMs = crashes <= 1 ? 0 : Math.min(hostSettings.pauseMsMax, doubled);
    this.#cancelStart = this.#ports.outside.after(pauseMs, () => this.#start());
    this.#answerForLost(reason);
    if (crashes === hostSettings.crashesMax) this.#ears.changed();
  }

  /** One that was alone with the crash caused it. Of several nobody knows which: they are handed back, and counted by the scheduler. */
  #answerForLost(reason: string): void {
    const waiting = new Set(
      this.#early.flatMap((word) => (word.type === "start" ? [nameOf({ task: word.dispatch.task_id, fence: word.fence })] : [])),
    );
    const lost = [...this.#attempts.values()].filter((attempt) => !waiting.has(nameOf(attempt)));
    // What ended it may be a handler's own words.
    const said = lost.reduce((text, { dispatch }) => maskFor(dispatch.parameters)?.text(text) ?? text, reason);
    const message = `the thread of the handlers ended while the task ran in it: ${said}`;
    const outcome = lost.length === 1 ? failure(message, "worker.host") : failure(message, "worker.host", "E.RUNNER.CANCELLED");
    for (const attempt of lost) {
      this.#ears.finished(attempt, outcome);
      this.#settle(attempt);
    }
  }

  #recentCrashes(): number {
    const since = this.#ports.outside.now() - hostSettings.crashWindowMs;
    this.#crashes = this.#crashes.filter((at) => at > since);
    return this.#crashes.length;
  }
}
