// Output: stdout carries data, stderr messages and progress. A terminal gets colours and a display that is redrawn in place.

import { styleText } from "node:util";

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
  readonly #isQuiet: boolean;
  #drawn: readonly string[] = [];

  constructor({ stdout, stderr, env, isQuiet, wantsColor }: TerminalOptions) {
    const isDumb = env["TERM"] === "dumb";
    this.isInteractive = stderr.isTTY === true && !isDumb && !isQuiet;
    this.colors = createColors(wantsColor && env["NO_COLOR"] === undefined && stdout.isTTY === true && !isDumb);
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#isQuiet = isQuiet;
  }

  // Sizes are read each time: windows are resized.

  /** Width of stdout; infinite in a pipe, where nothing is truncated. */
  get stdoutColumns(): number {
    return this.#stdout.isTTY === true ? (this.#stdout.columns ?? 100) : Number.POSITIVE_INFINITY;
  }

  get stderrColumns(): number {
    return this.#stderr.columns ?? 100;
  }

  get stderrRows(): number {
    return this.#stderr.rows ?? 40;
  }

  /** Data: one line. */
  print(line: string): void {
    this.#stdout.write(`${line}\n`);
  }

  /** A message: one line on stderr, unless --quiet. */
  info(line: string): void {
    if (!this.#isQuiet) this.error(`${line}\n`);
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

/** Makes foreign text (labels, messages, names) safe to print: it cannot move the cursor or ring the bell. */
export function stripControlCharacters(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is removed
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}
