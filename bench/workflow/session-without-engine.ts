// The limit for a chain: a session server with nothing behind it. Every result is answered at once and followed by the next dispatch; nothing is decided or
// stored. A real worker is at the other end. Started by chain-latency-bench.ts; ends with the channel to its parent.

import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createMetricsRegistry, createWorkerAuthenticator, SessionDoor, TokenRegistry } from "@astraflow/doors";
import type { AnswerBody, Command, CommandRequest, Effect, JoinWorkerCommand } from "@astraflow/engine";
import { sessionPath } from "@astraflow/protocol";
import { EngineClient, type ServiceEnvironment, tenantGrants } from "@astraflow/services";

/** What it is asked for, and what it answers. */
export interface BareSessionRequest {
  readonly steps: number;
}
export interface BareSessionResult {
  readonly ms: number;
}
/** Said first: where the worker finds it; and once the worker is in session. */
export type BareSessionEvent = { readonly ws: string } | { readonly joined: true };

const tenant = "default";
let worker: JoinWorkerCommand | null = null;
let stepsLeft = 0;
let startedAt = 0;
let run = "";

const environment: ServiceEnvironment = {
  clock: { now: () => Date.now(), monotonic: () => performance.now() },
  timers: {
    every(ms, work) {
      const timer = setInterval(work, ms);
      return () => clearInterval(timer);
    },
    after(ms, work) {
      const timer = setTimeout(work, ms);
      return () => clearTimeout(timer);
    },
  },
  ids: { next: () => randomBytes(18).toString("base64url") },
  log: ({ level, event, ...fields }) => {
    if (level === "error" || level === "warn") console.error(event, fields);
  },
};

const engineClient = new EngineClient((items) => void setImmediate(() => engineClient.handleEffects(items.flatMap(effectsOf))), {
  report: (problem) => {
    throw problem;
  },
});

function effectsOf({ ref, command }: CommandRequest): Effect[] {
  const answer: Effect = { type: "answer", ref, body: answerBodyOf(command), fault: null };
  if (command.type === "worker.join") {
    worker = command;
    process.send?.({ joined: true } satisfies BareSessionEvent);
  }
  if (command.type === "task.error") throw new Error(`the worker failed: ${command.message}`);
  if (command.type !== "task.result") return [answer];
  stepsLeft -= 1;
  if (stepsLeft > 0) return [answer, createDispatch(command.task)];
  process.send?.({ ms: performance.now() - startedAt } satisfies BareSessionResult);
  return [answer];
}

const answerBodyOf = (command: Command): AnswerBody =>
  command.type === "worker.join"
    ? {
        of: "join",
        epoch: 1,
        leaseMs: 30_000,
        heartbeatMs: 10_000,
        drainMemPct: 100,
        drainDiskPct: 100,
        draining: false,
      }
    : { of: "word", applied: true };

/** What the engine would say of a step of a chain. */
function createDispatch(before: string | null): Effect {
  if (worker === null) throw new Error("no worker has joined");
  const step = before === null ? 0 : Number(before.slice(before.indexOf(".") + 1)) + 1;
  const task = `${run}.${step}`;
  const fence = Date.now();
  const node = `0de70000-0000-4000-8000-${step.toString(16).padStart(12, "0")}`;
  return {
    type: "dispatch",
    session: worker.session,
    worker: worker.worker,
    tenant,
    dispatch: {
      id: `${task}#${fence}`,
      run,
      task,
      node,
      nodeType: "demo.noop",
      packageName: "demo",
      packageVersion: "1.0.0",
      params: "{}",
      fence,
      attempt: 1,
      timeoutMs: null,
      concurrencyKey: `${run}:${node}`,
      priority: 5,
    },
  };
}

const key = { kid: "bench", secret: randomBytes(32), madeAt: Date.now() };
const door = new SessionDoor({
  engineClient,
  environment,
  metrics: createMetricsRegistry(),
  authenticator: createWorkerAuthenticator({
    tokens: new TokenRegistry([{ token: "dev-token", tenant, user: "bench", grants: tenantGrants }]),
    keys: { keys: () => [key] },
    audience: "bench",
    sessionTokenMs: 3_600_000,
    environment,
  }),
});
const server = createServer();
server.on("upgrade", (request, socket, head) => door.upgrade(request, socket, head));
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ ws: `ws://127.0.0.1:${port}${sessionPath}` } satisfies BareSessionEvent);
});

process.on("disconnect", () => process.exit(0));
process.on("message", (message) => {
  stepsLeft = (message as BareSessionRequest).steps;
  run = randomUUID();
  startedAt = performance.now();
  engineClient.handleEffects([createDispatch(null)]);
});
