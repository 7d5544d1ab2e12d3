// Commands about one worker in random weather: several engines on one store, sessions that lose their sockets, go on, move and start over,
// letters that are heard late, turns that fail. Whatever happens, each command ends once, and the worker is never told less than is open.

import type { Command, Effect, FaultData, PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { about, type Harness } from "./harness.ts";
import type { Dice } from "./weather-dice.ts";

const by = { tenant: "t1", by: "ada", worker: "t1/w" } as const;
const steps = 60;

/** A refusal is an answer too; anything else is a fault of the engine's. */
const refusalOnly = (why: unknown): void => {
  if (!(why as FaultData).code.startsWith("E.")) throw why;
};

/** The worker and the doors of its sessions: what it was told in the session it has, and what it answers. */
class Doorway {
  readonly #dice: Dice;
  engine: Harness | null = null;
  session = "";
  boot = "boot-0";
  isAttached = false;
  /** What a worker says before it is accepted waits at the door. */
  isLive = false;
  readonly packages = new Map<string, string>();
  /** Commands this session was given and has not carried out; those it ever was given. */
  todo: { id: string; order: PackageCommand }[] = [];
  given = new Set<string>();
  /** Drains and their ends on the wire. */
  drains: boolean[] = [];
  #sessions = 0;
  #boots = 0;
  #joins = 0;
  readonly #read = new Map<Harness, number>();

  constructor(dice: Dice) {
    this.#dice = dice;
  }

  get about() {
    const packages = [...this.packages].map(([name, version]) => ({ name, version, status: "installed" as const }));
    return about({ features: ["fence", "cancel", "held", "undrain"], packages });
  }

  hear(engines: readonly Harness[]): void {
    for (const engine of engines) {
      const from = this.#read.get(engine) ?? 0;
      this.#read.set(engine, engine.effects.length);
      for (const effect of engine.effects.slice(from))
        if ("session" in effect && effect.session === this.session) this.#take(effect);
    }
  }

  #take(effect: Effect): void {
    if (effect.type === "order" && !this.given.has(effect.id)) {
      this.given.add(effect.id);
      this.todo.push({ id: effect.id, order: effect.order });
    }
    // A drain is not kept for a session without a socket.
    if (effect.type === "drain" && this.isAttached) this.drains.push(effect.on);
    if (effect.type === "reset") this.isAttached = this.isLive = false;
  }

  /** `over` a new socket of the session, or with a new one; with a new process perhaps. */
  async join(engine: Harness, how: "resume" | "session" | "process"): Promise<void> {
    const isResumed = how === "resume" && this.engine === engine && this.session !== "";
    if (how === "process") this.boot = `boot-${++this.#boots}`;
    if (!isResumed) {
      this.session = `s-${++this.#sessions}`;
      this.todo = [];
      this.given = new Set();
    }
    this.drains = [];
    this.engine = engine;
    this.isAttached = true;
    this.isLive = false;
    const join = ++this.#joins;
    const order: Command = {
      type: "worker.join",
      tenant: "t1",
      worker: "t1/w",
      name: "w",
      boot: this.boot,
      session: this.session,
      about: this.about,
      ...(isResumed ? { running: null, resumed: { unacked: [] } } : { running: [] }),
    };
    const isTaken = await engine.ask(order).then(
      () => true,
      () => false,
    );
    // A join that was overtaken by another has no say any more.
    if (this.#joins !== join) return;
    this.isLive = isTaken && this.isAttached;
    if (isTaken) return;
    this.session = "";
    this.isAttached = false;
  }

  lose(): Promise<unknown> {
    this.isAttached = false;
    this.isLive = false;
    this.drains = [];
    return this.#post({ type: "worker.leave", tenant: "t1", worker: "t1/w", session: this.session, reason: "gone" });
  }

  /** Carries out or refuses the next command, or says that it heard of a drain. */
  async answer(): Promise<boolean> {
    if (!this.isAttached || !this.isLive) return false;
    const to = { tenant: "t1", worker: "t1/w", session: this.session } as const;
    const on = this.drains.shift();
    const next = this.todo.shift();
    const isTold = on !== undefined && this.drains.includes(on);
    await Promise.all([
      on === undefined ? null : this.#post({ type: "worker.heard", ...to, on, isToldAgain: isTold }),
      next === undefined ? null : this.#post({ type: "worker.package", ...to, ...this.#carryOut(next) }),
    ]);
    return on !== undefined || next !== undefined;
  }

  /** Four of five succeed. */
  #carryOut({ id, order }: { id: string; order: PackageCommand }) {
    const isDone = this.#dice.chance(0.8);
    if (isDone && order.type === "pkg.install") this.packages.set(order.name, order.version);
    if (isDone && order.type === "pkg.uninstall") this.packages.delete(order.name);
    const status = !isDone ? "failed" : order.type === "pkg.install" ? "installed" : "removed";
    return { name: order.name, version: order.version ?? "*", status, details: { command: id } } as const;
  }

  announce(): Promise<unknown> {
    const { session } = this;
    if (!this.isLive) return Promise.resolve();
    return this.#post({ type: "worker.describe", tenant: "t1", worker: "t1/w", session, about: this.about });
  }

  /** A session whose heartbeat is refused is over. */
  async beat(): Promise<void> {
    const { session } = this;
    const word = { type: "worker.beat", tenant: "t1", worker: "t1/w", session, healthy: true, held: [] } as const;
    const isHeard =
      !this.isLive ||
      session === "" ||
      (await this.engine?.ask(word).then(
        () => true,
        () => false,
      ));
    if (isHeard === false && this.session === session) this.isAttached = this.isLive = false;
  }

  /** A refusal is an answer too. */
  #post(command: Command): Promise<unknown> {
    return this.engine === null || this.session === "" ? Promise.resolve() : this.engine.ask(command).catch(refusalOnly);
  }
}

/** Where it happens: engines on one store, and seconds that pass for all of them. */
export interface Street {
  readonly engines: Harness[];
  pass(seconds: number): Promise<void>;
}

export class Afternoon {
  readonly #dice: Dice;
  readonly #street: Street;
  readonly door: Doorway;
  /** Commands that were taken. */
  readonly taken: string[] = [];
  readonly #under: Promise<unknown>[] = [];
  #ids = 0;

  constructor(dice: Dice, street: Street) {
    this.#dice = dice;
    this.#street = street;
    this.door = new Doorway(dice);
  }

  get engines(): readonly Harness[] {
    return this.#street.engines;
  }

  async live(): Promise<void> {
    await this.#during(this.door.join(this.engines[0] as Harness, "session"));
    for (let step = 0; step < steps; step++) await this.#step();
    await this.#rest();
  }

  #command(): Command {
    const id = `c-${++this.#ids}`;
    const name = this.#dice.pick(["a", "b"]);
    switch (this.#dice.weigh({ install: 4, uninstall: 3, drain: 4, undrain: 4, kick: 1 })) {
      case "install":
        return { type: "worker.order", ...by, id, order: { type: "pkg.install", name, version: "1.0.0" } };
      case "uninstall":
        return { type: "worker.order", ...by, id, order: { type: "pkg.uninstall", name, version: null } };
      case "drain":
        return { type: "worker.drain", ...by, on: true, command: id };
      case "undrain":
        return { type: "worker.drain", ...by, on: false, command: id };
      case "kick":
        return { type: "worker.kick", ...by, reason: "out", command: id };
    }
  }

  async #step(): Promise<void> {
    const { door } = this;
    door.hear(this.engines);
    switch (this.#dice.weigh({ command: 8, answer: 6, lose: 2, join: 3, announce: 2, beat: 2, pass: 3, wait: 2 })) {
      case "command": {
        const command = this.#command();
        const id = command.type === "worker.order" ? command.id : (command as { command: string }).command;
        const said = this.#dice.pick(this.engines).ask(command);
        this.#under.push(said.then(() => this.taken.push(id)).catch(refusalOnly));
        return;
      }
      case "answer":
        this.#under.push(door.answer());
        return;
      case "lose":
        if (door.isAttached) this.#under.push(door.lose());
        return;
      case "join":
        if (!door.isAttached)
          this.#under.push(door.join(this.#dice.pick(this.engines), this.#dice.weigh({ resume: 4, session: 2, process: 1 })));
        else if (this.#dice.chance(0.3)) this.#under.push(door.join(this.#dice.pick(this.engines), "session"));
        return;
      case "announce":
        this.#under.push(door.announce());
        return;
      case "beat":
        this.#under.push(door.beat());
        return;
      case "pass":
        return await this.#street.pass(1);
      case "wait":
        await this.#heard();
    }
  }

  /** Everybody who waits for an answer has it; seconds pass meanwhile, as engines that meet a busy root pause. */
  async #heard(): Promise<void> {
    let isOver = false;
    void Promise.all(this.#under.splice(0)).then(() => (isOver = true));
    for (let second = 0; second < 20 && !isOver; second++) await this.#street.pass(1);
    if (!isOver) throw new Error("somebody was never answered");
  }

  async #during<T>(said: Promise<T>): Promise<T> {
    this.#under.push(said);
    await this.#heard();
    return await said;
  }

  /** The worker comes to rest where it is and answers whatever it was told. */
  async #rest(): Promise<void> {
    const { door } = this;
    await this.#heard();
    await this.#street.pass(1);
    for (let quiet = 0; quiet < 3; quiet++) {
      await this.#during(door.beat());
      door.hear(this.engines);
      if (!door.isAttached) {
        await this.#during(door.join(door.engine ?? (this.engines[0] as Harness), "resume"));
        if (!door.isAttached) await this.#during(door.join(this.engines[0] as Harness, "session"));
        quiet = -1;
      }
      await this.#street.pass(1);
      door.hear(this.engines);
      while (await this.#during(door.answer())) quiet = -1;
    }
  }

  async ends(): Promise<Record<string, string[]>> {
    const { store } = this.engines[0] as Harness;
    const types = ["command.acked", "command.failed"];
    const { items } = await store.events({ tenant: "t1", after: 0, limit: 10_000, types });
    const ends: Record<string, string[]> = {};
    for (const { type, data } of items) (ends[String(data["id"])] ??= []).push(type);
    return ends;
  }

  async unended(): Promise<WorkerCommandRecord[]> {
    const { items } = await (this.engines[0] as Harness).store.page({
      page: "doc",
      tenant: "t1",
      collection: "command",
      names: this.taken,
    });
    const bodies = items.flatMap((doc) => (doc === null ? [] : [JSON.parse(doc.body) as WorkerCommandRecord]));
    return bodies.filter(({ status }) => status === "sent");
  }
}

/** Each command that was taken has ended, once; what is wrong, or nothing. */
export async function wrongs(day: Afternoon): Promise<string[]> {
  const ends = await day.ends();
  const open = (await day.unended()).map(({ order }) => `a command to ${order.type} never ended`);
  const twice = Object.entries(ends).flatMap(([id, all]) => (all.length === 1 ? [] : [`${id} ended ${all.length} times`]));
  const strange = Object.keys(ends).flatMap((id) => (day.taken.includes(id) ? [] : [`${id} ended and was not taken`]));
  const untold = day.taken.flatMap((id) => (id in ends ? [] : [`the log does not tell the end of ${id}`]));
  // Joins may overtake each other: a process that was followed already is refused as a clone, and that is said.
  const problems = day.engines.flatMap((engine) => engine.problems).filter(({ code }) => code !== "E.SESSION.DENIED");
  return [...open, ...twice, ...strange, ...untold, ...problems.map(({ message }) => message)];
}
