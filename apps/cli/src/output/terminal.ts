// Output: stdout carries data, stderr carries messages and progress. A terminal gets colours and a display that is redrawn in place; a
// pipe gets plain lines.

import { styleText } from "node:util";

export interface OutputStream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

export interface Terminal {
  /** Data: one line. */
  print(line: string): void;
  /** A message: one line on stderr, unless --quiet. */
  info(line: string): void;
  /** Always on stderr. */
  error(text: string): void;
  /** Replaces the lines that were drawn before; in a pipe nothing is drawn. */
  draw(lines: readonly string[]): void;
  /** Keeps the last lines that were drawn; further output goes below them. */
  finishDrawing(): void;
  readonly isInteractive: boolean;
  /** Width of stdout; infinite in a pipe, where nothing is truncated. */
  readonly stdoutColumns: number;
  readonly stderrColumns: number;
  readonly stderrRows: number;
  readonly colors: Colors;
}

const colorNames = ["bold", "dim", "green", "red", "yellow", "blue"] as const;
export type Colors = Readonly<Record<(typeof colorNames)[number], (text: string) => string>>;

export const createColors = (hasColor: boolean): Colors =>
  Object.fromEntries(
    colorNames.map((name) => [name, (text: string) => (hasColor ? styleText(name, text, { validateStream: false }) : text)]),
  ) as Colors;

/** Reports every key that is pressed until the returned function is called. */
export type ListenForKeys = (onKey: (key: string) => void) => () => void;

export interface TerminalOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isQuiet: boolean;
  readonly wantsColor: boolean;
}

export function createTerminal({ stdout, stderr, env, isQuiet, wantsColor }: TerminalOptions): Terminal {
  const isLive = stderr.isTTY === true && env["TERM"] !== "dumb" && !isQuiet;
  const hasColor = wantsColor && env["NO_COLOR"] === undefined && stdout.isTTY === true && env["TERM"] !== "dumb";
  let drawn: readonly string[] = [];
  // Move up over the old lines and to the left edge (typed keys have moved the cursor), clear each line before writing it again, then
  // clear the rest below. A message above them may wrap, so everything is cleared before it is written.
  const redraw = (lines: readonly string[], above = ""): void => {
    const up = drawn.length > 0 ? `\r\u001b[${drawn.length}A` : "";
    const aboveText = above === "" ? "" : `\u001b[0J${above}\n`;
    stderr.write(`${up}${aboveText}${lines.map((line) => `\u001b[2K${line}\n`).join("")}\u001b[0J`);
    drawn = lines;
  };
  return {
    isInteractive: isLive,
    get stdoutColumns() {
      return stdout.isTTY === true ? (stdout.columns ?? 100) : Number.POSITIVE_INFINITY;
    },
    // Read each time: windows are resized.
    get stderrColumns() {
      return stderr.columns ?? 100;
    },
    get stderrRows() {
      return stderr.rows ?? 40;
    },
    colors: createColors(hasColor),
    print: (line) => void stdout.write(`${line}\n`),
    info(line) {
      if (isQuiet) return;
      // A message goes above the lines that are drawn, or the next redraw would overwrite it.
      if (drawn.length > 0) redraw(drawn, line);
      else stderr.write(`${line}\n`);
    },
    error(text) {
      if (drawn.length > 0) redraw(drawn, text.replace(/\n$/, ""));
      else stderr.write(text);
    },
    draw(lines) {
      if (isLive) redraw(lines);
    },
    finishDrawing() {
      // Clears the ^C that the terminal has echoed there.
      if (drawn.length > 0) stderr.write("\r\u001b[0J");
      drawn = [];
    },
  };
}

/** Makes foreign text (labels, messages, names) safe to print: it cannot move the cursor or ring the bell. */
export function stripControlCharacters(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is removed
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}
