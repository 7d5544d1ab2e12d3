import { describe, expect, it } from "vitest";
import { ClockLead } from "./clock-lead.ts";

/** Begins a turn as the server does: its clock and the lead, never below what was stored. */
function beginTurnAt(lead: ClockLead, server: number, stored: number): number {
  const now = Math.max(Math.floor(server + lead.ms), stored);
  lead.observe(server, now);
  return now;
}

describe("time on a server whose clock was set back", () => {
  it("[S48] PostgreSQL store time goes on from the last stored instant, a little slower, after the server's clock is set back, until that has caught up", () => {
    const lead = new ClockLead();
    let now = beginTurnAt(lead, 1_000_000, 0);
    const before = now;
    for (let passed = 0; passed < 60_000; passed += 500) now = beginTurnAt(lead, 400_000 + passed, now);

    expect(now - before).toBeGreaterThan(55_000);
    expect(now - before).toBeLessThan(60_000);

    for (let passed = 60_000; passed < 60_000 + 600_000 * 21; passed += 5_000) now = beginTurnAt(lead, 400_000 + passed, now);
    expect(now - (400_000 + 60_000 + 600_000 * 21 - 5_000)).toBeLessThan(5_000);
  });

  it("[S48] PostgreSQL store time exactly follows a server clock that was not set back", () => {
    const lead = new ClockLead();

    expect([1_000, 1_001, 5_000].map((server) => beginTurnAt(lead, server, 0))).toEqual([1_000, 1_001, 5_000]);
  });
});
