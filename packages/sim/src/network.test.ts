import { describe, expect, it } from "vitest";
import type { Connection, EndEars } from "./connection.ts";
import { Dice } from "./dice.ts";
import { Life } from "./life.ts";
import { MachineClock } from "./machine-clock.ts";
import { Network } from "./network.ts";
import type { Observation } from "./observation.ts";
import { Timeline } from "./timeline.ts";
import { Trace } from "./trace.ts";

interface Scene {
  readonly timeline: Timeline;
  readonly network: Network;
  readonly connection: Connection;
  readonly seen: Observation[];
  /** What each end has heard. */
  readonly worker: string[];
  readonly scheduler: string[];
  readonly workerLife: Life;
  readonly schedulerLife: Life;
  pass(ms: number): void;
}

function open(isListening = true): Scene {
  const timeline = new Timeline();
  const seen: Observation[] = [];
  const trace = new Trace(timeline, (one) => seen.push(one));
  const live = (name: string): Life => {
    const clock = new MachineClock(timeline, { monoStart: 0, wallOffset: 0, driftPpm: 0 });
    return new Life(name, timeline, clock, (problem) => {
      throw problem;
    });
  };
  const workerLife = live("w1");
  const schedulerLife = live("s1");
  const listenTo = (heard: string[]): EndEars => ({
    opened: () => void heard.push("opened"),
    text: (text) => void heard.push(text),
    ping: () => void heard.push("ping"),
    pong: () => void heard.push("pong"),
    drained: () => void heard.push("drained"),
    closed: (code) => void heard.push(`closed ${code}`),
  });
  const worker: string[] = [];
  const scheduler: string[] = [];
  const network = new Network(timeline, trace, new Dice("net"), () =>
    isListening ? { life: schedulerLife, accept: () => listenTo(scheduler) } : null,
  );
  const face = { worker: "w1", instance: "i1", boot: "w1#1", tenant: "t1" };
  const connection = network.dial(face, workerLife, "s1", listenTo(worker));
  const pass = (ms: number): void => {
    let isOver = false;
    timeline.after(ms, () => {
      isOver = true;
    });
    while (!isOver) timeline.step();
  };
  pass(1_000);
  return { timeline, network, connection, seen, worker, scheduler, workerLife, schedulerLife, pass };
}

const fates = (seen: readonly Observation[]): string[] =>
  seen.flatMap((one) => (one.kind === "frame" && one.event !== "sent" ? [`${one.text} ${one.event}`] : []));

describe("the network", () => {
  it("[X5] delivers whole messages in order, both ways, whatever their latencies", () => {
    const { connection, worker, scheduler, pass } = open();
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

  it("[X5] refuses a dial where nobody listens, and lets it hang where the path is clogged", () => {
    expect(open(false).worker).toEqual(["closed 1006"]);

    const { network, workerLife, pass } = open();
    const heard: string[] = [];
    const ears = { text: () => undefined, ping: () => undefined, pong: () => undefined, drained: () => undefined };
    network.clog("w2", "s1");
    network.dial({ worker: "w2", instance: "i2", boot: "w2#1", tenant: "t1" }, workerLife, "s1", {
      ...ears,
      opened: () => void heard.push("opened"),
      closed: () => void heard.push("closed"),
    });
    pass(10_000);

    expect(heard).toEqual([]);
  });

  it("[X5] closes in good order: what was said before arrives, and both ends hear of it once", () => {
    const { connection, worker, scheduler, pass } = open();

    connection.worker.send("last");
    connection.worker.close(1000, "done");
    connection.worker.send("too late");
    pass(1_000);

    expect(scheduler).toEqual(["last", "closed 1000"]);
    expect(worker).toEqual(["opened", "closed 1000"]);
    expect(connection.isOver).toBe(true);
  });

  it("[X5] loses on a reset what a cut still delivers; both ends see the end", () => {
    const cut = open();
    cut.connection.worker.send("on its way");
    cut.connection.cut(false);
    cut.pass(1_000);
    const reset = open();
    reset.connection.worker.send("on its way");
    reset.connection.cut(true);
    reset.pass(1_000);

    expect(cut.scheduler).toEqual(["on its way", "closed 1006"]);
    expect(reset.scheduler).toEqual(["closed 1006"]);
    expect(fates(reset.seen)).toEqual(["on its way lost"]);
    expect(cut.worker).toEqual(["opened", "closed 1006"]);
    expect(reset.worker).toEqual(["opened", "closed 1006"]);
  });

  it("[X5] leaves one end of a half-open connection in the dark for ever", () => {
    const { connection, worker, scheduler, pass } = open();

    connection.forsake("worker");
    connection.scheduler.send("anybody there?");
    pass(100_000);

    expect(worker).toEqual(["opened", "closed 1006"]);
    expect(scheduler).toEqual([]);
    expect(connection.scheduler.state).toBe("open");
  });

  it("[X5] drops one direction silently while the other flows", () => {
    const { connection, worker, scheduler, seen, pass } = open();

    connection.laneFrom("worker").die();
    connection.worker.send("lost");
    connection.scheduler.send("heard");
    pass(1_000);

    expect(scheduler).toEqual([]);
    expect(worker).toEqual(["opened", "heard"]);
    expect(fates(seen)).toEqual(["lost lost", "heard delivered"]);
  });

  it("[X5] holds a clogged path back and then delivers everything in order; what a socket holds shows in its buffer", () => {
    const { network, connection, scheduler, pass } = open();
    const unclog = network.clog("w1", "s1");

    connection.worker.send("a");
    connection.worker.send("x".repeat(100_000));
    pass(5_000);
    const buffered = connection.worker.out.bufferedBytes;
    unclog();
    pass(1);

    expect(scheduler.map((text) => text.length)).toEqual([1, 100_000]);
    expect(buffered).toBeGreaterThan(30_000);
    expect(connection.worker.out.bufferedBytes).toBe(0);
  });

  it("[X5] tells the other end when a process dies, and nobody when its machine loses power", () => {
    const killed = open();
    killed.workerLife.end();
    killed.connection.orphan("worker", false);
    killed.pass(1_000);
    const dark = open();
    dark.workerLife.end();
    dark.connection.orphan("worker", true);
    dark.connection.scheduler.send("lost");
    dark.pass(100_000);

    expect(killed.scheduler).toEqual(["closed 1006"]);
    expect(dark.scheduler).toEqual([]);
    expect(fates(dark.seen)).toEqual(["lost lost"]);
  });

  it("[X5] gives a held process its messages when it runs again, and calls them lost when it dies before", () => {
    const late = open();
    late.schedulerLife.hold();
    late.connection.worker.send("late");
    late.pass(1_000);
    expect(fates(late.seen)).toEqual([]);
    late.schedulerLife.release(false);
    late.pass(1);
    const dead = open();
    dead.schedulerLife.hold();
    dead.connection.worker.send("lost");
    dead.pass(1_000);
    dead.schedulerLife.end();
    dead.connection.orphan("scheduler", false);

    expect(late.scheduler).toEqual(["late"]);
    expect(fates(dead.seen)).toEqual(["lost lost"]);
  });

  it("[X6] can lose, double or delay a single message on a living connection, and only that one", () => {
    const say = (scene: Scene): void => {
      for (const word of ["a", "b", "c"]) {
        scene.connection.worker.send(word);
        scene.pass(30);
      }
      scene.pass(1_000);
    };
    const lost = open();
    lost.network.plague("w1", "worker", { kind: "drop", ms: 0 });
    say(lost);
    const doubled = open();
    doubled.network.plague("w1", "worker", { kind: "double", ms: 500 });
    say(doubled);
    const overtaken = open();
    overtaken.network.plague("w1", "worker", { kind: "overtake", ms: 40 });
    say(overtaken);

    expect(lost.scheduler).toEqual(["b", "c"]);
    expect(doubled.scheduler).toEqual(["a", "b", "c", "a"]);
    expect(overtaken.scheduler).toEqual(["b", "a", "c"]);
  });

  it("[X6] can lose, double or delay a share of all messages for a while, and the connection lives on", () => {
    const scene = open();
    const words = Array.from({ length: 200 }, (_, at) => `m${at}`);
    const say = (): void => {
      for (const word of words) {
        scene.connection.worker.send(word);
        scene.pass(1);
      }
      scene.pass(5_000);
    };
    const ends = (["lost", "doubled", "overtaken"] as const).map((kind) => scene.network.unsettle("w1", "s1", kind, 0.3, 400));
    say();
    const stormy = scene.scheduler.splice(0);
    for (const end of ends) end();
    say();

    expect(new Set(stormy).size).toBeLessThan(words.length);
    expect(stormy.length).toBeGreaterThan(new Set(stormy).size);
    expect(stormy).not.toEqual(stormy.toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1))));
    expect(scene.scheduler).toEqual(words);
    expect(scene.worker).toEqual(["opened"]);
  });
});
