// I8, as far as it can be seen from outside: what was answered, acked or sent is in the log as of any reading that begins later. An engine
// that speaks before its commit is caught as soon as somebody reads in between, or when the commit then does not happen.

import type { Bench, Checker, Exchange } from "./checker.ts";
import { Lineage } from "./lineage.ts";
import { covers, dispatchesIn, type WireFrame, type Word, wordsIn } from "./wire.ts";

/** Something that was said, and what is wrong if the log does not bear it out. */
interface Said {
  readonly n: number;
  readonly about: string;
  problem(): string | null;
}

export function durable({ fail, lives }: Bench): Checker {
  const waiting = new Map<string, Said[]>();
  const accepts = new Map<string, number>();
  const accepted = new Set<string>();
  const lineage = new Lineage();
  /** Words that reached a scheduler and are not acked yet, by session and number. */
  const flights = new Map<string, Map<number, readonly Word[]>>();
  /** Orders to drain or undrain a worker, and when their callers knew that they were done; one that got no answer may be done at any time. */
  const asks = new Map<string, { readonly call: number; readonly isOn: boolean; doneAt: number }[]>();
  let saw = 0;

  const expect = (tenant: string, said: Said): void => {
    const list = waiting.get(tenant) ?? [];
    list.push(said);
    waiting.set(tenant, list);
  };

  const hearAnswer = ({ call, answer }: Exchange): void => {
    if (answer.status !== 202) return;
    const { tenant, route } = call;
    const add = (about: string, problem: () => string | null) => expect(tenant, { n: answer.n, about, problem });
    if (route === "startRun") {
      const { runId } = answer.body as { runId: string };
      add(runId, () => (lives.run(runId) === undefined ? `the start of run ${runId} was answered and is not in the log` : null));
    } else if (route === "cancelRun") {
      const run = call.params["runId"] ?? "";
      add(run, () => {
        const life = lives.run(run);
        const isTrue = life !== undefined && (life.isCondemned || life.end !== null);
        return isTrue ? null : `the cancelling of run ${run} was answered and is not in the log`;
      });
    } else if (route === "drainWorker" || route === "undrainWorker") {
      const worker = `${tenant}/${call.params["workerId"]}`;
      const isOn = route === "drainWorker";
      // Another order about this worker that was under way at the same time, or came later, may have the last word.
      const isContested = () => asks.get(worker)?.some((one) => one.isOn !== isOn && one.doneAt > call.n) === true;
      add(worker, () =>
        isContested() || (lives.workers.get(worker)?.isDraining ?? false) === isOn
          ? null
          : `${route} of ${worker} was answered and is not in the log`,
      );
    }
  };

  const hearWorker = (frame: WireFrame): void => {
    const words = wordsIn(frame).filter(
      ({ of, says }) => of === "result" || (of === "error" && says !== "E.CMD.CONCURRENCY_VIOLATION"),
    );
    if (words.length === 0 || frame.seq === null) return;
    const flight = flights.get(frame.stream) ?? new Map<number, readonly Word[]>();
    flights.set(frame.stream, flight.set(frame.seq, words));
  };

  const hearScheduler = (frame: WireFrame): void => {
    const { seen } = frame;
    const worker = `${seen.tenant}/${seen.instance}`;
    const add = (about: string, problem: () => string | null) => expect(seen.tenant, { n: seen.n, about, problem });
    // A renewed token is told by an accept of its own, without a join.
    if (frame.type === "control.session.accept" && !accepted.has(seen.connection)) {
      accepted.add(seen.connection);
      const count = (accepts.get(worker) ?? 0) + 1;
      accepts.set(worker, count);
      add(worker, () => {
        const { joins = 0 } = lives.workers.get(worker) ?? {};
        return joins >= count ? null : `${worker} was accepted ${count} times and the log tells of ${joins} joins`;
      });
    }
    for (const { task, fence } of dispatchesIn(frame))
      add(task, () =>
        lives.grants.get(`${task}#${fence}`)?.worker === worker
          ? null
          : `${task} was sent to ${worker} under fence ${fence} and the log does not tell of that grant`,
      );
    if (frame.type === "control.ack") hearAck(frame, worker);
  };

  const hearAck = (frame: WireFrame, worker: string): void => {
    const { tenant, n } = frame.seen;
    const flight = flights.get(frame.stream);
    for (const [seq, words] of flight ?? []) {
      if (!covers(frame, seq)) continue;
      flight?.delete(seq);
      // A session that another has followed is acked and not heard.
      const isNewest = () => lineage.isNewest(frame);
      if (isNewest())
        for (const { task, fence, says } of words)
          expect(tenant, { n, about: task, problem: () => (isNewest() ? forgotten(worker, task, fence, says) : null) });
    }
  };

  /** The log still shows the attempt as running although its end was acked. */
  const forgotten = (worker: string, task: string, fence: number, says: string): string | null => {
    const life = lives.task(task);
    if (life === undefined || life.worker !== worker || life.fence !== fence || life.run.isCondemned) return null;
    // Of a worker that was lost nothing is heard, even before its attempts are swept up.
    if (lives.workers.get(worker)?.standing !== "online") return null;
    return `${says} of ${task}#${fence} was acked to ${worker} and the log still shows it running there`;
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if ((seen.kind !== "call" && seen.kind !== "answer") || !/^(un)?drainWorker$/.test(seen.route)) return;
      if (seen.kind === "call") {
        const worker = `${seen.tenant}/${seen.params["workerId"]}`;
        const list = asks.get(worker) ?? [];
        list.push({ call: seen.call, isOn: seen.route === "drainWorker", doneAt: Number.POSITIVE_INFINITY });
        asks.set(worker, list);
      } else if (seen.status !== 0)
        for (const list of asks.values()) for (const one of list) if (one.call === seen.call) one.doneAt = seen.n;
    },
    exchange: hearAnswer,
    frame(frame) {
      lineage.hear(frame);
      if (frame.seen.toward === "scheduler" && frame.seen.event === "delivered") hearWorker(frame);
      if (frame.seen.toward === "worker" && frame.seen.event === "sent") hearScheduler(frame);
    },
    known({ tenant, since }) {
      const list = waiting.get(tenant) ?? [];
      let judged = 0;
      for (const { n, about, problem } of list) {
        if (n >= since) break;
        judged++;
        saw++;
        const wrong = problem();
        if (wrong !== null) return fail(wrong, [about]);
      }
      list.splice(0, judged);
    },
  };
}
