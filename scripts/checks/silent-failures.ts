/**
 * Finds failures that are swallowed and tests that are switched off. The linter accepts an empty block with a comment; here a catch without
 * code is always a problem.
 */

import { listSources, readText, reportProblems, repositoryRoot } from "../repository-files.ts";
import { type Token, tokenize } from "./tokens.ts";

/** Every silent failure below a root, one sentence each. */
export function checkSilentFailures(root: string): string[] {
  return listSources(root).flatMap((file) => {
    const tokens = tokenize(readText(root, file));
    return tokens.flatMap((token, at) => {
      const sentence = findSilentFailure(tokens, token, at);
      return sentence ? [`${file}:${token.line}: ${sentence}`] : [];
    });
  });
}

function findSilentFailure(tokens: readonly Token[], token: Token, at: number): string | null {
  if (token.kind !== "word") return null;
  const isMember = tokens[at - 1]?.text === "." || tokens[at - 1]?.text === "?.";
  if (token.text === "catch" && !isMember && isEmptyBlock(tokens, skipParentheses(tokens, at + 1)))
    return "a catch without code; handle it, answer with a fault, or rethrow it";
  // The promise of a Promise.withResolvers() record is awaited elsewhere; the empty handler only avoids an early unhandled rejection.
  const isOfRecord = tokens[at - 2]?.text === "promise" && tokens[at - 3]?.text === ".";
  if (token.text === "catch" && isMember && !isOfRecord && isEmptyHandler(tokens, at + 1))
    return ".catch with an empty handler; handle it, answer with a fault, or rethrow it";
  if (
    isMember &&
    ["skip", "skipIf", "runIf", "only", "todo"].includes(token.text) &&
    ["it", "test", "describe"].includes(tokens[at - 2]?.text ?? "")
  )
    return `${tokens[at - 2]?.text}.${token.text}; a test runs, or says in ctx.skip(reason) why it cannot here`;
  return null;
}

function skipParentheses(tokens: readonly Token[], at: number): number {
  if (tokens[at]?.text !== "(") return at;
  let depth = 0;
  for (let end = at; end < tokens.length; end += 1) {
    if (tokens[end]?.text === "(") depth += 1;
    if (tokens[end]?.text === ")") depth -= 1;
    if (depth === 0) return end + 1;
  }
  return tokens.length;
}

function isEmptyBlock(tokens: readonly Token[], at: number): boolean {
  return tokens[at]?.text === "{" && tokens[at + 1]?.text === "}";
}

/** `.catch(() => {})`, `.catch((error) => undefined)`, `.catch(function () {})` and the like. */
function isEmptyHandler(tokens: readonly Token[], open: number): boolean {
  let at = open + 1;
  if (tokens[at]?.text === "async") at += 1;
  if (tokens[at]?.text === "function") return isEmptyBlock(tokens, skipParentheses(tokens, at + 1));
  at = tokens[at]?.text === "(" ? skipParentheses(tokens, at) : at + 1;
  if (tokens[at]?.text !== "=>") return false;
  const isNothing = ["undefined", "null"].includes(tokens[at + 1]?.text ?? "") && tokens[at + 2]?.text === ")";
  return isNothing || isEmptyBlock(tokens, at + 1);
}

if (import.meta.main) reportProblems("silent failures", checkSilentFailures(repositoryRoot));
