// Fuzz test of worker commands: several engines on one store, sessions that lose sockets, resume, move and restart, late mail and failing
// turns. Whatever happens, each command ends once, and the worker is sent every open command.

import type { Command, Effect, FaultData, PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { describeWorker, type EngineHarness } from "../harness/engine-harness.ts";
import type { FuzzRandom } from "../harness/fuzz-random.ts";

const operatorFields = { tenant: "t1", by: "ada", worker: "t1/w" } as const;
const steps = 60;

/** A refusal is an answer too; anything else is a fault of the engine's. */
const rethrowUnlessRefused = (why: unknown): void => {
  if (!(why as FaultData).code.startsWith("E.")) throw why;
};

/** The worker and the doors of its sessions: what it received in its current session, and what it answers. */
class FuzzedWorkerSession {
  readonly #dice: FuzzRandom;
  engine: EngineHarness | null = null;
  session = "";
  boot = "boot-0";
  isAttached = false;
  /** What a worker sends before it is accepted waits at the door. */
  isLive = false;
  readonly packages = new Map<string, string>();
  /** Commands this session was given and has not carried out; those it ever was given. */
  pendingCommands: { id: string; order: PackageCommand }[] = [];
  receivedCommands = new Set<string>();
  /** Drains and their ends on the wire. */
  unansweredDrains: boolean[] = [];
  #sessions = 0;
  #boots = 0;
  #joins = 0;
  readonly #effectsRead = new Map<EngineHarness, number>();

  constructor(random: FuzzRandom) {
    this.#dice = random;
  }

  get about() {
    const packages = [...this.packages].map(([name, version]) => ({ name, version, status: "installed" as const }));
    return describeWorker({ features: ["fence", "cancel", "held", "undrain"], packages });
  }

  readEffects(engines: readonly EngineHarness[]): void {
    for (const engine of engines) {
      const from = this.#effectsRead.get(engine) ?? 0;
      this.#effectsRead.set(engine, engine.effects.length);
      for (const effect of engine.effects.slice(from))
        if ("session" in effect && effect.session === this.session) this.#applyEffect(effect);
    }
  }

  #applyEffect(effect: Effect): void {
    if (effect.type === "order" && !this.receivedCommands.has(effect.id)) {
      this.receivedCommands.add(effect.id);
      this.pendingCommands.push({ id: effect.id, order: effect.order });
    }
    // A drain is not kept for a session without a socket.
    if (effect.type === "drain" && this.isAttached) this.unansweredDrains.push(effect.on);
    if (effect.type === "reset") this.isAttached = this.isLive = false;
  }

  /** `over` a new socket of the session, or with a new one; with a new process perhaps. */
  async join(engine: EngineHarness, how: "resume" | "session" | "process"): Promise<void> {
    const isResumed = how === "resume" && this.engine === engine && this.session !== "";
    if (how === "process") this.boot = `boot-${++this.#boots}`;
    if (!isResumed) {
      this.session = `s-${++this.#sessions}`;
      this.pendingCommands = [];
      this.receivedCommands = new Set();
    }
    this.unansweredDrains = [];
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
    // A join that was overtaken by another changes nothing.
    if (this.#joins !== join) return;
    this.isLive = isTaken && this.isAttached;
    if (isTaken) return;
    this.session = "";
    this.isAttached = false;
  }

  loseSocket(): Promise<unknown> {
    this.isAttached = false;
    this.isLive = false;
    this.unansweredDrains = [];
    return this.#send({ type: "worker.leave", tenant: "t1", worker: "t1/w", session: this.session, reason: "gone" });
  }

  /** Carries out or refuses the next command, or acks a drain. */
  async answerNext(): Promise<boolean> {
    if (!this.isAttached || !this.isLive) return false;
    const to = { tenant: "t1", worker: "t1/w", session: this.session } as const;
    const on = this.unansweredDrains.shift();
    const next = this.pendingCommands.shift();
    const isAnotherUnacked = on !== undefined && this.unansweredDrains.includes(on);
    await Promise.all([
      on === undefined ? null : this.#send({ type: "worker.heard", ...to, on, isAnotherUnacked }),
      next === undefined ? null : this.#send({ type: "worker.package", ...to, ...this.#carryOut(next) }),
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

  describe(): Promise<unknown> {
    const { session } = this;
    if (!this.isLive) return Promise.resolve();
    return this.#send({ type: "worker.describe", tenant: "t1", worker: "t1/w", session, about: this.about });
  }

  /** A session whose heartbeat is refused is over. */
  async sendHeartbeat(): Promise<void> {
    const { session } = this;
    const word = { type: "worker.beat", tenant: "t1", worker: "t1/w", session, healthy: true, held: [] } as const;
    const isAccepted =
      !this.isLive ||
      session === "" ||
      (await this.engine?.ask(word).then(
        () => true,
        () => false,
      ));
    if (isAccepted === false && this.session === session) this.isAttached = this.isLive = false;
  }

  /** A refusal is an answer too. */
  #send(command: Command): Promise<unknown> {
    return this.engine === null || this.session === "" ? Promise.resolve() : this.engine.ask(command).catch(rethrowUnlessRefused);
  }
}

/** Where it happens: engines on one store, and seconds that pass for all of them. */
export interface EngineGroup {
  readonly engines: EngineHarness[];
  passSeconds(seconds: number): Promise<void>;
}

export class CommandFuzz {
  readonly #dice: FuzzRandom;
  readonly #group: EngineGroup;
  readonly session: FuzzedWorkerSession;
  /** Commands that were taken. */
  readonly acceptedCommands: string[] = [];
  readonly #pending: Promise<unknown>[] = [];
  #ids = 0;

  constructor(random: FuzzRandom, group: EngineGroup) {
    this.#dice = random;
    this.#group = group;
    this.session = new FuzzedWorkerSession(random);
  }

  get engines(): readonly EngineHarness[] {
    return this.#group.engines;
  }

  async run(): Promise<void> {
    await this.#waitFor(this.session.join(this.engines[0] as EngineHarness, "session"));
    for (let step = 0; step < steps; step++) await this.#randomStep();
    await this.#finishPending();
  }

  #randomCommand(): Command {
    const id = `c-${++this.#ids}`;
    const name = this.#dice.pick(["a", "b"]);
    switch (this.#dice.pickWeighted({ install: 4, uninstall: 3, drain: 4, undrain: 4, kick: 1 })) {
      case "install":
        return { type: "worker.order", ...operatorFields, id, order: { type: "pkg.install", name, version: "1.0.0" } };
      case "uninstall":
        return { type: "worker.order", ...operatorFields, id, order: { type: "pkg.uninstall", name, version: null } };
      case "drain":
        return { type: "worker.drain", ...operatorFields, on: true, command: id };
      case "undrain":
        return { type: "worker.drain", ...operatorFields, on: false, command: id };
      case "kick":
        return { type: "worker.kick", ...operatorFields, reason: "out", command: id };
    }
  }

  async #randomStep(): Promise<void> {
    const { session } = this;
    session.readEffects(this.engines);
    switch (this.#dice.pickWeighted({ command: 8, answer: 6, lose: 2, join: 3, announce: 2, beat: 2, pass: 3, wait: 2 })) {
      case "command": {
        const command = this.#randomCommand();
        const id = command.type === "worker.order" ? command.id : (command as { command: string }).command;
        const answer = this.#dice.pick(this.engines).ask(command);
        this.#pending.push(answer.then(() => this.acceptedCommands.push(id)).catch(rethrowUnlessRefused));
        return;
      }
      case "answer":
        this.#pending.push(session.answerNext());
        return;
      case "lose":
        if (session.isAttached) this.#pending.push(session.loseSocket());
        return;
      case "join":
        if (!session.isAttached)
          this.#pending.push(
            session.join(this.#dice.pick(this.engines), this.#dice.pickWeighted({ resume: 4, session: 2, process: 1 })),
          );
        else if (this.#dice.chance(0.3)) this.#pending.push(session.join(this.#dice.pick(this.engines), "session"));
        return;
      case "announce":
        this.#pending.push(session.describe());
        return;
      case "beat":
        this.#pending.push(session.sendHeartbeat());
        return;
      case "pass":
        return await this.#group.passSeconds(1);
      case "wait":
        await this.#waitForAnswers();
    }
  }

  /** Everybody who waits for an answer has it; seconds pass meanwhile, as engines that meet a busy root pause. */
  async #waitForAnswers(): Promise<void> {
    let isOver = false;
    void Promise.all(this.#pending.splice(0)).then(() => (isOver = true));
    for (let second = 0; second < 20 && !isOver; second++) await this.#group.passSeconds(1);
    if (!isOver) throw new Error("somebody was never answered");
  }

  async #waitFor<T>(answer: Promise<T>): Promise<T> {
    this.#pending.push(answer);
    await this.#waitForAnswers();
    return await answer;
  }

  /** The worker keeps its session and answers everything that it received. */
  async #finishPending(): Promise<void> {
    const { session } = this;
    await this.#waitForAnswers();
    await this.#group.passSeconds(1);
    for (let quiet = 0; quiet < 3; quiet++) {
      await this.#waitFor(session.sendHeartbeat());
      session.readEffects(this.engines);
      if (!session.isAttached) {
        await this.#waitFor(session.join(session.engine ?? (this.engines[0] as EngineHarness), "resume"));
        if (!session.isAttached) await this.#waitFor(session.join(this.engines[0] as EngineHarness, "session"));
        quiet = -1;
      }
      await this.#group.passSeconds(1);
      session.readEffects(this.engines);
      while (await this.#waitFor(session.answerNext())) quiet = -1;
    }
  }

  async endFactsByCommand(): Promise<Record<string, string[]>> {
    const { store } = this.engines[0] as EngineHarness;
    const types = ["command.acked", "command.failed"];
    const { items } = await store.events({ tenant: "t1", after: 0, limit: 10_000, types });
    const ends: Record<string, string[]> = {};
    for (const { type, data } of items) (ends[String(data["id"])] ??= []).push(type);
    return ends;
  }

  async unendedCommands(): Promise<WorkerCommandRecord[]> {
    const { items } = await (this.engines[0] as EngineHarness).store.page({
      page: "doc",
      tenant: "t1",
      collection: "command",
      names: this.acceptedCommands,
    });
    const bodies = items.flatMap((doc) => (doc === null ? [] : [JSON.parse(doc.body) as WorkerCommandRecord]));
    return bodies.filter(({ status }) => status === "sent");
  }
}

/** Each command that was taken has ended, once; what is wrong, or nothing. */
export async function findCommandProblems(fuzz: CommandFuzz): Promise<string[]> {
  const ends = await fuzz.endFactsByCommand();
  const open = (await fuzz.unendedCommands()).map(({ order }) => `a command to ${order.type} never ended`);
  const twice = Object.entries(ends).flatMap(([id, all]) => (all.length === 1 ? [] : [`${id} ended ${all.length} times`]));
  const strange = Object.keys(ends).flatMap((id) =>
    fuzz.acceptedCommands.includes(id) ? [] : [`${id} ended and was not taken`],
  );
  const unlogged = fuzz.acceptedCommands.flatMap((id) => (id in ends ? [] : [`the log does not contain the end of ${id}`]));
  // Joins may overtake each other: a process that was already superseded is refused as a clone, and that is reported.
  const problems = fuzz.engines.flatMap((engine) => engine.problems).filter(({ code }) => code !== "E.SESSION.DENIED");
  return [...open, ...twice, ...strange, ...unlogged, ...problems.map(({ message }) => message)];
}
