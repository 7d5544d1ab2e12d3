// Output: stdout carries data, stderr messages and progress. A terminal gets colours and a display that is redrawn in place.

import { styleText } from "node:util";
import stringWidth from "string-width";

export interface OutputStream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

const colorNames = ["bold", "dim", "green", "red", "yellow", "blue"] as const;
export type Colors = Readonly<Record<(typeof colorNames)[number], (text: string) => string>>;

export const createColors = (hasColor: boolean): Colors =>
  Object.fromEntries(
    colorNames.map((name) => [name, (text: string) => (hasColor ? styleText(name, text, { validateStream: false }) : text)]),
  ) as Colors;

/** Reports every key that is pressed until the returned function is called. */
export type ListenForKeys = (onKey: (key: string) => void) => () => void;

interface TerminalOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isQuiet: boolean;
  readonly wantsColor: boolean;
}

export class Terminal {
  readonly isInteractive: boolean;
  readonly colors: Colors;
  readonly #stdout: OutputStream;
  readonly #stderr: OutputStream;
  readonly #env: TerminalOptions["env"];
  readonly #isQuiet: boolean;
  #drawn: readonly string[] = [];

  constructor({ stdout, stderr, env, isQuiet, wantsColor }: TerminalOptions) {
    const isDumb = env["TERM"] === "dumb";
    this.isInteractive = stderr.isTTY === true && !isDumb && !isQuiet;
    this.colors = createColors(wantsColor && env["NO_COLOR"] === undefined && stdout.isTTY === true && !isDumb);
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#env = env;
    this.#isQuiet = isQuiet;
  }

  // Sizes are read each time: windows are resized.

  /** Width of stdout; infinite in a pipe, where nothing is truncated. */
  get stdoutColumns(): number {
    return this.#stdout.isTTY === true ? this.#columnsOf(this.#stdout) : Number.POSITIVE_INFINITY;
  }

  get stderrColumns(): number {
    return this.#columnsOf(this.#stderr);
  }

  get stderrRows(): number {
    return readSize(this.#env["LINES"]) ?? readSize(this.#stderr.rows) ?? 40;
  }

  /** Terminals without a window (serial lines, some containers) report 0 columns. */
  #columnsOf(stream: OutputStream): number {
    return readSize(this.#env["COLUMNS"]) ?? readSize(stream.columns) ?? 80;
  }

  /** Data: one line. */
  print(line: string): void {
    this.#stdout.write(`${line}\n`);
  }

  /** A message on stderr, unless --quiet: one line, which a terminal gets broken at its width. */
  info(line: string): void {
    if (this.#isQuiet) return;
    const lines = this.#stderr.isTTY === true ? wrapWords(line, this.stderrColumns) : [line];
    this.error(`${lines.join("\n")}\n`);
  }

  /** Always on stderr; above the lines that are drawn, or the next redraw would overwrite it. */
  error(text: string): void {
    if (this.#drawn.length > 0) this.#redraw(this.#drawn, text.replace(/\n$/, ""));
    else this.#stderr.write(text);
  }

  /** Replaces the lines that were drawn before; in a pipe nothing is drawn. */
  draw(lines: readonly string[]): void {
    if (this.isInteractive) this.#redraw(lines);
  }

  /** Keeps the last lines that were drawn; further output goes below them. */
  finishDrawing(): void {
    // Clears the ^C that the terminal has echoed there.
    if (this.#drawn.length > 0) this.#stderr.write("\r\u001b[0J");
    this.#drawn = [];
  }

  /**
   * Moves up over the old lines and to the left edge (typed keys have moved the cursor), clears each line before writing it again, then
   * clears the rest below. A message above them may wrap, so everything is cleared before it is written.
   */
  #redraw(lines: readonly string[], above = ""): void {
    const up = this.#drawn.length > 0 ? `\r\u001b[${this.#drawn.length}A` : "";
    const aboveText = above === "" ? "" : `\u001b[0J${above}\n`;
    this.#stderr.write(`${up}${aboveText}${lines.map((line) => `\u001b[2K${line}\n`).join("")}\u001b[0J`);
    this.#drawn = lines;
  }
}

/** Null: unknown, or a size that no terminal has. */
function readSize(given: number | string | undefined): number | null {
  const size = Number(given ?? 0);
  return Number.isInteger(size) && size > 0 ? size : null;
}

/** Breaks a line between its words. A word that is longer than the line stays whole: an address or a command must be copied in one piece. */
function wrapWords(line: string, columns: number): string[] {
  if (stringWidth(line) <= columns) return [line];
  const [indent = ""] = /^ */.exec(line) ?? [];
  const lines: string[] = [];
  let last = indent;
  for (const word of line.trim().split(" ")) {
    const longer = last === indent ? `${indent}${word}` : `${last} ${word}`;
    if (last !== indent && stringWidth(longer) > columns) {
      lines.push(last);
      last = `${indent}${word}`;
    } else last = longer;
  }
  return [...lines, last];
}

/** Makes foreign text (labels, messages, names) safe to print: it cannot move the cursor or ring the bell. */
export function stripControlCharacters(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is removed
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}
