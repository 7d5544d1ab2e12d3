// News for the other schedulers: names of lines, tenants, and "there is mail". One message in 20 ms at most, over a connection of its
// own, after the commit. Hints may be lost: whatever goes wrong here is mended in the background and fails nothing.

import { randomBytes } from "node:crypto";
import type { StoreHint } from "@astraflow/engine";
import { dollarQuote } from "../sql/literals.ts";
import type { PostgresAddress } from "./address.ts";
import { PostgresConnection } from "./connection.ts";

const channel = "astraflow_hint";
const periodMs = 20;
/** The server takes payloads below 8,000 bytes. */
const payloadBytesMax = 7_500;
/** More news than this in one period is dropped: everybody looks at all lines once a second anyway. */
const messagesMax = 16;
const retryMsMin = 100;
const retryMsMax = 5_000;

export interface HintBatch {
  readonly lines: readonly string[];
  readonly tenants: readonly string[];
  readonly hasMail: boolean;
}

/** A message on the wire: who speaks, lines, tenants, mail. */
type HintMessage = readonly [from: string, lines: readonly string[], tenants: readonly string[], mail: 0 | 1];

export class HintChannel {
  readonly #address: PostgresAddress;
  readonly #hintListener: (hint: StoreHint) => void;
  readonly #senderId = randomBytes(6).toString("hex");
  readonly #lines = new Set<string>();
  readonly #tenants = new Set<string>();
  #hasMail = false;
  #connection: PostgresConnection | null = null;
  #sendTimer: NodeJS.Timeout | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #retryMs = retryMsMin;
  #isClosed = false;
  #sending: Promise<void> = Promise.resolve();

  constructor(address: PostgresAddress, listener: (hint: StoreHint) => void) {
    this.#address = address;
    this.#hintListener = listener;
  }

  /** Answers once it listens, or once it has failed to and will try again. */
  async start(): Promise<void> {
    let connection: PostgresConnection | null = null;
    try {
      connection = await PostgresConnection.connect(this.#address, null);
      connection.onNotification((payload) => this.#receive(payload));
      await connection.query(`LISTEN ${channel}`, 1);
      if (this.#isClosed) return await connection.close();
      this.#connection = connection;
      this.#retryMs = retryMsMin;
    } catch {
      connection?.destroy();
      this.#reconnectLater();
      return;
    }
    connection.onLost(() => {
      if (this.#connection === connection) this.#reconnectLater();
    });
  }

  publish(batch: HintBatch): void {
    for (const line of batch.lines) this.#lines.add(line);
    for (const tenant of batch.tenants) this.#tenants.add(tenant);
    this.#hasMail ||= batch.hasMail;
    if (this.#sendTimer !== null || (this.#lines.size === 0 && this.#tenants.size === 0 && !this.#hasMail)) return;
    this.#sendTimer = setTimeout(() => this.#send(), periodMs);
    this.#sendTimer.unref();
  }

  /** Says what it still had to say, then leaves. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    if (this.#sendTimer !== null) {
      clearTimeout(this.#sendTimer);
      this.#send();
    }
    await this.#sending;
    const connection = this.#connection;
    this.#connection = null;
    await connection?.close();
  }

  #send(): void {
    this.#sendTimer = null;
    const messages = encodeHints(this.#senderId, [...this.#lines], [...this.#tenants], this.#hasMail);
    this.#lines.clear();
    this.#tenants.clear();
    this.#hasMail = false;
    const words = messages.map((payload) => `pg_notify('${channel}', ${dollarQuote(payload)})`);
    this.#sending = this.#sending.then(async () => {
      const connection = this.#connection;
      if (connection === null || connection.lostError !== null) return;
      try {
        await connection.query(`SELECT ${words.join(", ")}`, 1);
      } catch {
        connection.destroy();
      }
    });
  }

  #receive(payload: string): void {
    const message = decodeHints(payload);
    if (message === null || message[0] === this.#senderId) return;
    for (const line of message[1]) this.#hintListener({ type: "line", line });
    for (const tenant of message[2]) this.#hintListener({ type: "log", tenant });
    if (message[3] === 1) this.#hintListener({ type: "mail" });
  }

  /** Dials again, later each time. Whatever was said meanwhile is lost, so the listener is told to look. */
  #reconnectLater(): void {
    this.#connection = null;
    if (this.#isClosed) return;
    this.#retryTimer = setTimeout(() => {
      void this.start().then(() => {
        if (this.#connection !== null) this.#hintListener({ type: "mail" });
      });
    }, this.#retryMs);
    this.#retryTimer.unref();
    this.#retryMs = Math.min(2 * this.#retryMs, retryMsMax);
  }
}

/** As few messages as the names fit into; a name too long for one is left out. */
function encodeHints(from: string, lines: readonly string[], tenants: readonly string[], hasMail: boolean): string[] {
  const messages: string[] = [];
  let now: { lines: string[]; tenants: string[]; bytes: number } = { lines: [], tenants: [], bytes: 0 };
  let mail: 0 | 1 = hasMail ? 1 : 0;
  const flush = () => {
    const message: HintMessage = [from, now.lines, now.tenants, mail];
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
function decodeHints(payload: string): HintMessage | null {
  let value: unknown;
  try {
    value = JSON.parse(payload);
  } catch {
    return null;
  }
  const isNames = (one: unknown) => Array.isArray(one) && one.every((name) => typeof name === "string");
  return Array.isArray(value) && typeof value[0] === "string" && isNames(value[1]) && isNames(value[2])
    ? (value as unknown as HintMessage)
    : null;
}
