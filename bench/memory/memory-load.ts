// Load that tries to fill a scheduler's memory: runs with large parameters, and readers of events that never read. Works on any scheduler that is
// up: it needs an address, tokens and, for the figures, a process id.

import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import type { Workflow } from "@astraflow/protocol";

export interface LoadTarget {
  readonly http: string;
  /** Requests take them in turn. */
  readonly tokens: readonly string[];
}

/** How requests were answered, by status; 0: not at all. */
export type AnswerCounts = ReadonlyMap<number, number>;

const requestMs = 120_000;
const MiB = 1024 * 1024;

/** One node whose parameter is a text of this length. Every call gives another text: equal definitions are stored once. */
function largeWorkflow(paramsBytes: number): Workflow {
  const start = randomUUID();
  return {
    id: randomUUID(),
    schemaVersion: "2025-10",
    metadata: { name: "Large parameters" },
    nodes: [
      {
        id: randomUUID(),
        type: "demo.text",
        label: "text",
        package: { name: "demo", version: "1.0.0" },
        position: { x: 0, y: 0 },
        parameters: { text: start + "x".repeat(Math.max(0, paramsBytes - start.length)) },
      },
    ],
    edges: [],
  };
}

/** Starts runs, so many at a time. The texts are made one by one: they must not fill the memory of whoever sends them. */
export async function startLargeRuns(
  { http, tokens }: LoadTarget,
  { runs, paramsBytes, concurrency }: { readonly runs: number; readonly paramsBytes: number; readonly concurrency: number },
): Promise<AnswerCounts> {
  const counts = new Map<number, number>();
  let next = 0;
  const send = async (): Promise<void> => {
    for (let at = next++; at < runs; at = next++) {
      const status = await startRun(http, tokens[at % tokens.length] ?? "", largeWorkflow(paramsBytes));
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, send));
  return counts;
}

async function startRun(http: string, token: string, workflow: Workflow): Promise<number> {
  try {
    const response = await fetch(`${http}/api/v1/runs`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": randomUUID() },
      body: JSON.stringify({ workflow, clientId: "memory-load" }),
      signal: AbortSignal.timeout(requestMs),
    });
    await response.arrayBuffer();
    return response.status;
  } catch (problem) {
    // A scheduler that dies of the load answers nothing more: that is a figure too.
    if (problem instanceof TypeError || (problem as Error).name === "TimeoutError") return 0;
    throw problem;
  }
}

/** Readers of the event stream, from the beginning of the log, that take nothing from their sockets after the head of the answer. */
export class SilentReaders {
  readonly #sockets: Socket[] = [];

  /** Resolves once each of them has its answer's head, or was hung up on. */
  async open({ http, tokens }: LoadTarget, readers: number): Promise<AnswerCounts> {
    const { hostname, port } = new URL(http);
    const counts = new Map<number, number>();
    for (let at = 0; at < readers; at++) {
      const status = await this.#openOne(hostname, Number(port), tokens[at % tokens.length] ?? "");
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }
    return counts;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #openOne(host: string, port: number, token: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port });
      socket.on("error", reject);
      socket.once("data", (bytes: Buffer) => {
        socket.pause();
        socket.off("error", reject);
        // The scheduler may cut it later: that is no failure of the load.
        socket.on("error", () => socket.destroy());
        resolve(Number(bytes.toString("latin1", 9, 12)));
      });
      socket.write(
        `GET /api/v1/events HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\nlast-event-id: 0\r\naccept: text/event-stream\r\n\r\n`,
      );
      this.#sockets.push(socket);
    });
  }
}

export interface ResidentMemory {
  readonly nowMb: number;
  /** Since the start, or since `resetPeak`. */
  readonly peakMb: number;
}

/** Linux only, like the other figures of processes. */
export function readResidentMemory(pid: number): ResidentMemory {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mb = (name: string): number => (Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024) / MiB;
  return { nowMb: mb("VmRSS"), peakMb: mb("VmHWM") };
}

/** From here on the peak is counted anew. */
export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}
