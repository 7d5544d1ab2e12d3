// Requests that are refused because of a state that passes (the store is away or its disk full, the scheduler stops) are no failures of their own:
// the state has its line in the log, and they are counted in a line whenever their number has doubled.

import type { FaultCode } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";

/** After so long without such a refusal the next one begins a new episode. */
const episodeMs = 60_000;

const countedCodes: ReadonlySet<FaultCode> = new Set<FaultCode>(["E.STORE.BUSY", "E.SHUTTING_DOWN", "E.STARTING"]);

interface Episode {
  refused: number;
  lastAt: number;
}

export class RefusalLog {
  readonly #environment: ServiceEnvironment;
  readonly #episodes = new Map<FaultCode, Episode>();

  constructor(environment: ServiceEnvironment) {
    this.#environment = environment;
  }

  /** False where this code is not counted but a failure. */
  count(code: FaultCode, problem: unknown, requestId: string): boolean {
    if (!countedCodes.has(code)) return false;
    const now = this.#environment.clock.monotonic();
    const known = this.#episodes.get(code);
    const isSame = known !== undefined && now - known.lastAt < episodeMs;
    const episode = { refused: (isSame ? known.refused : 0) + 1, lastAt: now };
    this.#episodes.set(code, episode);
    if (!Number.isInteger(Math.log2(episode.refused))) return true;
    // Callers are not told what the store said.
    const reason = problem instanceof Error ? problem.message : String(problem);
    this.#environment.log({ level: "warn", event: "rest.refused", code, refused: episode.refused, reason, requestId });
    return true;
  }
}
