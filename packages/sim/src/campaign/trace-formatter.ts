// Formats a simulated run as readable lines: processes, faults, phases, sessions, frames, handlers, and the facts of the log as they were first read.
// Reads, acks and heartbeats are left out unless something is wrong with them.

import { MergedLog } from "../checking/merged-log.ts";
import { dispatchesIn, FrameReader, taskReportsIn } from "../checking/observed-frame.ts";
import type { ApiAnswerObservation, Observation, TenantLogPage } from "../observation/observation.ts";

export interface TraceLine {
  readonly at: number;
  readonly text: string;
}

/** Frames that are told; the rest is noise. */
const omittedFrameTypes = new Set(["control.ack", "control.heartbeat", "control.handshake"]);

export class TraceFormatter {
  readonly #frameReader = new FrameReader();
  readonly #mergedLog = new MergedLog();
  readonly #lines: TraceLine[] = [];

  observe(observation: Observation): void {
    for (const text of this.#format(observation)) this.#lines.push({ at: observation.at, text });
  }

  /** All of it, or the lines that name one of these ids, with the faults and deaths between them. */
  lines(about: readonly string[] = []): readonly TraceLine[] {
    if (about.length === 0) return this.#lines;
    const isFrame = /^(fault|phase|process)/;
    return this.#lines.filter(({ text }) => isFrame.test(text) || about.some((id) => id !== "" && text.includes(id)));
  }

  #format(observation: Observation): string[] {
    switch (observation.kind) {
      case "set-up": {
        const workers = observation.workers.map(
          ({ worker, instance, tenant, slots, pool }) => `${worker}=${tenant}/${instance} x${slots}${pool ? ` ${pool}` : ""}`,
        );
        return [
          `world of seed ${observation.seed}: schedulers ${observation.schedulers.join(" ")}, workers ${workers.join(", ")}`,
        ];
      }
      case "phase":
        return [`phase ${observation.phase}${observation.isInTime === false ? " (too late)" : ""}`];
      case "fault":
        return [
          `fault ${observation.name} at ${observation.target} ${observation.event}${observation.detail === undefined ? "" : ` (${observation.detail})`}`,
        ];
      case "process":
        return [
          `process ${observation.process} ${observation.event}${observation.detail === undefined ? "" : ` (${observation.detail})`}`,
        ];
      case "link":
        return [
          `${observation.connection} ${observation.worker}-${observation.scheduler} ${observation.event} (${observation.side}'s view${observation.detail === undefined ? "" : `, ${observation.detail}`})`,
        ];
      case "frame":
        return this.#formatFrame(observation);
      case "handler":
        return [
          `${observation.worker} handler of ${observation.task}#${observation.fence} ${observation.event}${observation.detail === undefined ? "" : ` (${observation.detail})`}`,
        ];
      case "call":
        return observation.caller === "tail" || observation.caller === "reader" || observation.caller === "auditor"
          ? []
          : [
              `${observation.caller} asks ${observation.scheduler}: ${observation.route} ${observation.idempotencyKey ?? ""}${Object.values(observation.params).join(" ")}`,
            ];
      case "answer":
        return this.#formatAnswer(observation);
      case "broken":
        return [`broken: ${observation.name} at ${observation.process}: ${observation.message}`];
    }
  }

  #formatFrame(observation: Extract<Observation, { kind: "frame" }>): string[] {
    const frame = this.#frameReader.read(observation);
    const way =
      observation.toward === "worker"
        ? `${observation.scheduler} → ${observation.worker}`
        : `${observation.worker} → ${observation.scheduler}`;
    const where = `${observation.connection} ${way} ${observation.event}`;
    const sent = dispatchesIn(frame);
    if (sent.length > 0) return sent.map(({ task, fence }) => `${where}: dispatch ${task}#${fence}`);
    const reports = taskReportsIn(frame);
    if (reports.length > 0)
      return reports.map(({ of, task, fence, outcome: says }) => `${where}: ${of} ${says} ${task}#${fence}`);
    if (omittedFrameTypes.has(frame.type) && observation.event !== "lost") return [];
    return [`${where}: ${frame.type} ${JSON.stringify(frame.payload).slice(0, 160)}`];
  }

  #formatAnswer(observation: ApiAnswerObservation & { at: number }): string[] {
    if (observation.route === "tailLog" && observation.status === 200)
      return this.#mergedLog
        .addPage(observation.tenant, observation.body as TenantLogPage, observation.at)
        .map(
          (fact) =>
            `log of ${observation.tenant} ${fact.position}: ${fact.run ?? fact.worker} ${fact.type} ${JSON.stringify(fact.data).slice(0, 300)}`,
        );
    if (observation.caller === "tail" || observation.caller === "reader" || observation.caller === "auditor") return [];
    const { runId, error } = (observation.body ?? {}) as { runId?: string; error?: string };
    return [
      `${observation.caller} hears from ${observation.scheduler}: ${observation.route} ${observation.status === 0 ? "lost" : observation.status} ${runId ?? error ?? ""}`,
    ];
  }
}
