// A request typed as a line, as telnet sends it: words separated by spaces, quoted as Redis reads them.

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", a: "\x07" };

/** The words of a line, one character a byte; null where a quote is not closed, or text follows a closing quote. */
export function splitInlineCommand(line: string): string[] | null {
  const words: string[] = [];
  let at = 0;
  for (;;) {
    while (at < line.length && isSpace(line[at])) at++;
    if (at >= line.length) return words;
    const word = readWord(line, at);
    if (word === null) return null;
    words.push(word.text);
    at = word.end;
  }
}

interface Word {
  readonly text: string;
  /** Where the rest of the line begins. */
  readonly end: number;
}

function readWord(line: string, from: number): Word | null {
  let text = "";
  let at = from;
  while (at < line.length && !isSpace(line[at])) {
    const first = line[at];
    if (first !== '"' && first !== "'") {
      text += first;
      at++;
      continue;
    }
    const quoted = first === '"' ? readDoubleQuoted(line, at + 1) : readSingleQuoted(line, at + 1);
    if (quoted === null || (quoted.end < line.length && !isSpace(line[quoted.end]))) return null;
    return { text: text + quoted.text, end: quoted.end };
  }
  return { text, end: at };
}

function readDoubleQuoted(line: string, from: number): Word | null {
  let text = "";
  for (let at = from; at < line.length; at++) {
    const one = line[at] as string;
    if (one === '"') return { text, end: at + 1 };
    if (one !== "\\" || at + 1 >= line.length) {
      text += one;
      continue;
    }
    const hex = /^x([0-9a-fA-F]{2})/.exec(line.slice(at + 1, at + 4))?.[1];
    if (hex !== undefined) {
      text += String.fromCharCode(Number.parseInt(hex, 16));
      at += 3;
    } else {
      const next = line[at + 1] as string;
      text += escapes[next] ?? next;
      at++;
    }
  }
  return null;
}

function readSingleQuoted(line: string, from: number): Word | null {
  let text = "";
  for (let at = from; at < line.length; at++) {
    if (line[at] === "'") return { text, end: at + 1 };
    if (line[at] === "\\" && line[at + 1] === "'") at++;
    text += line[at];
  }
  return null;
}

const isSpace = (one: string | undefined): boolean => one === " " || one === "\t" || one === "\r" || one === "\n" || one === "\0";
