// What the system allows this process and how much of it is used: memory and processor time of its control group, in both versions of
// that interface. Where nothing is limited, nothing is said; a file that cannot be read is a limit that is not known.

export interface CgroupUse {
  /** The tightest limit, by share used. Memory that the system can take back at once (old pages of files) does not count as used. */
  readonly memory?: { readonly usedBytes: number; readonly limitBytes: number };
  /** Processors it may use, and how many it did use since the last look. */
  readonly cpu?: { readonly limitCores: number; readonly usedCores?: number };
}

const mount = "/sys/fs/cgroup";
/** Version 1 says "no limit" with a number near the largest there is. */
const noLimitBytes = 2 ** 60;

/** Folders in which limits may sit: the group itself and those above it, as far as this process sees them. */
interface Folders {
  readonly version: 1 | 2;
  readonly memory: readonly string[];
  readonly cpu: readonly string[];
  readonly cpuUse: readonly string[];
}

export class Cgroup {
  readonly #read: (file: string) => string | null;
  readonly #now: () => number;
  readonly #folders: Folders;
  #lastCpu: { readonly at: number; readonly usedMs: number } | null = null;

  /** `read` gives null where there is no such file, or it is not ours to read. `now`: milliseconds of a clock that never jumps. */
  constructor(read: (file: string) => string | null, now: () => number) {
    this.#read = read;
    this.#now = now;
    this.#folders = findFolders(read("/proc/self/cgroup") ?? "", read);
  }

  look(): CgroupUse {
    const memory = this.#memory();
    const cpu = this.#cpu();
    return { ...(memory && { memory }), ...(cpu && { cpu }) };
  }

  #memory(): CgroupUse["memory"] {
    const isNew = this.#folders.version === 2;
    let fullest: { usedBytes: number; limitBytes: number } | undefined;
    for (const folder of this.#folders.memory) {
      const limitBytes = this.#number(`${folder}/${isNew ? "memory.max" : "memory.limit_in_bytes"}`);
      if (limitBytes === null || limitBytes <= 0 || limitBytes >= noLimitBytes) continue;
      const current = this.#number(`${folder}/${isNew ? "memory.current" : "memory.usage_in_bytes"}`);
      if (current === null) continue;
      const idle = field(this.#read(`${folder}/memory.stat`), isNew ? "inactive_file" : "total_inactive_file");
      const usedBytes = Math.max(0, current - idle);
      if (fullest === undefined || usedBytes / limitBytes > fullest.usedBytes / fullest.limitBytes)
        fullest = { usedBytes, limitBytes };
    }
    return fullest;
  }

  #cpu(): CgroupUse["cpu"] {
    const limits = this.#folders.cpu.map((folder) => this.#coresOf(folder)).filter((cores) => cores !== null);
    if (limits.length === 0) return undefined;
    const limitCores = Math.min(...limits);
    const [folder] = this.#folders.cpuUse;
    const usedMs = folder === undefined ? null : this.#cpuMs(folder);
    if (usedMs === null) return { limitCores };
    const at = this.#now();
    const last = this.#lastCpu;
    this.#lastCpu = { at, usedMs };
    return last === null || at <= last.at ? { limitCores } : { limitCores, usedCores: (usedMs - last.usedMs) / (at - last.at) };
  }

  #coresOf(folder: string): number | null {
    if (this.#folders.version === 1) {
      const quota = this.#number(`${folder}/cpu.cfs_quota_us`);
      const period = this.#number(`${folder}/cpu.cfs_period_us`);
      return quota === null || period === null || quota <= 0 || period <= 0 ? null : quota / period;
    }
    const [quota, period] = (this.#read(`${folder}/cpu.max`) ?? "").trim().split(" ").map(Number);
    return quota !== undefined && period !== undefined && quota > 0 && period > 0 ? quota / period : null;
  }

  #cpuMs(folder: string): number | null {
    if (this.#folders.version === 2) {
      const text = this.#read(`${folder}/cpu.stat`);
      return text === null ? null : field(text, "usage_usec") / 1_000;
    }
    const nanos = this.#number(`${folder}/cpuacct.usage`);
    return nanos === null ? null : nanos / 1e6;
  }

  #number(file: string): number | null {
    const text = this.#read(file)?.trim() ?? "";
    return /^-?\d+$/.test(text) ? Number(text) : null;
  }
}

/** Lines are `0::/path` in version 2 and `4:cpu,cpuacct:/path` in version 1; a controller sits in one of the two. */
function findFolders(text: string, read: (file: string) => string | null): Folders {
  const paths = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, names, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    for (const name of names?.split(",") ?? []) paths.set(name, path ?? "");
  }
  const upward = (root: string, path: string | undefined): string[] => {
    const parts = (path ?? "").split("/").filter((part) => part !== "" && part !== "..");
    return Array.from({ length: parts.length + 1 }, (_, index) => [root, ...parts.slice(0, parts.length - index)].join("/"));
  };
  if (paths.has("memory") || paths.has("cpu")) {
    const of = (name: string, probe: string) =>
      upward(`${mount}/${name}`, paths.get(name)).filter((folder) => read(`${folder}/${probe}`) !== null);
    return {
      version: 1,
      memory: of("memory", "memory.limit_in_bytes"),
      cpu: of("cpu", "cpu.cfs_quota_us"),
      cpuUse: of("cpuacct", "cpuacct.usage"),
    };
  }
  const folders = upward(mount, paths.get(""));
  const having = (probe: string) => folders.filter((folder) => read(`${folder}/${probe}`) !== null);
  return { version: 2, memory: having("memory.max"), cpu: having("cpu.max"), cpuUse: having("cpu.stat") };
}

function field(text: string | null, name: string): number {
  const found = new RegExp(`^${name} (\\d+)$`, "m").exec(text ?? "");
  return Number(found?.[1] ?? 0);
}
