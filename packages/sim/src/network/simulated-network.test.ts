import { describe, expect, it } from "vitest";
import { MachineClock } from "../kernel/machine-clock.ts";
import { ObservationTrace } from "../kernel/observation-trace.ts";
import { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import { SeededRandom } from "../kernel/seeded-random.ts";
import { Timeline } from "../kernel/timeline.ts";
import type { Observation } from "../observation/observation.ts";
import type { ConnectionHandlers, SimulatedConnection } from "./simulated-connection.ts";
import { SimulatedNetwork } from "./simulated-network.ts";

interface NetworkFixture {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly connection: SimulatedConnection;
  readonly observations: Observation[];
  /** What each end has received. */
  readonly worker: string[];
  readonly scheduler: string[];
  readonly workerLoop: ProcessEventLoop;
  readonly schedulerLoop: ProcessEventLoop;
  pass(ms: number): void;
}

function openConnection(isListening = true): NetworkFixture {
  const timeline = new Timeline();
  const observations: Observation[] = [];
  const trace = new ObservationTrace(timeline, (one) => observations.push(one));
  const live = (name: string): ProcessEventLoop => {
    const clock = new MachineClock(timeline, { monoStart: 0, wallOffset: 0, driftPpm: 0 });
    return new ProcessEventLoop(name, timeline, clock, (problem) => {
      throw problem;
    });
  };
  const workerLoop = live("w1");
  const schedulerLoop = live("s1");
  const listenTo = (received: string[]): ConnectionHandlers => ({
    opened: () => void received.push("opened"),
    text: (text) => void received.push(text),
    ping: () => void received.push("ping"),
    pong: () => void received.push("pong"),
    drained: () => void received.push("drained"),
    closed: (code) => void received.push(`closed ${code}`),
  });
  const worker: string[] = [];
  const scheduler: string[] = [];
  const network = new SimulatedNetwork(timeline, trace, new SeededRandom("net"), () =>
    isListening ? { eventLoop: schedulerLoop, accept: () => listenTo(scheduler) } : null,
  );
  const face = { worker: "w1", instance: "i1", boot: "w1#1", tenant: "t1" };
  const connection = network.dial(face, workerLoop, "s1", listenTo(worker));
  const pass = (ms: number): void => {
    let isOver = false;
    timeline.after(ms, () => {
      isOver = true;
    });
    while (!isOver) timeline.runNextEvent();
  };
  pass(1_000);
  return { timeline, network, connection, observations, worker, scheduler, workerLoop, schedulerLoop, pass };
}

const frameFates = (observations: readonly Observation[]): string[] =>
  observations.flatMap((one) => (one.kind === "frame" && one.event !== "sent" ? [`${one.text} ${one.event}`] : []));

describe("the network", () => {
  it("[X5] the simulated network delivers whole messages in order, both ways, whatever their latencies", () => {
    const { connection, worker, scheduler, pass } = openConnection();
    const words = Array.from({ length: 50 }, (_, n) => `m${n}`);

    for (const word of words) {
      connection.worker.send(word);
      connection.scheduler.send(word);
      pass(0.1);
    }
    pass(1_000);

    expect(scheduler).toEqual(words);
    expect(worker).toEqual(["opened", ...words]);
  });

  it("[X5] the simulated network refuses a dial where nothing listens, and leaves it pending where the path is blocked", () => {
    expect(openConnection(false).worker).toEqual(["closed 1006"]);

    const { network, workerLoop, pass } = openConnection();
    const received: string[] = [];
    const ignoring = { text: () => undefined, ping: () => undefined, pong: () => undefined, drained: () => undefined };
    network.blockPath("w2-s1");
    network.dial({ worker: "w2", instance: "i2", boot: "w2#1", tenant: "t1" }, workerLoop, "s1", {
      ...ignoring,
      opened: () => void received.push("opened"),
      closed: () => void received.push("closed"),
    });
    pass(10_000);

    expect(received).toEqual([]);
  });

  it("[X5] a closed simulated connection still delivers what was sent before, and both ends see the close once", () => {
    const { connection, worker, scheduler, pass } = openConnection();

    connection.worker.send("last");
    connection.worker.close(1000, "done");
    connection.worker.send("too late");
    pass(1_000);

    expect(scheduler).toEqual(["last", "closed 1000"]);
    expect(worker).toEqual(["opened", "closed 1000"]);
    expect(connection.hasEnded).toBe(true);
  });

  it("[X5] a reset simulated connection loses messages in flight that a cut one still delivers, and both ends see the close", () => {
    const cut = openConnection();
    cut.connection.worker.send("on its way");
    cut.connection.disconnectBothEnds(false);
    cut.pass(1_000);
    const reset = openConnection();
    reset.connection.worker.send("on its way");
    reset.connection.disconnectBothEnds(true);
    reset.pass(1_000);

    expect(cut.scheduler).toEqual(["on its way", "closed 1006"]);
    expect(reset.scheduler).toEqual(["closed 1006"]);
    expect(frameFates(reset.observations)).toEqual(["on its way lost"]);
    expect(cut.worker).toEqual(["opened", "closed 1006"]);
    expect(reset.worker).toEqual(["opened", "closed 1006"]);
  });

  it("[X5] one end of a half-open simulated connection never sees that the other end has closed", () => {
    const { connection, worker, scheduler, pass } = openConnection();

    connection.disconnectOneEnd("worker");
    connection.scheduler.send("anybody there?");
    pass(100_000);

    expect(worker).toEqual(["opened", "closed 1006"]);
    expect(scheduler).toEqual([]);
    expect(connection.scheduler.state).toBe("open");
  });

  it("[X5] the simulated network can drop one direction of a connection silently while the other still delivers", () => {
    const { connection, worker, scheduler, observations, pass } = openConnection();

    connection.channelFrom("worker").goSilent();
    connection.worker.send("lost");
    connection.scheduler.send("heard");
    pass(1_000);

    expect(scheduler).toEqual([]);
    expect(worker).toEqual(["opened", "heard"]);
    expect(frameFates(observations)).toEqual(["lost lost", "heard delivered"]);
  });

  it("[X5] a blocked network path delivers everything in order once it is unblocked, and the socket's buffer shows what it holds until then", () => {
    const { network, connection, scheduler, pass } = openConnection();
    const unclog = network.blockPath("w1-s1");

    connection.worker.send("a");
    connection.worker.send("x".repeat(100_000));
    pass(5_000);
    const buffered = connection.worker.outgoing.bufferedBytes;
    unclog();
    pass(1);

    expect(scheduler.map((text) => text.length)).toEqual([1, 100_000]);
    expect(buffered).toBeGreaterThan(30_000);
    expect(connection.worker.outgoing.bufferedBytes).toBe(0);
  });

  it("[X5] a simulated process that dies closes its connection at the other end, but one whose machine loses power does not", () => {
    const killed = openConnection();
    killed.workerLoop.end();
    killed.connection.handleProcessEnd("worker", false);
    killed.pass(1_000);
    const dark = openConnection();
    dark.workerLoop.end();
    dark.connection.handleProcessEnd("worker", true);
    dark.connection.scheduler.send("lost");
    dark.pass(100_000);

    expect(killed.scheduler).toEqual(["closed 1006"]);
    expect(dark.scheduler).toEqual([]);
    expect(frameFates(dark.observations)).toEqual(["lost lost"]);
  });

  it("[X5] a paused simulated process gets its messages when it resumes, and they are recorded as lost if it dies first", () => {
    const late = openConnection();
    late.schedulerLoop.pause();
    late.connection.worker.send("late");
    late.pass(1_000);
    expect(frameFates(late.observations)).toEqual([]);
    late.schedulerLoop.resume(false);
    late.pass(1);
    const dead = openConnection();
    dead.schedulerLoop.pause();
    dead.connection.worker.send("lost");
    dead.pass(1_000);
    dead.schedulerLoop.end();
    dead.connection.handleProcessEnd("scheduler", false);

    expect(late.scheduler).toEqual(["late"]);
    expect(frameFates(dead.observations)).toEqual(["lost lost"]);
  });

  it("[X6] the simulated network can lose, duplicate or delay a single message on an open connection, and only that one", () => {
    const sendAll = (scene: NetworkFixture): void => {
      for (const word of ["a", "b", "c"]) {
        scene.connection.worker.send(word);
        scene.pass(30);
      }
      scene.pass(1_000);
    };
    const lost = openConnection();
    lost.network.disturbNextFrame("w1", "worker", { kind: "drop", ms: 0 });
    sendAll(lost);
    const doubled = openConnection();
    doubled.network.disturbNextFrame("w1", "worker", { kind: "double", ms: 500 });
    sendAll(doubled);
    const overtaken = openConnection();
    overtaken.network.disturbNextFrame("w1", "worker", { kind: "overtake", ms: 40 });
    sendAll(overtaken);

    expect(lost.scheduler).toEqual(["b", "c"]);
    expect(doubled.scheduler).toEqual(["a", "b", "c", "a"]);
    expect(overtaken.scheduler).toEqual(["b", "a", "c"]);
  });

  it("[X6] the simulated network can lose, duplicate or delay a share of all messages for a while, and the connection stays open", () => {
    const scene = openConnection();
    const words = Array.from({ length: 200 }, (_, at) => `m${at}`);
    const sendAll = (): void => {
      for (const word of words) {
        scene.connection.worker.send(word);
        scene.pass(1);
      }
      scene.pass(5_000);
    };
    const ends = (["lost", "doubled", "overtaken"] as const).map((kind) => scene.network.disturbFrames("w1-s1", kind, 0.3, 400));
    sendAll();
    const stormy = scene.scheduler.splice(0);
    for (const end of ends) end();
    sendAll();

    expect(new Set(stormy).size).toBeLessThan(words.length);
    expect(stormy.length).toBeGreaterThan(new Set(stormy).size);
    expect(stormy).not.toEqual(stormy.toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1))));
    expect(scene.scheduler).toEqual(words);
    expect(scene.worker).toEqual(["opened"]);
  });
});
