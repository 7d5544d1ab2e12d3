// Memory and processor time that the control group of this process, of either version, allows it, and how much of it is used.

export interface CgroupUsage {
  /** The tightest limit, by share used. Memory that the system can take back at once (old pages of files) does not count as used. */
  readonly memory?: { readonly usedBytes: number; readonly limitBytes: number };
  /** Processors it may use, and how many it did use since the last look. */
  readonly cpu?: { readonly limitCores: number; readonly usedCores?: number };
}

const cgroupMount = "/sys/fs/cgroup";
/** Version 1 writes "no limit" as a number near the largest there is. */
const noLimitBytes = 2 ** 60;

/** Folders in which limits may sit: the group itself and those above it, as far as this process sees them. */
interface CgroupDirectories {
  readonly version: 1 | 2;
  readonly memory: readonly string[];
  readonly cpu: readonly string[];
  readonly cpuUse: readonly string[];
}

export class CgroupReader {
  readonly #read: (file: string) => string | null;
  readonly #now: () => number;
  readonly #directories: CgroupDirectories;
  #lastCpuSample: { readonly at: number; readonly usedMs: number } | null = null;

  /** `read` gives null where there is no such file, or it is not ours to read. `now`: milliseconds of a clock that never jumps. */
  constructor(read: (file: string) => string | null, now: () => number) {
    this.#read = read;
    this.#now = now;
    this.#directories = findCgroupDirectories(read("/proc/self/cgroup") ?? "", read);
  }

  readUsage(): CgroupUsage {
    const memory = this.#readMemory();
    const cpu = this.#readCpu();
    return { ...(memory && { memory }), ...(cpu && { cpu }) };
  }

  #readMemory(): CgroupUsage["memory"] {
    const isNew = this.#directories.version === 2;
    let fullest: { usedBytes: number; limitBytes: number } | undefined;
    for (const folder of this.#directories.memory) {
      const limitBytes = this.#readNumber(`${folder}/${isNew ? "memory.max" : "memory.limit_in_bytes"}`);
      if (limitBytes === null || limitBytes <= 0 || limitBytes >= noLimitBytes) continue;
      const current = this.#readNumber(`${folder}/${isNew ? "memory.current" : "memory.usage_in_bytes"}`);
      if (current === null) continue;
      const idle = readStatField(this.#read(`${folder}/memory.stat`), isNew ? "inactive_file" : "total_inactive_file");
      const usedBytes = Math.max(0, current - idle);
      if (fullest === undefined || usedBytes / limitBytes > fullest.usedBytes / fullest.limitBytes)
        fullest = { usedBytes, limitBytes };
    }
    return fullest;
  }

  #readCpu(): CgroupUsage["cpu"] {
    const limits = this.#directories.cpu.map((folder) => this.#readCoreLimit(folder)).filter((cores) => cores !== null);
    if (limits.length === 0) return undefined;
    const limitCores = Math.min(...limits);
    const [folder] = this.#directories.cpuUse;
    const usedMs = folder === undefined ? null : this.#readCpuTimeMs(folder);
    if (usedMs === null) return { limitCores };
    const at = this.#now();
    const last = this.#lastCpuSample;
    this.#lastCpuSample = { at, usedMs };
    return last === null || at <= last.at ? { limitCores } : { limitCores, usedCores: (usedMs - last.usedMs) / (at - last.at) };
  }

  #readCoreLimit(folder: string): number | null {
    if (this.#directories.version === 1) {
      const quota = this.#readNumber(`${folder}/cpu.cfs_quota_us`);
      const period = this.#readNumber(`${folder}/cpu.cfs_period_us`);
      return quota === null || period === null || quota <= 0 || period <= 0 ? null : quota / period;
    }
    const [quota, period] = (this.#read(`${folder}/cpu.max`) ?? "").trim().split(" ").map(Number);
    return quota !== undefined && period !== undefined && quota > 0 && period > 0 ? quota / period : null;
  }

  #readCpuTimeMs(folder: string): number | null {
    if (this.#directories.version === 2) {
      const text = this.#read(`${folder}/cpu.stat`);
      return text === null ? null : readStatField(text, "usage_usec") / 1_000;
    }
    const nanos = this.#readNumber(`${folder}/cpuacct.usage`);
    return nanos === null ? null : nanos / 1e6;
  }

  #readNumber(file: string): number | null {
    const text = this.#read(file)?.trim() ?? "";
    return /^-?\d+$/.test(text) ? Number(text) : null;
  }
}

/** Lines are `0::/path` in version 2 and `4:cpu,cpuacct:/path` in version 1; a controller sits in one of the two. */
function findCgroupDirectories(text: string, read: (file: string) => string | null): CgroupDirectories {
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
      upward(`${cgroupMount}/${name}`, paths.get(name)).filter((folder) => read(`${folder}/${probe}`) !== null);
    return {
      version: 1,
      memory: of("memory", "memory.limit_in_bytes"),
      cpu: of("cpu", "cpu.cfs_quota_us"),
      cpuUse: of("cpuacct", "cpuacct.usage"),
    };
  }
  const folders = upward(cgroupMount, paths.get(""));
  const having = (probe: string) => folders.filter((folder) => read(`${folder}/${probe}`) !== null);
  return { version: 2, memory: having("memory.max"), cpu: having("cpu.max"), cpuUse: having("cpu.stat") };
}

function readStatField(text: string | null, name: string): number {
  const found = new RegExp(`^${name} (\\d+)$`, "m").exec(text ?? "");
  return Number(found?.[1] ?? 0);
}
