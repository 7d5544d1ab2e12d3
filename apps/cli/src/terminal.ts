// Where words and data go: stdout carries data, stderr carries words and progress. A terminal gets colour and a picture redrawn in
// place; a pipe gets plain lines.

import pc from "picocolors";

export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

export interface Terminal {
  /** Data: one line. */
  print(line: string): void;
  /** Words for a person: one line on stderr, unless --quiet. */
  say(line: string): void;
  /** Always on stderr. */
  complain(text: string): void;
  /** A picture that replaces the one before; in a pipe nothing is drawn. */
  draw(lines: readonly string[]): void;
  /** Leaves the last picture standing; what follows goes below it. */
  settle(): void;
  readonly isLive: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly paint: Paint;
}

export type Paint = Pick<
  ReturnType<typeof pc.createColors>,
  "bold" | "dim" | "green" | "red" | "yellow" | "blue" | "cyan" | "magenta"
>;

export interface TerminalOptions {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isQuiet: boolean;
  readonly wantsColor: boolean;
}

export function createTerminal({ stdout, stderr, env, isQuiet, wantsColor }: TerminalOptions): Terminal {
  const isLive = stderr.isTTY === true && env["TERM"] !== "dumb" && !isQuiet;
  const hasColor = wantsColor && env["NO_COLOR"] === undefined && stdout.isTTY === true && env["TERM"] !== "dumb";
  let drawn: readonly string[] = [];
  // Up over the old picture, each line cleared before it is written again, the rest below cleared.
  const redraw = (lines: readonly string[], above = ""): void => {
    const up = drawn.length > 0 ? `\u001b[${drawn.length}A` : "";
    const words = above === "" ? "" : `\u001b[2K${above}\n`;
    stderr.write(`${up}${words}${lines.map((line) => `\u001b[2K${line}\n`).join("")}\u001b[0J`);
    drawn = lines;
  };
  return {
    isLive,
    // Asked each time: windows change their size.
    get columns() {
      return stderr.columns ?? 100;
    },
    get rows() {
      return stderr.rows ?? 40;
    },
    paint: pc.createColors(hasColor),
    print: (line) => void stdout.write(`${line}\n`),
    say(line) {
      if (isQuiet) return;
      // Words that come while a picture stands go above it; in its place they would be drawn over.
      if (drawn.length > 0) redraw(drawn, line);
      else stderr.write(`${line}\n`);
    },
    complain: (text) => void stderr.write(text),
    draw(lines) {
      if (isLive) redraw(lines);
    },
    settle() {
      drawn = [];
    },
  };
}

/** Columns padded to their widest cell; in a pipe the same, so that it stays readable and cuttable by spaces. */
export function layTable(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, visibleLength(cell))));
  return rows.map((row) =>
    row
      .map((cell, at) => (at === row.length - 1 ? cell : cell + " ".repeat((widths[at] ?? 0) - visibleLength(cell))))
      .join("  ")
      .trimEnd(),
  );
}

/** Length on screen: colours take no room. */
function visibleLength(text: string): number {
  return [...stripColor(text)].length;
}

function stripColor(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what a colour starts with
  return text.replace(/\u001b\[[0-9;]*m/g, "");
}

/** Text from elsewhere (labels, messages, names) must not move the cursor or ring the bell. */
export function tame(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is removed
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}
