import stringWidth from "string-width";
import { expect, it } from "vitest";
import { fitTableToWidth, formatTable, truncate, truncateLine, truncateStart } from "./table.ts";
import { stripControlCharacters, Terminal } from "./terminal.ts";

function openTerminalFixture(isTTY: boolean, more: { isQuiet?: boolean; env?: Record<string, string> } = {}) {
  const written = { out: "", err: "" };
  const terminal = new Terminal({
    stdout: { write: (text) => (written.out += text), isTTY },
    stderr: { write: (text) => (written.err += text), isTTY, columns: 80, rows: 24 },
    env: more.env ?? {},
    isQuiet: more.isQuiet ?? false,
    wantsColor: true,
  });
  return { terminal, written };
}

it("[L1] [L52] the terminal redraws a live view in place from the left edge, and prints messages above it", () => {
  const { terminal, written } = openTerminalFixture(true);

  terminal.draw(["one", "two"]);
  terminal.info("connected again");
  terminal.draw(["three"]);
  terminal.error("GET /x\n");
  terminal.finishDrawing();
  terminal.info("the end");

  const up = "\r\u001b[2A";
  const clear = "\u001b[0J";
  const line = (text: string) => `\u001b[2K${text}\n`;
  expect(written.err).toBe(
    `${line("one")}${line("two")}\u001b[0J` +
      `${up}${clear}connected again\n${line("one")}${line("two")}\u001b[0J` +
      `${up}${line("three")}\u001b[0J` +
      `\r\u001b[1A${clear}GET /x\n${line("three")}${clear}\r${clear}the end\n`,
  );
});

it("[L14] a pipe gets no live view and no colour, NO_COLOR removes colours, TERM=dumb is not interactive, --quiet hides messages", () => {
  const pipe = openTerminalFixture(false);
  pipe.terminal.draw(["one"]);
  pipe.terminal.info(pipe.terminal.colors.red("words"));
  expect(pipe.written.err).toBe("words\n");

  expect(openTerminalFixture(true).terminal.colors.red("x")).not.toBe("x");
  expect(openTerminalFixture(true, { env: { NO_COLOR: "1" } }).terminal.colors.red("x")).toBe("x");
  expect(openTerminalFixture(true, { env: { TERM: "dumb" } }).terminal.isInteractive).toBe(false);

  const quiet = openTerminalFixture(true, { isQuiet: true });
  quiet.terminal.info("words");
  quiet.terminal.draw(["one"]);
  quiet.terminal.print("data");
  expect(quiet.written).toEqual({ out: "data\n", err: "" });
});

it("[L911] a terminal of 0 columns counts as one of 80, COLUMNS decides over what the terminal reports, and a pipe is never cut", () => {
  const widthsOf = (columns: number | undefined, env: Record<string, string> = {}, isTTY = true) => {
    const stream = { write: () => undefined, isTTY, ...(columns !== undefined && { columns, rows: columns }) };
    const { stdoutColumns, stderrColumns, stderrRows } = new Terminal({
      stdout: stream,
      stderr: stream,
      env,
      isQuiet: false,
      wantsColor: false,
    });
    return [stdoutColumns, stderrColumns, stderrRows];
  };

  expect(widthsOf(0)).toEqual([80, 80, 40]);
  expect(widthsOf(undefined)).toEqual([80, 80, 40]);
  expect(widthsOf(120)).toEqual([120, 120, 120]);
  expect(widthsOf(120, { COLUMNS: "40", LINES: "10" })).toEqual([40, 40, 10]);
  expect(widthsOf(0, { COLUMNS: "40" })).toEqual([40, 40, 40]);
  for (const wrong of ["0", "-1", "wide", "", "40.5"]) expect(widthsOf(120, { COLUMNS: wrong })).toEqual([120, 120, 120]);
  expect(widthsOf(0, { COLUMNS: "40" }, false)[0]).toBe(Number.POSITIVE_INFINITY);
});

it("[L911] a note is broken between words at the width of the terminal, and stays one line in a pipe", () => {
  const note = "Left out on this narrow screen: WORKFLOW, CREATED. Show them with --output wide.";
  const { terminal, written } = openTerminalFixture(true, { env: { COLUMNS: "40" } });
  terminal.info(note);
  terminal.info("  open http://127.0.0.1:8080/a/path/that/is/longer/than/forty/columns now");
  const pipe = openTerminalFixture(false, { env: { COLUMNS: "40" } });
  pipe.terminal.info(note);

  expect(written.err.split("\n")).toEqual([
    "Left out on this narrow screen:",
    "WORKFLOW, CREATED. Show them with",
    "--output wide.",
    "  open",
    "  http://127.0.0.1:8080/a/path/that/is/longer/than/forty/columns",
    "  now",
    "",
  ]);
  expect(pipe.written.err).toBe(`${note}\n`);
});

it("[L1] table columns are as wide as their visible text, and control characters in foreign text are removed", () => {
  const { colors } = openTerminalFixture(true).terminal;

  expect(
    formatTable([
      ["a", "b"],
      [colors.red("long"), "c"],
    ]),
  ).toEqual(["a     b", `${colors.red("long")}  c`]);
  expect(stripControlCharacters("a\u001b[2J\nb\u009b")).toBe("a [2J b ");
});

it("[L1] a table with Hangul and emoji keeps its columns aligned, and a shortened row is never wider than the screen", () => {
  const rows = [
    ["WORKFLOW", "STATUS"],
    ["환영 메일 보내기", "running"],
    ["👩‍🚀 welcome", "failed"],
  ];

  expect(formatTable(rows)).toEqual(["WORKFLOW          STATUS", "환영 메일 보내기  running", "👩‍🚀 welcome        failed"]);
  for (let width = 20; width < 28; width += 1)
    for (const line of formatTable(fitTableToWidth(rows, [{ kind: "text" }, {}], width)))
      expect(stringWidth(line)).toBeLessThanOrEqual(width);
  expect(truncate("환영합니다", 6)).toBe("환영…");
  expect(truncateStart("환영합니다", 6)).toBe("…니다");
  expect(truncateLine("환영합니다", 10)).toBe("환영합니…");
});
