// docs/protocol.md is a contract that strangers build workers from: what it names must be what the code has.
import { readFileSync } from "node:fs";
import { sessionLimits } from "@astraflow/doors";
import { faultCodes, limits } from "@astraflow/protocol";
import { linkFeatures, linkTransitions } from "@astraflow/runtime";
import { dialectRules } from "@astraflow/session";
import { describe, expect, it } from "vitest";

const page = readFileSync(new URL("../../docs/protocol.md", import.meta.url), "utf8");

/** The text from a heading to the next one of the same depth. */
function section(heading: string): string {
  const from = page.indexOf(`\n## ${heading}`);
  if (from < 0) throw new Error(`docs/protocol.md has no section ${heading}`);
  const to = page.indexOf("\n## ", from + 4);
  return page.slice(from, to < 0 ? undefined : to);
}

const rowsOf = (text: string): string[][] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .map((line) => line.split("|").map((cell) => cell.trim()));

describe("the page of the protocol", () => {
  it("[C20] docs/protocol.md names exactly the features in the code, every state of a worker's link and only fault codes that exist", () => {
    const features = [...section("3. Frames").matchAll(/^\| `([a-z]+)` \| /gm)].map(([, word = ""]) => word);
    const codes = new Set([...page.matchAll(/`(E\.[A-Z_.]+)`/g)].map(([, code = ""]) => code));

    // A key in the handshake announces `proof`; all others are listed in register.
    const announced = [...linkFeatures, "proof"].sort((a, b) => a.localeCompare(b));
    expect(features.toSorted((a, b) => a.localeCompare(b))).toEqual(announced);
    for (const state of Object.keys(linkTransitions)) expect(section("4. The life of a session")).toContain(state);
    expect([...codes].filter((code) => !(code in faultCodes))).toEqual([]);
    expect(codes.size).toBeGreaterThan(10);
  });

  it("[C20] docs/protocol.md states the limits that the code enforces", () => {
    const text = section("10. Limits") + section("5. Numbers, windows, acks");
    const words = {
      [`${sessionLimits.unauthenticatedBytesMax / 1024} KiB and ${sessionLimits.handshakeTimeoutMs / 1000} s`]: "strangers",
      [`${sessionLimits.registerTimeoutMs / 1000} s to register`]: "register",
      [`${limits.frameBytesMax / 2 ** 20} MiB in, ${limits.frameToWorkerBytesMax / 2 ** 20} MiB towards workers`]: "frames",
      [`${sessionLimits.sendWindow} frames, ${limits.windowMax.toLocaleString("en-US")} with \`wide\`, ${dialectRules.first.framesMax}`]:
        "windows",
      [`${sessionLimits.windowBytes / 2 ** 20} MiB`]: "bytes of windows",
      [`${sessionLimits.waitingBytesMax / 2 ** 20} MiB; a peer that does not read is cut off at ${sessionLimits.socketBytesMax / 2 ** 20} MiB`]:
        "sockets",
      [`${sessionLimits.handshakesPerSecondMax} a second`]: "handshakes",
      [`${sessionLimits.resumeTimeoutMs / 1000} s after the socket broke`]: "resume",
      [`unacked for ${dialectRules.v2.resend.firstMs / 1000} s`]: "repeats",
      [`after ${dialectRules.v2.resend.sendsMax} sends`]: "tries",
      [`open for ${dialectRules.v2.gapTimeoutMs / 1000} s`]: "gaps",
    };
    for (const word of Object.keys(words)) expect(text).toContain(word);
    expect(rowsOf(section("10. Limits")).length).toBeGreaterThan(6);
  });
});
