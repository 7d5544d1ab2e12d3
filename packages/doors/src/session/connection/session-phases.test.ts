import { describe, expect, it } from "vitest";
import {
  type ConnectionPhase,
  connectionTransitions,
  type SessionPhase,
  sessionTransitions,
  transition,
} from "./session-phases.ts";

const phases = Object.keys(connectionTransitions) as ConnectionPhase[];
const movesFrom = (from: ConnectionPhase): readonly ConnectionPhase[] => connectionTransitions[from];

describe("phases of a connection", () => {
  it("[D4] a connection changes its phase only as the transition table allows; any other move is a bug and throws", () => {
    const made = phases.flatMap((from) =>
      phases.filter((to) => !throws(() => transition(connectionTransitions, from, to))).map((to) => `${from} > ${to}`),
    );

    expect(made).toEqual(
      phases.flatMap((from) =>
        movesFrom(from)
          .map((to) => `${from} > ${to}`)
          .sort(byPhase),
      ),
    );
  });

  it("[D4] a connection can be closed from every phase, and never leaves closed", () => {
    expect(phases.filter((from) => !movesFrom(from).includes("closed"))).toEqual(["closed"]);
    expect(movesFrom("closed")).toEqual([]);
  });
});

describe("phases of a session", () => {
  const sessionPhases = Object.keys(sessionTransitions) as SessionPhase[];

  it("[D22] a session changes its phase only as its table allows: ended is final, and only a live or resuming session can be detached", () => {
    const made = sessionPhases.flatMap((from) =>
      sessionPhases.filter((to) => !throws(() => transition(sessionTransitions, from, to))).map((to) => [from, to] as const),
    );

    expect(made.map(([from, to]) => `${from} > ${to}`).sort()).toEqual(
      sessionPhases.flatMap((from) => sessionTransitions[from].map((to) => `${from} > ${to}`)).sort(),
    );
    expect(made.filter(([from]) => from === "ended")).toEqual([]);
    expect(made.filter(([, to]) => to === "detached").map(([from]) => from)).toEqual(["live", "resuming"]);
  });

  it("[D4] a session becomes live only from joining or resuming, and can end from every phase", () => {
    const movesFrom = (from: SessionPhase): readonly SessionPhase[] => sessionTransitions[from];

    expect(sessionPhases.filter((from) => movesFrom(from).includes("live"))).toEqual(["joining", "resuming"]);
    expect(sessionPhases.filter((from) => !movesFrom(from).includes("ended"))).toEqual(["ended"]);
  });
});

const byPhase = (a: string, b: string): number =>
  phases.indexOf(a.split(" > ")[1] as ConnectionPhase) - phases.indexOf(b.split(" > ")[1] as ConnectionPhase);

function throws(run: () => unknown): boolean {
  try {
    run();
    return false;
  } catch (problem) {
    return problem instanceof Error && problem.message.includes("cannot go");
  }
}
