// Formats a simulated run as readable lines: processes, faults, phases, sessions, frames, handlers, and the facts of the log as they were first read.
// Reads, acks and heartbeats are left out unless something is wrong with them.

import { MergedLog } from "../checking/merged-log.ts";
import { FrameReader } from "../checking/observed-frame.ts";
import type { Observation, TenantLogPage } from "../observation/observation.ts";

export interface TraceLine {
  readonly at: number;
  readonly text: string;
}

/** Frames that are told; the rest is noise. */
const omittedFrameTypes = new Set(["control.ack", "control.heartbeat", "control.handshake"]);
const omittedCallers = new Set(["tail", "reader", "auditor"]);

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
        return [`fault ${observation.name} at ${observation.target} ${observation.event}${inBrackets(observation.detail)}`];
      case "process":
        return [`process ${observation.process} ${observation.event}${inBrackets(observation.detail)}`];
      case "link": {
        const { connection, worker, scheduler, event, side, detail } = observation;
        return [`${connection} ${worker}-${scheduler} ${event} (${side}'s view${detail === undefined ? "" : `, ${detail}`})`];
      }
      case "frame":
        return this.#formatFrame(observation);
      case "handler": {
        const { worker, task, fence, event, detail } = observation;
        return [`${worker} handler of ${task}#${fence} ${event}${inBrackets(detail)}`];
      }
      case "call": {
        const { caller, scheduler, route, idempotencyKey, params } = observation;
        if (omittedCallers.has(caller)) return [];
        return [`${caller} asks ${scheduler}: ${route} ${idempotencyKey ?? ""}${Object.values(params).join(" ")}`];
      }
      case "answer":
        return this.#formatAnswer(observation);
      case "broken":
        return [`broken: ${observation.name} at ${observation.process}: ${observation.message}`];
    }
  }

  #formatFrame(observation: Extract<Observation, { kind: "frame" }>): string[] {
    const frame = this.#frameReader.read(observation);
    const { toward, scheduler, worker, event, dispatches, reports } = frame;
    const where = `${frame.connection} ${toward === "worker" ? `${scheduler} → ${worker}` : `${worker} → ${scheduler}`} ${event}`;
    if (dispatches.length > 0) return dispatches.map(({ attempt }) => `${where}: dispatch ${attempt}`);
    if (reports.length > 0) return reports.map(({ of, attempt, outcome }) => `${where}: ${of} ${outcome} ${attempt}`);
    if (omittedFrameTypes.has(frame.type) && event !== "lost") return [];
    return [`${where}: ${frame.type} ${JSON.stringify(frame.payload).slice(0, 160)}`];
  }

  #formatAnswer({ caller, scheduler, tenant, route, status, body, at }: Extract<Observation, { kind: "answer" }>): string[] {
    if (route === "tailLog" && status === 200) {
      const facts = this.#mergedLog.addPage(tenant, body as TenantLogPage, at);
      return facts.map(
        ({ position, run, worker, type, data }) =>
          `log of ${tenant} ${position}: ${run ?? worker} ${type} ${JSON.stringify(data).slice(0, 300)}`,
      );
    }
    if (omittedCallers.has(caller)) return [];
    const { runId, error } = (body ?? {}) as { runId?: string; error?: string };
    return [`${caller} hears from ${scheduler}: ${route} ${status === 0 ? "lost" : status} ${runId ?? error ?? ""}`];
  }
}

const inBrackets = (detail: string | undefined): string => (detail === undefined ? "" : ` (${detail})`);
