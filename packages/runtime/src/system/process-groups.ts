// Process groups under /proc. Ids are used again; an id with the instant at which its process began is not.

import { readdirSync, readFileSync } from "node:fs";

/** `<pid>:<start>`: one process, however often its id is used. */
export type ProcessIdentity = string;

interface ProcessStat {
  readonly group: number;
  readonly identity: ProcessIdentity;
}

/** The name of a process may hold blanks and brackets, so fields are counted behind its last bracket. */
export function parseProcStat(text: string): ProcessStat | null {
  const pid = Number.parseInt(text, 10);
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const group = Number(fields[2]);
  const start = fields[19];
  return Number.isInteger(pid) && Number.isInteger(group) && start !== undefined ? { group, identity: `${pid}:${start}` } : null;
}

/** Null where there is no such process, or nothing that could tell. */
export function identifyProcess(pid: number): ProcessIdentity | null {
  return readProcStat(pid)?.identity ?? null;
}

export function listGroupMembers(group: number): ProcessIdentity[] {
  return readdirSync("/proc").flatMap((entry) => {
    const stat = /^\d+$/.test(entry) ? readProcStat(Number(entry)) : null;
    return stat?.group === group ? [stat.identity] : [];
  });
}

function readProcStat(pid: number): ProcessStat | null {
  try {
    return parseProcStat(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    // It has just ended.
    return null;
  }
}

export interface ProcessTable {
  identify(pid: number): ProcessIdentity | null;
  listMembers(group: number): ProcessIdentity[];
}

/** The groups that somebody answers for. */
export class WatchedGroups {
  readonly #groups = new Map<number, Set<ProcessIdentity>>();
  readonly #processes: ProcessTable;

  constructor(view: ProcessTable = { identify: identifyProcess, listMembers: listGroupMembers }) {
    this.#processes = view;
  }

  /** A group began: its first process is known by name. One whose first process has gone: whoever is in it now. */
  watch(group: number): void {
    const first = this.#processes.identify(group);
    const known = this.#groups.get(group) ?? new Set();
    for (const name of first === null ? this.#processes.listMembers(group) : [first]) known.add(name);
    this.#groups.set(group, known);
  }

  unwatch(group: number): void {
    this.#groups.delete(group);
  }

  /** Those in which one is left that was known: an id that others use by now is not touched. */
  survivingGroups(): number[] {
    return [...this.#groups].flatMap(([group, known]) =>
      this.#processes.listMembers(group).some((name) => known.has(name)) ? [group] : [],
    );
  }
}
