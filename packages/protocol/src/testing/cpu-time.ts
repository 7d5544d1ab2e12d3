// Measures work by processor time, which a busy machine does not make longer. For ratios of two pieces of work; no test has a limit in seconds.

/** The least of three, in milliseconds. */
export function leastCpuMs(work: () => unknown): number {
  const spent = [1, 2, 3].map(() => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...spent);
}
