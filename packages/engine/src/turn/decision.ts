// One round of deciding: every command and every timer on one board, each under its own mark. What cannot be decided is set apart with
// its reason; nothing here lasts beyond the round, so a round that lacked rows can simply be made again from the start.

import { Fault, fault } from "@astraflow/protocol";
import { Board } from "../core/board/board.ts";
import { type Root, RootBusy, RowsMissing, spellRoot } from "../core/board/root.ts";
import { expireDue, expireGrants, type Now, storeAcks, watchSessions } from "../core/clockwork.ts";
import { watchLoad } from "../core/crew/load.ts";
import { recheckHolds } from "../core/crew/recheck.ts";
import { decide } from "../core/decide.ts";
import { place } from "../core/place/place.ts";
import { hearMail } from "../core/place/post.ts";
import type { Tools } from "../core/tools.ts";
import type { Answer } from "../effect.ts";
import type { Claim, TaskList, Tx } from "../port.ts";
import type { Key, WorkerId } from "../rows.ts";
import type { Waiting } from "./inbox.ts";
import { dataOf, refusal } from "./refusal.ts";

export interface Round {
  readonly tx: Tx;
  readonly batch: readonly Waiting[];
  readonly claims: readonly Claim[];
  readonly when: Now;
  /** Whether it is time to look at how alive the sessions are. */
  readonly looks: boolean;
  readonly quarantine: ReadonlySet<Key>;
}

export class Decision {
  readonly board: Board;
  /** Commands that are part of this turn, and the answer each gets after the commit, at the same place. */
  readonly taken: Waiting[] = [];
  readonly answers: Answer[] = [];
  /** Which unit (by a root of it) each command or timer wrote to. */
  readonly wrote: { readonly root: Root; readonly item: Waiting | null }[] = [];
  /** Rows that must be loaded before the round can be made again. */
  readonly missing = { rows: new Set<Key>(), lists: new Map<string, TaskList>(), addresses: new Set<WorkerId>() };
  /** Commands whose root another turn holds. */
  readonly busy: { readonly item: Waiting; readonly root: Key }[] = [];
  /** Commands and timers that threw. */
  readonly poisoned: { readonly item: Waiting; readonly problem: unknown }[] = [];
  readonly failing: { readonly root: Key; readonly problem: unknown }[] = [];
  readonly #quarantine: ReadonlySet<Key>;

  constructor(tools: Tools, round: Round) {
    const { tx, when } = round;
    this.board = new Board(tx);
    this.#quarantine = round.quarantine;
    for (const item of round.batch) this.#command(tools, item);
    const attempt = (root: Root, work: () => void) => this.#attempt(root, work);
    for (const mail of tx.mail) attempt(`mail/${mail.id}` as Key, () => hearMail(this.board, tools, mail));
    expireGrants(this.board, tools, when, attempt);
    storeAcks(this.board, tools, attempt);
    recheckHolds(this.board, tools, attempt);
    if (round.looks) {
      watchSessions(this.board, tools, attempt);
      watchLoad(this.board, tools, attempt);
    }
    expireDue(this.board, tools, tx.due, when, attempt);
    place(this.board, tools, tx.claimed, round.claims, attempt);
  }

  get isComplete(): boolean {
    return this.missing.rows.size + this.missing.lists.size + this.missing.addresses.size === 0;
  }

  answer(item: Waiting, answer: Answer): void {
    this.taken.push(item);
    this.answers.push(answer);
  }

  #command(tools: Tools, item: Waiting): void {
    if (item.isGone) {
      const gone = fault("E.SESSION.UNKNOWN", "this session ended before it could be heard; handshake again");
      return this.answer(item, refusal(item.ref, gone));
    }
    const mark = this.board.mark();
    try {
      const said = decide(this.board, tools, item.command, item.run);
      const isFault = said instanceof Fault;
      this.answer(item, { type: "answer", ref: item.ref, body: isFault ? null : said, fault: isFault ? dataOf(said) : null });
      const root = this.board.touched;
      if (root !== null) this.wrote.push({ root, item });
    } catch (problem) {
      this.board.undo(mark);
      if (problem instanceof RowsMissing) this.#note(problem);
      else if (problem instanceof RootBusy) this.busy.push({ item, root: problem.root });
      else this.poisoned.push({ item, problem });
    }
  }

  #attempt(root: Root, work: () => void): void {
    if (this.#quarantine.size > 0 && this.#quarantine.has(spellRoot(root))) return;
    const mark = this.board.mark();
    try {
      work();
      const touched = this.board.touched;
      if (touched !== null) this.wrote.push({ root: touched, item: null });
    } catch (problem) {
      this.board.undo(mark);
      if (problem instanceof RowsMissing) this.#note(problem);
      // A timer whose root is busy comes again with the next turn.
      else if (!(problem instanceof RootBusy)) this.failing.push({ root: spellRoot(root), problem });
    }
  }

  #note(problem: RowsMissing): void {
    for (const key of problem.rows) this.missing.rows.add(key);
    for (const worker of problem.addresses) this.missing.addresses.add(worker);
    for (const list of problem.lists) this.missing.lists.set(JSON.stringify(list), list);
  }
}
