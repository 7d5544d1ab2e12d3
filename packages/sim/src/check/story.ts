// A world told in lines that a person can follow: processes, faults, phases, sessions, what was sent and done, and the facts of the log as they
// were first read. Reads, acks and heartbeats are left out unless something is wrong with them.

import type { AnswerSeen, Observation, TailPage } from "../observation.ts";
import { LogBook } from "./log-book.ts";
import { dispatchesIn, FrameReader, wordsIn } from "./wire.ts";

export interface StoryLine {
  readonly at: number;
  readonly text: string;
}

/** Frames that are told; the rest is noise. */
const quiet = new Set(["control.ack", "control.heartbeat", "control.handshake"]);

export class Storyteller {
  readonly #frames = new FrameReader();
  readonly #book = new LogBook();
  readonly #lines: StoryLine[] = [];

  hear(seen: Observation): void {
    for (const text of this.#tell(seen)) this.#lines.push({ at: seen.at, text });
  }

  /** All of it, or the lines that name one of these ids, with the faults and deaths between them. */
  lines(about: readonly string[] = []): readonly StoryLine[] {
    if (about.length === 0) return this.#lines;
    const isFrame = /^(fault|phase|process)/;
    return this.#lines.filter(({ text }) => isFrame.test(text) || about.some((id) => id !== "" && text.includes(id)));
  }

  #tell(seen: Observation): string[] {
    switch (seen.kind) {
      case "set-up": {
        const workers = seen.workers.map(
          ({ worker, instance, tenant, slots, pool }) => `${worker}=${tenant}/${instance} x${slots}${pool ? ` ${pool}` : ""}`,
        );
        return [`world of seed ${seen.seed}: schedulers ${seen.schedulers.join(" ")}, workers ${workers.join(", ")}`];
      }
      case "phase":
        return [`phase ${seen.phase}${seen.isInTime === false ? " (too late)" : ""}`];
      case "fault":
        return [`fault ${seen.name} at ${seen.target} ${seen.event}${seen.detail === undefined ? "" : ` (${seen.detail})`}`];
      case "process":
        return [`process ${seen.process} ${seen.event}${seen.detail === undefined ? "" : ` (${seen.detail})`}`];
      case "link":
        return [
          `${seen.connection} ${seen.worker}-${seen.scheduler} ${seen.event} (${seen.side}'s view${seen.detail === undefined ? "" : `, ${seen.detail}`})`,
        ];
      case "frame":
        return this.#tellFrame(seen);
      case "handler":
        return [
          `${seen.worker} handler of ${seen.task}#${seen.fence} ${seen.event}${seen.detail === undefined ? "" : ` (${seen.detail})`}`,
        ];
      case "call":
        return seen.caller === "tail" || seen.caller === "reader" || seen.caller === "auditor"
          ? []
          : [
              `${seen.caller} asks ${seen.scheduler}: ${seen.route} ${seen.idempotencyKey ?? ""}${Object.values(seen.params).join(" ")}`,
            ];
      case "answer":
        return this.#tellAnswer(seen);
      case "broken":
        return [`broken: ${seen.name} at ${seen.process}: ${seen.message}`];
    }
  }

  #tellFrame(seen: Extract<Observation, { kind: "frame" }>): string[] {
    const frame = this.#frames.read(seen);
    const way = seen.toward === "worker" ? `${seen.scheduler} → ${seen.worker}` : `${seen.worker} → ${seen.scheduler}`;
    const where = `${seen.connection} ${way} ${seen.event}`;
    const sent = dispatchesIn(frame);
    if (sent.length > 0) return sent.map(({ task, fence }) => `${where}: dispatch ${task}#${fence}`);
    const words = wordsIn(frame);
    if (words.length > 0) return words.map(({ of, task, fence, says }) => `${where}: ${of} ${says} ${task}#${fence}`);
    if (quiet.has(frame.type) && seen.event !== "lost") return [];
    return [`${where}: ${frame.type} ${JSON.stringify(frame.payload).slice(0, 160)}`];
  }

  #tellAnswer(seen: AnswerSeen & { at: number }): string[] {
    if (seen.route === "tailLog" && seen.status === 200)
      return this.#book
        .add(seen.tenant, seen.body as TailPage, seen.at)
        .map(
          (fact) =>
            `log of ${seen.tenant} ${fact.position}: ${fact.run ?? fact.worker} ${fact.type} ${JSON.stringify(fact.data).slice(0, 300)}`,
        );
    if (seen.caller === "tail" || seen.caller === "reader" || seen.caller === "auditor") return [];
    const { runId, error } = (seen.body ?? {}) as { runId?: string; error?: string };
    return [
      `${seen.caller} hears from ${seen.scheduler}: ${seen.route} ${seen.status === 0 ? "lost" : seen.status} ${runId ?? error ?? ""}`,
    ];
  }
}
