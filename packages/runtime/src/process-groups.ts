// Groups of processes as the system shows them under /proc: who belongs to one, and whether it is still the one that was meant. Ids are
// used again; an id with the instant at which its process began is not. Who ends which group is decided elsewhere.

import { readdirSync, readFileSync } from "node:fs";

/** `<pid>:<start>`: one process, however often its id is used. */
export type ProcessName = string;

interface Stat {
  readonly group: number;
  readonly name: ProcessName;
}

/** The name of a process may hold blanks and brackets, so fields are counted behind its last bracket. */
export function readStat(text: string): Stat | null {
  const pid = Number.parseInt(text, 10);
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const group = Number(fields[2]);
  const start = fields[19];
  return Number.isInteger(pid) && Number.isInteger(group) && start !== undefined ? { group, name: `${pid}:${start}` } : null;
}

/** Null where there is no such process, or nothing that could tell. */
export function nameOfProcess(pid: number): ProcessName | null {
  return statOf(pid)?.name ?? null;
}

/** Everybody who is in the group now. */
export function membersOf(group: number): ProcessName[] {
  return readdirSync("/proc").flatMap((entry) => {
    const stat = /^\d+$/.test(entry) ? statOf(Number(entry)) : null;
    return stat?.group === group ? [stat.name] : [];
  });
}

function statOf(pid: number): Stat | null {
  try {
    return readStat(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    // It has just ended.
    return null;
  }
}

/** How the groups are looked at. */
export interface ProcessView {
  nameOf(pid: number): ProcessName | null;
  membersOf(group: number): ProcessName[];
}

/** The groups that somebody answers for. */
export class KnownGroups {
  readonly #groups = new Map<number, Set<ProcessName>>();
  readonly #view: ProcessView;

  constructor(view: ProcessView = { nameOf: nameOfProcess, membersOf }) {
    this.#view = view;
  }

  /** A group began: its first process is known by name. One whose first process has gone: whoever is in it now. */
  look(group: number): void {
    const first = this.#view.nameOf(group);
    const known = this.#groups.get(group) ?? new Set();
    for (const name of first === null ? this.#view.membersOf(group) : [first]) known.add(name);
    this.#groups.set(group, known);
  }

  forget(group: number): void {
    this.#groups.delete(group);
  }

  /** Those in which one is left that was known: an id that others use by now is not touched. */
  left(): number[] {
    return [...this.#groups].flatMap(([group, known]) =>
      this.#view.membersOf(group).some((name) => known.has(name)) ? [group] : [],
    );
  }
}
