// The store's two clocks, and how they run when a test wants time to pass faster. Stored deadlines, leases and timeouts all follow
// these; sockets and people keep to real time, so durations that leave towards a worker are turned back (`toReal`).

/** As openSqlite wants it: wall clock for a first instant, monotonic for everything after. Milliseconds. */
export interface ClockPair {
  wall(): number;
  mono(): number;
}

export interface ScaledClock extends ClockPair {
  /** How long a stored duration takes on a real clock. */
  toReal(ms: number): number;
}

export function createScaledClock(scale: number, real: ClockPair = systemClock): ScaledClock {
  if (scale === 1) return { wall: real.wall, mono: real.mono, toReal: (ms) => ms };
  // The wall clock must run as fast as the monotonic one, or the store would keep correcting the difference.
  const wallStart = real.wall();
  const monoStart = real.mono();
  const passed = () => (real.mono() - monoStart) * scale;
  return {
    wall: () => wallStart + passed(),
    mono: () => monoStart + passed(),
    toReal: (ms) => Math.ceil(ms / scale),
  };
}

const systemClock: ClockPair = {
  wall: () => Date.now(),
  mono: () => performance.now(),
};
