// What becomes of commands and timers that a turn could not bring to an end: whose root is busy, who threw, whose unit the store refused,
// whose commit failed. Each is tried again as often as makes sense, a suspect alone; then its caller hears why. The others never wait.

import { type Fault, fault } from "@astraflow/protocol";
import type { Effect } from "../effect.ts";
import type { Key } from "../rows.ts";
import type { Problem } from "../world.ts";
import type { Decision } from "./decision.ts";
import type { Decided } from "./flight.ts";
import type { Waiting } from "./inbox.ts";
import { refusal } from "./refusal.ts";

/** A command whose commit failed this often is answered E.STORE.BUSY; one that met only busy roots, this much later. */
const triesMax = 10;
const busyTriesMax = 1_000;

interface Outside {
  out(effects: readonly Effect[]): void;
  report(problem: Problem): void;
}

export class Leftovers {
  readonly #outside: Outside;
  /** Roots whose timers threw: once = suspected, twice = left alone until a restart. */
  readonly #suspects = new Map<Key, number>();
  readonly #quarantine = new Set<Key>();

  constructor(outside: Outside) {
    this.#outside = outside;
  }

  get quarantine(): ReadonlySet<Key> {
    return this.#quarantine;
  }

  /** What could not be decided; the others go on. Returns the commands for another turn. */
  setAside(decision: Decision): Waiting[] {
    const later: Waiting[] = [];
    for (const { root, problem } of decision.failing) this.#blame(root, problem);
    // A busy root: the command waits for the next turn, and no turn ever waits for another.
    for (const { item, root } of decision.busy)
      if (++item.busyTurns < busyTriesMax) later.push(item);
      else decision.answer(item, refusal(item.ref, fault("E.STORE.BUSY", `${root} stayed busy; try again`)));
    for (const { item, problem } of decision.poisoned) {
      const { type, tenant } = item.command;
      if (!item.solo) {
        item.solo = true;
        later.push(item);
        continue;
      }
      this.#report("E.UNIT.QUARANTINED", `command ${type} cannot be decided`, { type, tenant }, problem);
      decision.answer(
        item,
        refusal(item.ref, fault("E.UNIT.QUARANTINED", `${type} could not be decided and was set aside; nothing was changed`)),
      );
    }
    return later;
  }

  /** A row whose timer cannot be decided is tried once more, then left alone, so that it never holds up the others. */
  #blame(root: Key, problem: unknown): void {
    // Mail is taken once, readable or not; what it would have said is found out by the next heartbeat.
    if (root.startsWith("mail/")) return this.#report("E.INTERNAL", `${root} cannot be read and is dropped`, { root }, problem);
    const times = (this.#suspects.get(root) ?? 0) + 1;
    this.#suspects.set(root, times);
    if (times < 2) return;
    if (!this.#quarantine.has(root))
      this.#report("E.UNIT.QUARANTINED", `${root} cannot be decided and is left alone until a restart`, { root }, problem);
    this.#quarantine.add(root);
  }

  /** Nothing was written. A named unit (by a root of it) is tried alone; the others go again. Returns the commands for another turn. */
  failed({ decision, board, later }: Decided, root: Key | null, problem: Fault): Waiting[] {
    const blamed = new Set(
      decision.wrote.filter((one) => root !== null && board.unitOf(one.root) === root).map((one) => one.item),
    );
    // Timers and grants that share a unit with a command come after it; the command is suspected first.
    if (root !== null && ![...blamed].some((item) => item !== null)) this.#blame(root, problem);
    const again: Waiting[] = [];
    for (const item of [...decision.taken, ...later]) {
      item.tries++;
      if (blamed.has(item) && item.solo) {
        this.#report(problem.code, problem.message, { type: item.command.type }, problem);
        const why = `${item.command.type} was refused by the store and set aside; nothing was changed`;
        this.#outside.out([refusal(item.ref, fault("E.UNIT.QUARANTINED", why))]);
      } else if (root !== null || !this.#isHopeless(item, problem, `the store did not take it: ${problem.message}`)) {
        if (blamed.has(item)) item.solo = true;
        again.push(item);
      }
    }
    return again;
  }

  /** The store did not even begin: the commands wait a little, then their callers hear of it. */
  away(batch: readonly Waiting[], problem: Fault): Waiting[] {
    for (const item of batch) item.tries++;
    return batch.filter((item) => !this.#isHopeless(item, problem, `the store is away: ${problem.message}`));
  }

  #isHopeless(item: Waiting, problem: Fault, why: string): boolean {
    if (item.tries < triesMax) return false;
    // A store that is not durable any more needs an operator, not patience; everything else may pass.
    const code = problem.code === "E.STORE.DURABILITY" ? problem.code : "E.STORE.BUSY";
    this.#outside.out([refusal(item.ref, fault(code, `${why}; try again`))]);
    return true;
  }

  #report(code: string, message: string, details: Readonly<Record<string, unknown>>, cause: unknown): void {
    this.#outside.report({ code, message, details, cause });
  }
}
