// Hints to other schedulers, at most every 20 ms and after the commit. Best effort: failures are retried in the background and never fail a turn.

import { randomBytes } from "node:crypto";
import type { StoreHint } from "@astraflow/engine";
import { dollarQuote } from "../sql/literals.ts";
import { type PostgresAddress, PostgresConnection } from "./connection.ts";

const channel = "astraflow_hint";
const periodMs = 20;
/** The server takes payloads below 8,000 bytes. */
const payloadBytesMax = 7_500;
/** More news than this in one period is dropped: everybody looks at all lines once a second anyway. */
const messagesMax = 16;
const retryMsMin = 100;
const retryMsMax = 5_000;

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
    let connection: PostgresConnection;
    try {
      connection = await PostgresConnection.connect(this.#address, (made) => made.query(`LISTEN ${channel}`, 1));
      connection.onNotification((payload) => this.#receive(payload));
      if (this.#isClosed) return await connection.close();
      this.#connection = connection;
      this.#retryMs = retryMsMin;
    } catch {
      this.#reconnectLater();
      return;
    }
    connection.onLost(() => {
      if (this.#connection === connection) this.#reconnectLater();
    });
  }

  publish(lines: Iterable<string>, tenants: Iterable<string>, hasMail: boolean): void {
    for (const line of lines) this.#lines.add(line);
    for (const tenant of tenants) this.#tenants.add(tenant);
    this.#hasMail ||= hasMail;
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
    const messages = encodeHints(this.#senderId, this.#lines, this.#tenants, this.#hasMail);
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
function encodeHints(from: string, lines: Iterable<string>, tenants: Iterable<string>, hasMail: boolean): string[] {
  let message: [from: string, lines: string[], tenants: string[], mail: 0 | 1] = [from, [], [], hasMail ? 1 : 0];
  const messages: HintMessage[] = [message];
  let messageBytes = 0;
  const add = (to: 1 | 2, name: string) => {
    const bytes = Buffer.byteLength(JSON.stringify(name)) + 1;
    if (bytes > payloadBytesMax - 100) return;
    if (messageBytes + bytes > payloadBytesMax - 100) {
      messages.push((message = [from, [], [], 0]));
      messageBytes = 0;
    }
    message[to].push(name);
    messageBytes += bytes;
  };
  for (const tenant of tenants) add(2, tenant);
  for (const line of lines) add(1, line);
  return messages.slice(0, messagesMax).map((one) => JSON.stringify(one));
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
