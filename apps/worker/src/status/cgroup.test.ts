import { describe, expect, it } from "vitest";
import { CgroupReader } from "./cgroup.ts";

/** A system that consists of these files, and a clock that the test moves. */
function systemOf(files: Record<string, string>) {
  let now = 0;
  const cgroup = new CgroupReader(
    (file) => files[file] ?? null,
    () => now,
  );
  return {
    cgroup,
    files,
    pass(ms: number) {
      now += ms;
    },
  };
}

const v2 = "/sys/fs/cgroup";
const inGroup = { "/proc/self/cgroup": "0::/pod/box\n" };

describe("limits of the worker's process", () => {
  it("[W130] cgroup memory use is counted against the group's limit, without pages that can be reclaimed at once", () => {
    const { cgroup } = systemOf({
      ...inGroup,
      [`${v2}/pod/box/memory.max`]: "1000\n",
      [`${v2}/pod/box/memory.current`]: "900\n",
      [`${v2}/pod/box/memory.stat`]: "anon 10\ninactive_file 300\nactive_file 5\n",
    });

    expect(cgroup.readUsage().memory).toEqual({ usedBytes: 600, limitBytes: 1_000 });
  });

  it("[W130] cgroup memory use is taken from the fullest limited ancestor group, also if the group is mounted as the root", () => {
    const nested = {
      ...inGroup,
      [`${v2}/pod/box/memory.max`]: "max\n",
      [`${v2}/pod/memory.max`]: "2000\n",
      [`${v2}/pod/memory.current`]: "1800\n",
      [`${v2}/memory.max`]: "4000\n",
      [`${v2}/memory.current`]: "1900\n",
    };
    const contained = { "/proc/self/cgroup": "0::/\n", [`${v2}/memory.max`]: "50\n", [`${v2}/memory.current`]: "10\n" };

    expect(systemOf(nested).cgroup.readUsage().memory).toEqual({ usedBytes: 1_800, limitBytes: 2_000 });
    expect(systemOf(contained).cgroup.readUsage().memory).toEqual({ usedBytes: 10, limitBytes: 50 });
  });

  it("[W130] the cgroup reader also reads cgroup v1, where a huge number means no limit", () => {
    const memory = "/sys/fs/cgroup/memory";
    const files = {
      "/proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n",
      [`${memory}/memory.limit_in_bytes`]: "800\n",
      [`${memory}/memory.usage_in_bytes`]: "500\n",
      [`${memory}/memory.stat`]: "cache 1\ntotal_inactive_file 100\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
      "/sys/fs/cgroup/cpuacct/cpuacct.usage": "0\n",
    };
    const { cgroup, pass } = systemOf(files);

    expect(cgroup.readUsage()).toEqual({ memory: { usedBytes: 400, limitBytes: 800 }, cpu: { limitCores: 0.5 } });
    pass(1_000);
    files["/sys/fs/cgroup/cpuacct/cpuacct.usage"] = "250000000\n";
    files[`${memory}/memory.limit_in_bytes`] = "9223372036854771712\n";
    expect(cgroup.readUsage()).toEqual({ cpu: { limitCores: 0.5, usedCores: 0.25 } });
  });

  it("[W131] cgroup CPU use between two reads is measured, with the tightest quota as the limit", () => {
    const { cgroup, files, pass } = systemOf({
      ...inGroup,
      [`${v2}/pod/box/cpu.max`]: "200000 100000\n",
      [`${v2}/pod/cpu.max`]: "150000 100000\n",
      [`${v2}/cpu.max`]: "max 100000\n",
      [`${v2}/pod/box/cpu.stat`]: "usage_usec 1000000\nuser_usec 1\n",
    });

    expect(cgroup.readUsage().cpu).toEqual({ limitCores: 1.5 });
    pass(2_000);
    files[`${v2}/pod/box/cpu.stat`] = "usage_usec 2500000\n";

    expect(cgroup.readUsage().cpu).toEqual({ limitCores: 1.5, usedCores: 0.75 });
  });

  it("[W130] the cgroup reader returns nothing if nothing is limited or nothing can be read", () => {
    const odd = { ...inGroup, [`${v2}/memory.max`]: "soon\n", [`${v2}/cpu.max`]: "" };

    for (const files of [{}, inGroup, odd]) expect(systemOf(files).cgroup.readUsage()).toEqual({});
  });
});
