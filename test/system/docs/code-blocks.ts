// The code blocks of a Markdown page, and the commands and requests in them. Pure; running them is page-session.ts. No test lives here.

export interface CodeBlock {
  /** Of its opening fence, counted from 1. */
  readonly line: number;
  /** The first word after the fence: `sh`, `console`, `http`, `json`, … */
  readonly language: string;
  /** The other words: `workflow`, or `file=small.json`. */
  readonly options: ReadonlyMap<string, string>;
  readonly text: string;
}

export interface PageBlocks {
  readonly blocks: readonly CodeBlock[];
  /** What cannot be read as a block with a language, as sentences. */
  readonly problems: readonly string[];
}

export function readCodeBlocks(markdown: string): PageBlocks {
  const lines = markdown.split("\n");
  const blocks: CodeBlock[] = [];
  const problems: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const fence = /^( *)```(.*)$/.exec(lines[at] ?? "");
    if (fence === null) {
      const isCode = /^ {4,}\S/.test(lines[at] ?? "") && (lines[at - 1] ?? "").trim() === "";
      if (isCode) problems.push(`line ${at + 1}: indented code has no language; put it between fences and name one`);
      continue;
    }
    const [, indent = "", info = ""] = fence;
    const line = at + 1;
    const text: string[] = [];
    for (at += 1; at < lines.length && !(lines[at] ?? "").trim().startsWith("```"); at++)
      text.push((lines[at] ?? "").replace(indent, ""));
    const [language = "", ...words] = info.trim().split(/\s+/);
    const options = new Map(
      words.map((word) => [word.split("=")[0] ?? "", word.includes("=") ? word.slice(word.indexOf("=") + 1) : ""]),
    );
    if (language === "") problems.push(`line ${line}: the block has no language`);
    blocks.push({ line, language, options, text: text.join("\n") });
  }
  return { blocks, problems };
}

/** The commands of a shell script: one a line, with continued lines and here-documents in one piece. Comments are left out. */
export function readCommands(text: string): string[] {
  const commands: string[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    let command = lines[at] ?? "";
    if (command.trim() === "" || command.trim().startsWith("#")) continue;
    const end = /<<'?(\w+)'?/.exec(command)?.[1];
    const goesOn = (): boolean => (end === undefined ? command.endsWith("\\") || hasOpenQuote(command) : lines[at] !== end);
    while (at + 1 < lines.length && goesOn()) command += `\n${lines[++at]}`;
    commands.push(command);
  }
  return commands;
}

const hasOpenQuote = (command: string): boolean => (command.replaceAll('\\"', "").split('"').length - 1) % 2 === 1;

export interface ConsoleStep {
  readonly command: string;
  readonly output: string;
}

/** `$ command`, then what it prints. */
export function readConsole(text: string): ConsoleStep[] {
  return text.split(/^(?=\$ )/m).map((part) => {
    const [command = "", ...output] = splitAfterCommand(part.replace(/^\$ /, ""));
    return { command, output: output.join("\n").trim() };
  });
}

function splitAfterCommand(part: string): string[] {
  const lines = part.split("\n");
  const length = 1 + lines.findIndex((line) => !line.endsWith("\\"));
  return [lines.slice(0, length).join("\n"), ...lines.slice(length)];
}

export interface HttpStep {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** As it is shown; undefined where the page shows none. */
  readonly status: number | undefined;
  readonly answer: string;
}

/** `METHOD /path body`, indented lines that go on with the body, headers as `Name: value`, then `200 {…}` or `{…}`. */
export function readHttp(text: string): HttpStep[] {
  return text.split(/^(?=(?:GET|POST|PUT|PATCH|DELETE) )/m).map((part) => {
    const [first = "", ...rest] = part.split("\n");
    const [method = "", path = "", ...body] = first.split(" ");
    const headers: Record<string, string> = {};
    while (/^ +\S/.test(rest[0] ?? "")) body.push((rest.shift() ?? "").trim());
    for (let header = readHeader(rest[0]); header !== null; header = readHeader(rest[0])) {
      headers[header.name] = header.value;
      rest.shift();
    }
    const [, status, answer = ""] = /^(\d{3})?\s*([\s\S]*)$/.exec(rest.join("\n").trim()) ?? [];
    return {
      method,
      path,
      headers,
      body: body.join(" ").trim(),
      status: status === undefined ? undefined : Number(status),
      answer,
    };
  });
}

function readHeader(line = ""): { name: string; value: string } | null {
  const [, name, value] = /^([A-Z][\w-]+): (.+)$/.exec(line) ?? [];
  return name === undefined || value === undefined ? null : { name, value };
}
