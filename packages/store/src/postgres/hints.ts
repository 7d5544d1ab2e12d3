// News for the other schedulers: names of lines, tenants, and "there is mail". One message in 20 ms at most, over a connection of its
// own, after the commit. Hints may be lost: whatever goes wrong here is mended in the background and fails nothing.

import { randomBytes } from "node:crypto";
import type { StoreHint } from "@astraflow/engine";
import type { Address } from "./address.ts";
import { Link } from "./link.ts";
import { quote } from "./literal.ts";

const channel = "astraflow_hint";
const periodMs = 20;
/** The server takes payloads below 8,000 bytes. */
const payloadBytesMax = 7_500;
/** More news than this in one period is dropped: everybody looks at all lines once a second anyway. */
const messagesMax = 16;
const retryMsLeast = 100;
const retryMsMax = 5_000;

export interface News {
  readonly lines: readonly string[];
  readonly tenants: readonly string[];
  readonly hasMail: boolean;
}

/** A message on the wire: who speaks, lines, tenants, mail. */
type Message = readonly [from: string, lines: readonly string[], tenants: readonly string[], mail: 0 | 1];

export class HintPost {
  readonly #address: Address;
  readonly #hear: (hint: StoreHint) => void;
  readonly #me = randomBytes(6).toString("hex");
  readonly #lines = new Set<string>();
  readonly #tenants = new Set<string>();
  #hasMail = false;
  #link: Link | null = null;
  #timer: NodeJS.Timeout | null = null;
  #retry: NodeJS.Timeout | null = null;
  #retryMs = retryMsLeast;
  #isClosed = false;
  #sending: Promise<void> = Promise.resolve();

  constructor(address: Address, hear: (hint: StoreHint) => void) {
    this.#address = address;
    this.#hear = hear;
  }

  /** Answers once it listens, or once it has failed to and will try again. */
  async start(): Promise<void> {
    let link: Link | null = null;
    try {
      link = await Link.connect(this.#address, null);
      link.onNotice((payload) => this.#receive(payload));
      await link.query(`LISTEN ${channel}`, 1);
      if (this.#isClosed) return await link.end();
      this.#link = link;
      this.#retryMs = retryMsLeast;
    } catch {
      link?.cut();
      this.#again();
      return;
    }
    link.onLost(() => {
      if (this.#link === link) this.#again();
    });
  }

  tell(news: News): void {
    for (const line of news.lines) this.#lines.add(line);
    for (const tenant of news.tenants) this.#tenants.add(tenant);
    this.#hasMail ||= news.hasMail;
    if (this.#timer !== null || (this.#lines.size === 0 && this.#tenants.size === 0 && !this.#hasMail)) return;
    this.#timer = setTimeout(() => this.#send(), periodMs);
    this.#timer.unref();
  }

  /** Says what it still had to say, then leaves. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#send();
    }
    await this.#sending;
    const link = this.#link;
    this.#link = null;
    await link?.end();
  }

  #send(): void {
    this.#timer = null;
    const messages = packNews(this.#me, [...this.#lines], [...this.#tenants], this.#hasMail);
    this.#lines.clear();
    this.#tenants.clear();
    this.#hasMail = false;
    const words = messages.map((payload) => `pg_notify('${channel}', ${quote(payload)})`);
    this.#sending = this.#sending.then(async () => {
      const link = this.#link;
      if (link === null || link.lost !== null) return;
      try {
        await link.query(`SELECT ${words.join(", ")}`, 1);
      } catch {
        link.cut();
      }
    });
  }

  #receive(payload: string): void {
    const message = readNews(payload);
    if (message === null || message[0] === this.#me) return;
    for (const line of message[1]) this.#hear({ type: "line", line });
    for (const tenant of message[2]) this.#hear({ type: "log", tenant });
    if (message[3] === 1) this.#hear({ type: "mail" });
  }

  /** Dials again, later each time. Whatever was said meanwhile is lost, so the listener is told to look. */
  #again(): void {
    this.#link = null;
    if (this.#isClosed) return;
    this.#retry = setTimeout(() => {
      void this.start().then(() => {
        if (this.#link !== null) this.#hear({ type: "mail" });
      });
    }, this.#retryMs);
    this.#retry.unref();
    this.#retryMs = Math.min(2 * this.#retryMs, retryMsMax);
  }
}

/** As few messages as the names fit into; a name too long for one is left out. */
function packNews(from: string, lines: readonly string[], tenants: readonly string[], hasMail: boolean): string[] {
  const messages: string[] = [];
  let now: { lines: string[]; tenants: string[]; bytes: number } = { lines: [], tenants: [], bytes: 0 };
  let mail: 0 | 1 = hasMail ? 1 : 0;
  const flush = () => {
    const message: Message = [from, now.lines, now.tenants, mail];
    messages.push(JSON.stringify(message));
    mail = 0;
    now = { lines: [], tenants: [], bytes: 0 };
  };
  const add = (to: "lines" | "tenants", name: string) => {
    const bytes = Buffer.byteLength(JSON.stringify(name)) + 1;
    if (bytes > payloadBytesMax - 100) return;
    if (now.bytes + bytes > payloadBytesMax - 100) flush();
    now[to].push(name);
    now.bytes += bytes;
  };
  for (const tenant of tenants) add("tenants", tenant);
  for (const line of lines) add("lines", line);
  if (now.bytes > 0 || mail === 1) flush();
  return messages.slice(0, messagesMax);
}

/** Null for what is not ours: anybody may speak on a channel. */
function readNews(payload: string): Message | null {
  let value: unknown;
  try {
    value = JSON.parse(payload);
  } catch {
    return null;
  }
  const isNames = (one: unknown) => Array.isArray(one) && one.every((name) => typeof name === "string");
  return Array.isArray(value) && typeof value[0] === "string" && isNames(value[1]) && isNames(value[2])
    ? (value as unknown as Message)
    : null;
}
