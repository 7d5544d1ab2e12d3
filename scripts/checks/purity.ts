/**
 * Keeps the deciding code pure: time, chance, names and storage arrive as arguments, so that a seed replays a whole bad
 * afternoon. It looks at names in code, not at what they are bound to: a local called `process` is refused as well.
 */
import { isBuiltin } from "node:module";
import { isTestFile, listSources, readText, reportProblems, repositoryRoot } from "../repository-files.ts";
import { readImports } from "./imports.ts";
import { type Token, tokenize } from "./tokens.ts";

interface PureZone {
  folder: string;
  /** The driver of turns waits for the store; everything else decides in one go. */
  mayAwait: boolean;
  /** Built-in modules without time, chance or the outside in them; none where the browser runs the code too. */
  builtins: readonly string[];
}

const zones: readonly PureZone[] = [
  { folder: "packages/protocol/src", mayAwait: false, builtins: [] },
  { folder: "packages/graph/src", mayAwait: false, builtins: [] },
  { folder: "packages/session/src", mayAwait: false, builtins: ["node:assert"] },
  { folder: "packages/resp/src", mayAwait: false, builtins: [] },
  { folder: "packages/engine/src/core", mayAwait: false, builtins: ["node:assert", "node:crypto"] },
  { folder: "packages/engine/src/interface", mayAwait: true, builtins: [] },
  { folder: "packages/engine/src/storage", mayAwait: true, builtins: [] },
  { folder: "packages/engine/src/turn", mayAwait: true, builtins: ["node:assert", "node:crypto"] },
];

const timeReason = "time arrives as an argument";
const outsideReason = "the outside is reached by the app, not by deciding code";
const synchronousReason = "deciding code is synchronous";
const randomnessReason = "chance and names arrive as arguments";
const localeReason = "the answer must not depend on the machine's language";

/** Globals that deciding code may not name, and why. */
const bannedGlobals: Record<string, string> = {
  Date: timeReason,
  performance: timeReason,
  Temporal: timeReason,
  setTimeout: timeReason,
  setInterval: timeReason,
  setImmediate: timeReason,
  clearTimeout: timeReason,
  clearInterval: timeReason,
  clearImmediate: timeReason,
  queueMicrotask: timeReason,
  process: outsideReason,
  fetch: outsideReason,
  WebSocket: outsideReason,
  EventSource: outsideReason,
  XMLHttpRequest: outsideReason,
  globalThis: "it is a way around this check",
  eval: "it is a way around this check",
  crypto: randomnessReason,
  Intl: localeReason,
  WeakRef: "what it answers depends on the garbage collector",
  FinalizationRegistry: "when it calls depends on the garbage collector",
};
const bannedInSynchronousCode: Record<string, string> = {
  Promise: synchronousReason,
  async: synchronousReason,
  await: synchronousReason,
};

/** Members and imported names that are refused whatever they belong to. */
const bannedNames: Record<string, string> = {
  randomUUID: randomnessReason,
  randomBytes: randomnessReason,
  randomInt: randomnessReason,
  randomFill: randomnessReason,
  randomFillSync: randomnessReason,
  getRandomValues: randomnessReason,
  generateKeyPairSync: randomnessReason,
  generateKeySync: randomnessReason,
  localeCompare: localeReason,
  toLocaleString: localeReason,
  toLocaleDateString: localeReason,
  toLocaleTimeString: localeReason,
  toLocaleUpperCase: localeReason,
  toLocaleLowerCase: localeReason,
};

/** Every breach of purity below a root, one sentence each. */
export function checkPurity(root: string): string[] {
  return zones.flatMap((zone) =>
    listSources(root, zone.folder)
      .filter((file) => !isTestFile(file))
      .flatMap((file) => findImpurities(readText(root, file), zone).map(({ line, sentence }) => `${file}:${line}: ${sentence}`)),
  );
}

interface Finding {
  line: number;
  sentence: string;
}

function findImpurities(source: string, zone: PureZone): Finding[] {
  const tokens = tokenize(source);
  const findings: Finding[] = [];
  for (const { specifier, line, isLazy } of readImports(tokens)) {
    if (isLazy && !zone.mayAwait) findings.push({ line, sentence: `import("${specifier}") waits; ${synchronousReason}` });
    const name = specifier.startsWith("node:") ? specifier : `node:${specifier}`;
    if (isBuiltin(specifier) && !zone.builtins.includes(name))
      findings.push({ line, sentence: `imports ${specifier}; ${outsideReason}` });
  }
  const banned = zone.mayAwait ? bannedGlobals : { ...bannedGlobals, ...bannedInSynchronousCode };
  tokens.forEach((token, at) => {
    if (token.kind !== "word") return;
    const why = ownValue(banned, token.text);
    if (why && !isMember(tokens, at) && !isKey(tokens, at))
      findings.push({ line: token.line, sentence: `uses ${token.text}; ${why}` });
    const whyName = ownValue(bannedNames, token.text);
    if (whyName && !isKey(tokens, at)) findings.push({ line: token.line, sentence: `uses ${token.text}; ${whyName}` });
    if (token.text === "random" && isMember(tokens, at) && tokens[at - 2]?.text === "Math")
      findings.push({ line: token.line, sentence: `uses Math.random; ${randomnessReason}` });
    if (token.text === "for" && !isMember(tokens, at) && isForIn(tokens, at + 1))
      findings.push({
        line: token.line,
        sentence: "uses for-in; it also walks what was inherited: use Object.entries, or a Map",
      });
  });
  return findings;
}

/** Own rows only: `constructor` is a word that sources use, and every object inherits it. */
function ownValue(table: Record<string, string>, name: string): string | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function isMember(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1];
  return before?.kind === "mark" && (before.text === "." || before.text === "?.");
}

/** A name on the left of a colon in an object, a type or a parameter list, as in `{ process: 1 }` or `{ async?: boolean }`. */
function isKey(tokens: readonly Token[], at: number): boolean {
  const after = tokens[at + 1]?.text;
  const isBeforeColon = after === ":" || (after === "?" && tokens[at + 2]?.text === ":");
  const before = tokens[at - 1];
  return isBeforeColon && before !== undefined && ["{", ",", ";", "(", "readonly"].includes(before.text);
}

/** `for (const key in value)`: the word `in` before any `of` or semicolon at the first depth of the parentheses. */
function isForIn(tokens: readonly Token[], open: number): boolean {
  if (tokens[open]?.text !== "(") return false;
  let depth = 0;
  for (let at = open; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (!token) break;
    if (token.kind === "mark" && "([{".includes(token.text)) depth += 1;
    if (token.kind === "mark" && ")]}".includes(token.text)) depth -= 1;
    if (depth === 0 || (depth === 1 && (token.text === ";" || (token.kind === "word" && token.text === "of")))) return false;
    if (depth === 1 && token.kind === "word" && token.text === "in") return true;
  }
  return false;
}

if (import.meta.main) reportProblems("purity", checkPurity(repositoryRoot));
