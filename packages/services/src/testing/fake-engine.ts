// An engine that a test controls: it stores every command, answers at once or when released, and emits the effects that the test wants.

import type { AnswerBody, Command, CommandRequest, Effect, FaultData } from "@astraflow/engine";
import { EngineClient } from "../environment/engine-client.ts";
import { createAwaitableQueue } from "./awaitable-queue.ts";

type ScriptedAnswer = { readonly body: AnswerBody } | { readonly fault: FaultData };
type CommandOf<T extends Command["type"]> = Extract<Command, { type: T }>;

export interface FakeEngine {
  readonly client: EngineClient;
  readonly commands: Command[];
  /** Batches as they were pushed: the commands of one tick each. */
  readonly batches: (readonly CommandRequest[])[];
  readonly problems: unknown[];
  /** The next command of this type that no test has taken yet. */
  nextCommand<T extends Command["type"]>(type: T): Promise<CommandOf<T>>;
  /** Commands of this type are answered like this from now on. */
  answerWith<T extends Command["type"]>(type: T, verdict: (command: CommandOf<T>) => ScriptedAnswer): void;
  /** Commands of this type wait until released. */
  holdAnswers(type: Command["type"]): void;
  /** Answers what was held, all in one delivery, in the given order of positions (all in order by default). */
  releaseAnswers(type: Command["type"], order?: readonly number[]): void;
  /** Commands of this type are answered at once again. */
  stopHolding(type: Command["type"]): void;
  emitEffects(...effects: readonly Effect[]): void;
}

export const joinAnswer: AnswerBody = {
  of: "join",
  epoch: 1,
  leaseMs: 30_000,
  heartbeatMs: 10_000,
  drainMemPct: 90,
  drainDiskPct: 95,
  draining: false,
};

export function createFakeEngine(): FakeEngine {
  const commands: Command[] = [];
  const batches: (readonly CommandRequest[])[] = [];
  const problems: unknown[] = [];
  const inbox = createAwaitableQueue<Command>();
  const verdicts = new Map<string, (command: never) => ScriptedAnswer>();
  const holding = new Set<string>();
  const held: CommandRequest[] = [];

  const verdictOn = (command: Command): ScriptedAnswer => {
    const scripted = verdicts.get(command.type);
    if (scripted !== undefined) return scripted(command as never);
    if (command.type === "worker.join") return { body: joinAnswer };
    if (command.type === "run.start")
      return {
        body: {
          of: "run",
          run: "r1",
          phase: "queued",
          workflow: `${command.tenant}/${command.digest}`,
          client: command.client,
          createdAt: 0,
          repeated: false,
        },
      };
    if (command.type === "run.cancel")
      return {
        body: {
          of: "run",
          run: command.run,
          phase: "ending",
          workflow: `${command.tenant}/d`,
          client: "c",
          createdAt: 0,
          repeated: false,
        },
      };
    if (command.type === "worker.kick") return { body: { of: "worker", worker: command.worker, draining: false } };
    if (command.type === "worker.drain") return { body: { of: "worker", worker: command.worker, draining: command.on } };
    return { body: { of: "word", applied: true } };
  };
  const answered = ({ ref, command }: CommandRequest): Effect => {
    const verdict = verdictOn(command);
    return {
      type: "answer",
      ref,
      body: "body" in verdict ? verdict.body : null,
      fault: "fault" in verdict ? verdict.fault : null,
    };
  };

  const engineClient = new EngineClient(
    (items) => {
      batches.push(items);
      for (const { command } of items) {
        commands.push(command);
        inbox.put(command);
      }
      held.push(...items.filter(({ command }) => holding.has(command.type)));
      const now = items.filter(({ command }) => !holding.has(command.type)).map(answered);
      // Like a real engine: never in the same tick.
      if (now.length > 0) setImmediate(() => engineClient.handleEffects(now));
    },
    { report: (problem) => void problems.push(problem) },
  );

  return {
    client: engineClient,
    commands,
    batches,
    problems,
    nextCommand: (type) => inbox.take((command) => command.type === type) as Promise<never>,
    answerWith: (type, verdict) => void verdicts.set(type, verdict as (command: never) => ScriptedAnswer),
    holdAnswers: (type) => void holding.add(type),
    stopHolding: (type) => void holding.delete(type),
    releaseAnswers(type, order) {
      const mine = held.filter(({ command }) => command.type === type);
      const chosen = order === undefined ? mine : order.map((position) => mine[position] as CommandRequest);
      for (const item of chosen) held.splice(held.indexOf(item), 1);
      engineClient.handleEffects(chosen.map(answered));
    },
    emitEffects: (...effects) => engineClient.handleEffects(effects),
  };
}
