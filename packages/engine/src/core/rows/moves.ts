// What follows from a table of moves for the types of rows: in which phases an event is possible, and which phase it leads to. So a step
// that returns a row with the wrong fields for its phase does not compile.

import type { InPhase, Millis } from "../../storage/rows.ts";

interface Phased {
  readonly phase: string;
}
interface Typed {
  readonly type: string;
}

type PhasesBefore<M, T> = { [P in keyof M]: T extends keyof M[P] ? P : never }[keyof M];
type PhasesAfter<M, P, T> = P extends keyof M
  ? T extends keyof M[P]
    ? M[P][T] extends readonly (infer After)[]
      ? After
      : never
    : never
  : never;

/** One function per type of event. Each gets only rows and makes only moves that the table names. */
export type Steps<R extends Phased, E extends Typed, M> = {
  readonly [T in E["type"]]: (
    row: InPhase<R, PhasesBefore<M, T>>,
    event: E & { readonly type: T },
    now: Millis,
  ) => InPhase<R, PhasesAfter<M, keyof M, T>>;
};

/** A row that was `R` before, after the event `E`. */
export type RowAfter<R extends Phased, E extends Typed, M, Rows extends Phased> = InPhase<
  Rows,
  PhasesAfter<M, R["phase"], E["type"]>
>;

/** Makes a move that the table names for the row's phase: the caller has looked it up, which TypeScript cannot follow. */
export function takeStep<Rows extends Phased, AllEvents extends Typed, M, R extends Rows, E extends AllEvents>(
  steps: Steps<Rows, AllEvents, M>,
  row: R,
  event: E,
  now: Millis,
): RowAfter<R, E, M, Rows> {
  const step = steps[event.type as E["type"]] as unknown as (row: R, event: E, now: Millis) => RowAfter<R, E, M, Rows>;
  return step(row, event, now);
}
