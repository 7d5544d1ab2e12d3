import { describe, expect, it } from "vitest";
import type { Command } from "../interface/command.ts";
import { CommandInbox, type WaitingCommand } from "./inbox.ts";

let refs = 0;
const item = (command: Command, bytes = 100, at = 0): WaitingCommand => ({
  ref: ++refs,
  command,
  bytes,
  at,
  newRunId: null,
  failedCommits: 0,
  busyTurns: 0,
  isSessionGone: false,
  isDecidedAlone: false,
});
const callerCommand = (tenant: string): Command => ({ type: "run.cancel", tenant, by: "", run: "r", reason: "" });
const workerCommand = (tenant: string): Command => ({
  type: "worker.beat",
  tenant,
  worker: `${tenant}/w`,
  session: "s",
  healthy: true,
  held: null,
});
const fill = (inbox: CommandInbox, command: Command, count: number): WaitingCommand[] => {
  const items = Array.from({ length: count }, () => item(command));
  for (const one of items) inbox.push(one);
  return items;
};

describe("the inbox", () => {
  it("[T3] the inbox alternates between tenants, keeps the order within each, and continues where it stopped", () => {
    const inbox = new CommandInbox();
    const loud = fill(inbox, workerCommand("loud"), 5);
    const quiet = fill(inbox, workerCommand("quiet"), 2);

    const first = inbox.take(3, 1e6, null);
    const second = inbox.take(10, 1e6, null);

    expect(first.map((one) => one.command.tenant)).toEqual(["loud", "quiet", "loud"]);
    expect(second[0]?.command.tenant).toBe("quiet");
    const all = [...first, ...second];
    expect(all.filter((one) => one.command.tenant === "loud")).toEqual(loud);
    expect(all.filter((one) => one.command.tenant === "quiet")).toEqual(quiet);
    expect(inbox.size).toBe(0);
  });

  it("[T4] the inbox takes workers' commands before callers' commands, and reserves a quarter of the turn for callers", () => {
    const inbox = new CommandInbox();
    fill(inbox, callerCommand("t"), 100);
    fill(inbox, workerCommand("t"), 100);

    const batch = inbox.take(20, 1e6, null);

    expect(batch.filter((one) => one.command.type === "worker.beat")).toHaveLength(15);
    expect(batch.slice(15).every((one) => one.command.type === "run.cancel")).toBe(true);
    expect(inbox.size).toBe(180);
  });

  it("[T5] the inbox limits a turn by bytes, but always takes one command", () => {
    const inbox = new CommandInbox();
    inbox.push(item(workerCommand("t"), 5_000));
    inbox.push(item(workerCommand("t"), 300));

    expect(inbox.take(10, 1_000, null)).toHaveLength(1);
    expect(inbox.take(10, 1_000, null)).toHaveLength(1);
  });

  it("[T6] the inbox takes a command that must be decided alone by itself, and commands that were put back before new ones", () => {
    const inbox = new CommandInbox();
    const [back, suspect] = [item(workerCommand("t")), { ...item(workerCommand("t")), isDecidedAlone: true }];
    const fresh = fill(inbox, workerCommand("t"), 1);
    inbox.putBack([back, suspect]);

    expect(inbox.take(10, 1e6, null)).toEqual([suspect]);
    expect(inbox.take(10, 1e6, null)).toEqual([back, ...fresh]);
  });

  it("[T7] the inbox reports when its oldest waiting worker command arrived, and returns all commands when it is drained", () => {
    const inbox = new CommandInbox();
    expect(inbox.oldestWorkerCommandAt()).toBe(Number.POSITIVE_INFINITY);
    inbox.push(item(callerCommand("t"), 1, 1));
    inbox.push(item(workerCommand("a"), 1, 30));
    inbox.push(item(workerCommand("b"), 1, 20));

    expect(inbox.oldestWorkerCommandAt()).toBe(20);
    expect(inbox.drainAll()).toHaveLength(3);
    expect(inbox.size).toBe(0);
  });
});
