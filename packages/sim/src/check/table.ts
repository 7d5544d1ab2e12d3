// Every checker by its name, with the invariant it judges. A name is part of the file name of a regression, so it stays.

import { acks } from "./acks.ts";
import { audit } from "./audit.ts";
import { binding } from "./binding.ts";
import { cancel } from "./cancel.ts";
import { chains } from "./chains.ts";
import type { Bench, Checker } from "./checker.ts";
import { commands } from "./commands.ts";
import { conservation } from "./conservation.ts";
import { convergence } from "./convergence.ts";
import { deliveries } from "./deliveries.ts";
import { drain } from "./drain.ts";
import { duplicates } from "./duplicates.ts";
import { durable } from "./durable.ts";
import { eligibility } from "./eligibility.ts";
import { fencing } from "./fencing.ts";
import { frames } from "./frames.ts";
import { inOrder } from "./in-order.ts";
import { kept } from "./kept.ts";
import { ledger } from "./ledger.ts";
import { letters } from "./letters.ts";
import type { LogBook } from "./log-book.ts";
import { moments } from "./moments.ts";
import { noLoss } from "./no-loss.ts";
import { once } from "./once.ts";
import { oneSession } from "./one-session.ts";
import { outcome } from "./outcome.ts";
import { owed } from "./owed.ts";
import { pinned } from "./pinned.ts";
import type { Plans } from "./plans.ts";
import { positions } from "./positions.ts";
import { printed } from "./printed.ts";
import { reads } from "./reads.ts";
import { singleFlight } from "./single-flight.ts";
import { singleLease } from "./single-lease.ts";
import { soundness } from "./soundness.ts";
import { terminal } from "./terminal.ts";
import { timers } from "./timers.ts";
import { unacked } from "./unacked.ts";
import { unknownPackage } from "./unknown-package.ts";
import { verdicts } from "./verdicts.ts";
import { window } from "./window.ts";
import { workConserving } from "./work-conserving.ts";

interface Row {
  readonly invariant: string;
  /** Has something to judge only where workflows have chains and containers. */
  readonly isNested?: true;
  readonly make: (bench: Bench, sources: { readonly plans: Plans; readonly book: LogBook }) => Checker;
}

export const checkers = {
  "no-loss": { invariant: "I1", make: noLoss },
  unacked: { invariant: "I2", make: unacked },
  "single-lease": { invariant: "I3", make: singleLease },
  fencing: { invariant: "I4", make: fencing },
  once: { invariant: "I5", make: (bench, { plans }) => once(bench, plans) },
  terminal: { invariant: "I6", make: terminal },
  duplicates: { invariant: "I7", make: duplicates },
  durable: { invariant: "I8", make: durable },
  kept: { invariant: "I9", make: kept },
  deliveries: { invariant: "I12", make: deliveries },
  timers: { invariant: "I13", make: timers },
  cancel: { invariant: "I14", make: cancel },
  conservation: { invariant: "I15", make: (bench, { plans }) => conservation(bench, plans) },
  "single-flight": { invariant: "I16", make: singleFlight },
  "work-conserving": { invariant: "I17", make: workConserving },
  eligibility: { invariant: "I18", make: eligibility },
  "in-order": { invariant: "I19", make: inOrder },
  owed: { invariant: "I19", make: owed },
  verdicts: { invariant: "I19", make: verdicts },
  window: { invariant: "I20", make: window },
  acks: { invariant: "I21", make: acks },
  "one-session": { invariant: "I22", make: oneSession },
  binding: { invariant: "I23", make: binding },
  drain: { invariant: "I24", make: drain },
  soundness: { invariant: "I37", make: soundness },
  convergence: { invariant: "I39", make: convergence },
  positions: { invariant: "I42", make: positions },
  reads: { invariant: "I42", make: (bench, { plans, book }) => reads(bench, book, plans) },
  frames: { invariant: "I43", isNested: true, make: frames },
  chains: { invariant: "I44", isNested: true, make: chains },
  printed: { invariant: "I45", make: printed },
  audit: { invariant: "I46", make: audit },
  pinned: { invariant: "I47", isNested: true, make: pinned },
  letters: { invariant: "I48", make: letters },
  outcome: { invariant: "I49", isNested: true, make: (bench, { plans }) => outcome(bench, plans) },
  moments: { invariant: "I50", make: moments },
  ledger: { invariant: "I51", make: (bench, { book }) => ledger(bench, book) },
  commands: { invariant: "I52", make: commands },
  "unknown-package": { invariant: "I53", make: unknownPackage },
} as const satisfies Record<string, Row>;

export type CheckerName = keyof typeof checkers;

/** Those that a profile gives something to judge. */
export const checkersFor = (isNested: boolean): CheckerName[] =>
  (Object.keys(checkers) as CheckerName[]).filter((name) => isNested || !("isNested" in checkers[name]));
