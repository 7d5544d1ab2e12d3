/** Finds what only a program may do: read its environment, or ask whether it is the main module. Libraries get such things as arguments. */
import type { Token } from "./tokens.ts";

export interface ProgramOnlyUse {
  line: number;
  sentence: string;
}

export function findProgramOnlyUses(tokens: readonly Token[]): ProgramOnlyUse[] {
  const habits: ProgramOnlyUse[] = [];
  tokens.forEach((token, at) => {
    if (token.kind !== "word") return;
    const text = (offset: number) => tokens[at + offset]?.text;
    const isMember = text(1) === "." || text(1) === "?.";
    if (
      token.text === "process" &&
      ((isMember && text(2) === "env") || (text(1) === "[" && text(2) === "env") || destructuresEnv(tokens, at))
    )
      habits.push({ line: token.line, sentence: "reads process.env; packages are libraries, the app reads it and passes it in" });
    if (token.text === "import" && isMember && text(2) === "meta" && text(3) === "." && text(4) === "main")
      habits.push({
        line: token.line,
        sentence: "asks whether it is the main program; packages are libraries, programs live in apps",
      });
  });
  tokens.forEach((token, at) => {
    if (token.kind !== "string" || !/^(node:)?process$/.test(token.text) || tokens[at - 1]?.text !== "from") return;
    if (bindsEnvBefore(tokens, at - 1))
      habits.push({ line: token.line, sentence: "imports env; packages are libraries, the app reads it and passes it in" });
  });
  return habits;
}

/** `const { env } = process` */
function destructuresEnv(tokens: readonly Token[], at: number): boolean {
  return tokens[at - 1]?.text === "=" && bindsEnvBefore(tokens, at - 1);
}

/** Whether the braces that end before this token name `env`. */
function bindsEnvBefore(tokens: readonly Token[], at: number): boolean {
  if (tokens[at - 1]?.text !== "}") return false;
  for (let back = at - 2; back >= 0 && tokens[back]?.text !== "{"; back -= 1) if (tokens[back]?.text === "env") return true;
  return false;
}
