// Commands and timers that a turn could not finish are retried a bounded number of times, a suspect alone. The others never wait.

import { type Fault, fault } from "@astraflow/protocol";
import type { World } from "../interface/world.ts";
import type { RowKey } from "../storage/rows.ts";
import type { Decision } from "./decision.ts";
import type { WaitingCommand } from "./inbox.ts";
import type { DecidedTurn } from "./pending-turns.ts";
import { refusalAnswer } from "./refusal.ts";

/** A command whose commit failed this often is answered E.STORE.BUSY; one that met only busy roots, this much later. */
const triesMax = 10;
const busyTriesMax = 1_000;

export class RetryAndQuarantine {
  readonly #world: Pick<World, "emit" | "reportProblem">;
  /** Roots whose timers threw: once = suspected, twice = left alone until a restart. */
  readonly #suspects = new Map<RowKey, number>();
  readonly #quarantine = new Set<RowKey>();

  constructor(world: Pick<World, "emit" | "reportProblem">) {
    this.#world = world;
  }

  get quarantine(): ReadonlySet<RowKey> {
    return this.#quarantine;
  }

  /** What could not be decided; the others go on. Returns the commands for another turn. */
  deferUndecided(decision: Decision): WaitingCommand[] {
    const deferred: WaitingCommand[] = [];
    for (const { root, problem } of decision.failedTimers) this.#suspectRoot(root, problem);
    // A busy root: the command waits for the next turn, and no turn ever waits for another.
    for (const { item, root } of decision.busyCommands)
      if (++item.busyTurns < busyTriesMax) deferred.push(item);
      else decision.answer(item, refusalAnswer(item.ref, fault("E.STORE.BUSY", `${root} stayed busy; try again`)));
    for (const { item, problem } of decision.failedCommands) {
      const { type, tenant } = item.command;
      if (!item.isDecidedAlone) {
        item.isDecidedAlone = true;
        deferred.push(item);
        continue;
      }
      this.#report("E.UNIT.QUARANTINED", `command ${type} failed inside the engine`, { type, tenant }, problem);
      const why = `${type} failed inside the engine and was quarantined; nothing was changed. Details are in the scheduler's log`;
      decision.answer(item, refusalAnswer(item.ref, fault("E.UNIT.QUARANTINED", why)));
    }
    // Behind those before them: commands of one tenant keep their order.
    deferred.push(...decision.postponedCommands);
    return deferred;
  }

  /** A root whose timer throws is tried once more, then quarantined, so that it never holds up the others. */
  #suspectRoot(root: RowKey, problem: unknown): void {
    // Mail is taken once, readable or not; the next heartbeat finds out what it was about.
    if (root.startsWith("mail/")) return this.#report("E.INTERNAL", `${root} cannot be read and is dropped`, { root }, problem);
    const times = (this.#suspects.get(root) ?? 0) + 1;
    this.#suspects.set(root, times);
    if (times < 2) return;
    const message = `${root} failed twice inside the engine; it is quarantined until the scheduler restarts`;
    if (!this.#quarantine.has(root)) this.#report("E.UNIT.QUARANTINED", message, { root }, problem);
    this.#quarantine.add(root);
  }

  /** Nothing was written. The named change set (by a root) is tried alone, the others again together. Returns the commands for another turn. */
  retryAfterFailedCommit({ decision, work, deferred }: DecidedTurn, root: RowKey | null, problem: Fault): WaitingCommand[] {
    const blamed = new Set(
      decision.writers.filter((one) => root !== null && work.changeSetRootOf(one.root) === root).map((one) => one.item),
    );
    // Timers and grants that share a change set with a command come after it; the command is suspected first.
    if (root !== null && ![...blamed].some((item) => item !== null)) this.#suspectRoot(root, problem);
    const again: WaitingCommand[] = [];
    for (const item of [...decision.decided, ...deferred]) {
      item.failedCommits++;
      if (blamed.has(item) && item.isDecidedAlone) {
        this.#report(problem.code, problem.message, { type: item.command.type }, problem);
        const why = `${item.command.type} could not be stored and was quarantined; nothing was changed`;
        this.#world.emit([refusalAnswer(item.ref, fault("E.UNIT.QUARANTINED", why))]);
      } else if (root !== null || !this.#refuseIfExhausted(item, problem, `the store did not take it: ${problem.message}`)) {
        if (blamed.has(item)) item.isDecidedAlone = true;
        again.push(item);
      }
    }
    return again;
  }

  /** The store did not even begin: the commands are retried for a while, then refused. */
  retryAfterOutage(batch: readonly WaitingCommand[], problem: Fault): WaitingCommand[] {
    for (const item of batch) item.failedCommits++;
    return batch.filter((item) => !this.#refuseIfExhausted(item, problem, `the store is unavailable: ${problem.message}`));
  }

  #refuseIfExhausted(item: WaitingCommand, problem: Fault, why: string): boolean {
    if (item.failedCommits < triesMax) return false;
    // A store that is no longer durable needs an operator; any other failure may pass.
    const code = problem.code === "E.STORE.DURABILITY" ? problem.code : "E.STORE.BUSY";
    this.#world.emit([refusalAnswer(item.ref, fault(code, `${why}; try again`))]);
    return true;
  }

  #report(code: string, message: string, details: Readonly<Record<string, unknown>>, cause: unknown): void {
    this.#world.reportProblem({ code, message, details, cause });
  }
}
