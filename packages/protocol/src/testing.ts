// What other packages' tests need of the protocol: seeded random numbers, texts mutated by them, a signed resume, and a reader of server-sent events.

export { type SseTestEvent, SseTestReader } from "./testing/sse-test-reader.ts";

/** A resume signed with the key of 32 bytes of 7, so that both ends are tested with the same proof. */
export const sampleProvenResume = {
  publicKey: "6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw",
  resume: {
    session_id: "s",
    session_token: "t",
    proof: {
      count: 1,
      age_ms: 2_000,
      signature: "fy4XRbva0UXbDjsF3X8qpbOUoqypqYWK3KqVfor00-13qXkm23ZdNHsPdDHRrHRYl0n0lSWgsKuk3_Bzn5J2BQ",
    },
  },
} as const;

/** A small seeded generator: whole numbers from 0 to `sides` - 1. */
export function createSeededRandom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Texts that JSON parsers have failed on. */
const hostileSnippets = [
  '"__proto__":{"polluted":1},',
  "\u0000",
  "\\u0000",
  "null",
  "true",
  "-1",
  "1e999",
  "9007199254740993",
  "{}",
  "[]",
  "[",
  "[".repeat(200),
  "}".repeat(5),
  '"',
  '"'.repeat(3),
  "\\",
  "\ud800",
  "\\ud800",
  "💥",
  "control.",
  "#",
  "/",
];

/** One mutation: change a character, cut, repeat or insert a part, or replace values by values of another type. */
export function mutateText(text: string, random: (limit: number) => number): string {
  const at = random(text.length);
  const length = 1 + random(24);
  const snippet = (): string => hostileSnippets[random(hostileSnippets.length)] ?? "";
  switch (random(6)) {
    case 0:
      return text.slice(0, at) + String.fromCharCode(random(256)) + text.slice(at + 1);
    case 1:
      return text.slice(0, at) + text.slice(at + length);
    case 2:
      return text.slice(0, at + length) + text.slice(at);
    case 3:
      return text.slice(0, at) + snippet() + text.slice(at);
    case 4:
      return text.slice(0, at) + text.slice(at).replace(/"[^"]*"|\d+|true|false/, snippet);
    default:
      return text.replace(/:("[^"]*"|\d+|true|\{\}|\[\])/g, (value) => (random(6) === 0 ? `:${snippet()}` : value));
  }
}
