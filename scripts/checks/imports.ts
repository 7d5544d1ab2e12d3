/** Which modules a source names: static, lazy and by `export from`. Whether it may is for layers.ts and purity.ts. */
import type { Token } from "./tokens.ts";

export interface Import {
  specifier: string;
  line: number;
  /** `import("...")`: the module is loaded when the line is reached, if ever. */
  isLazy: boolean;
}

export function readImports(tokens: readonly Token[]): Import[] {
  const imports: Import[] = [];
  tokens.forEach((token, at) => {
    if (token.kind !== "word" || tokens[at - 1]?.text === ".") return;
    const next = tokens[at + 1];
    const afterNext = tokens[at + 2];
    const isCall = next?.kind === "mark" && next.text === "(" && afterNext?.kind === "string";
    if ((token.text === "from" || token.text === "import") && next?.kind === "string")
      imports.push({ specifier: next.text, line: next.line, isLazy: false });
    else if ((token.text === "import" || token.text === "require") && isCall)
      imports.push({ specifier: afterNext.text, line: afterNext.line, isLazy: token.text === "import" });
  });
  return imports;
}
