import type { ForwardedRequest } from "@astraflow/doors";
import type { CommandRequest } from "@astraflow/engine";
import type { RouteName } from "@astraflow/protocol";
import { EngineClient, type LogRecord } from "@astraflow/services";
import { afterEach, expect, it } from "vitest";
import { RequestThread, type RequestThreadData, type RequestThreadLimits, requestThreadLimits } from "./request-thread.ts";

/** Stands for the real program: the route says what a request does to the thread. */
const program = `
  import { parentPort } from "node:worker_threads";
  const done = (request) => parentPort.postMessage({ type: "done", result: { status: 200, body: request.requestId, headers: {} } });
  parentPort.on("message", (message) => {
    if (message.type === "effects") {
      const [{ fault }] = message.effects;
      return parentPort.postMessage({ type: "refused", fault });
    }
    const { request } = message.task;
    if (request.route === "getRun") for (;;) ;
    if (request.route === "listRuns") process.exit(7);
    if (request.route === "cancelRun") {
      const command = { type: "run.cancel", tenant: "a", by: "ann", run: "r", reason: "" };
      return parentPort.postMessage({ type: "commands", items: [{ ref: 5, command }] });
    }
    if (request.route === "startRun") return; // never answered
    done(request);
  });
`;

const threads: RequestThread[] = [];
afterEach(async () => void (await Promise.all(threads.splice(0).map((thread) => thread.close()))));

function openThread(
  limits: Partial<RequestThreadLimits> = {},
  push: (items: readonly CommandRequest[]) => void = () => undefined,
) {
  const lines: LogRecord[] = [];
  const engineClient = new EngineClient(push, { report: (problem) => expect.unreachable(String(problem)) });
  const thread = new RequestThread({
    data: {} as RequestThreadData,
    engineClient,
    log: (line) => void lines.push(line),
    limits: { ...requestThreadLimits, watchMs: 10, ...limits },
    program: new URL(`data:text/javascript,${encodeURIComponent(program)}`),
  });
  threads.push(thread);
  const ask = async (requestId: string, { tenant = "a", route = "validateWorkflow" as RouteName, bytes = 0 } = {}) => {
    const identity = { tenant, user: "ann", grants: [] };
    const body = bytes === 0 ? null : new Uint8Array(bytes);
    const request: ForwardedRequest = { route, requestId, identity, params: {}, query: {}, headers: {}, body };
    return (await thread.respond(request)).body;
  };
  return { thread, lines, engineClient, ask };
}

it("[O610] the thread for long requests carries out one at a time, and answers those of another tenant in between", async () => {
  const { ask } = openThread();
  const order: string[] = [];
  const note = (body: string) => void order.push(body);

  const asked = ["a1", "a2", "a3"].map((id) => ask(id).then(note));
  await Promise.all([...asked, ask("b1", { tenant: "b" }).then(note)]);

  expect(order).toEqual(["a1", "b1", "a2", "a3"]);
});

it("[O611] a request that finds the queue full is refused with E.OVERLOADED and a time after which to try again", async () => {
  const { ask } = openThread({ itemsPerTenantMax: 1 });

  const running = ask("1");
  const waiting = ask("2");

  await expect(ask("3")).rejects.toMatchObject({ code: "E.OVERLOADED", details: { retryAfterMs: expect.any(Number) } });
  expect(await Promise.all([running, waiting])).toEqual(["1", "2"]);
});

it("[O612] a request that uses too much CPU time is ended with E.REQUEST.TOO_COSTLY, and the next one gets a new thread", async () => {
  const { ask, lines } = openThread({ cpuMsMax: 50 });

  const endless = ask("endless", { route: "getRun" });
  const next = ask("next", { tenant: "b" });

  await expect(endless).rejects.toMatchObject({ code: "E.REQUEST.TOO_COSTLY" });
  expect(await next).toBe("next");
  expect(lines).toMatchObject([{ event: "requests.too_costly", route: "getRun", requestId: "endless" }]);
});

it("[O612] a thread that dies fails its own request alone", async () => {
  const { ask, lines } = openThread();

  const deadly = ask("deadly", { route: "listRuns" });
  const next = ask("next");

  await expect(deadly).rejects.toMatchObject({ code: "E.INTERNAL" });
  expect(await next).toBe("next");
  expect(lines).toMatchObject([{ event: "requests.thread_ended" }]);
});

it("[O613] commands of the thread reach the engine, and their answers come back to it", async () => {
  const sent: CommandRequest[] = [];
  const { ask, engineClient } = openThread({}, (items) => {
    sent.push(...items);
    const gone = { code: "E.NOT_FOUND", message: "there is no run r" } as const;
    engineClient.handleEffects(items.map(({ ref }) => ({ type: "answer", ref, body: null, fault: gone })));
  });

  await expect(ask("cancel", { route: "cancelRun" })).rejects.toMatchObject({ code: "E.NOT_FOUND" });
  expect(sent).toMatchObject([{ command: { type: "run.cancel", run: "r" } }]);
});

it("[O613] a stop refuses what waits and ends the thread with what it carries out", async () => {
  const { ask, thread } = openThread();
  const running = ask("held", { route: "startRun" });
  const waiting = ask("waits");

  await Promise.all([
    expect(running).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" }),
    expect(waiting).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" }),
    thread.close(),
  ]);

  await expect(ask("late")).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" });
});
