// The flags of `npm run ledger`: their meaning, their defaults, and what is wrong with a command line.

export interface CrashTestFlags {
  readonly tasks: number;
  readonly workers: number;
  readonly schedulers: number;
  readonly kills: number;
  readonly workerShare: number;
  readonly firstShare: number;
  readonly killEverySeconds: number;
  readonly restarts: number;
  readonly secondsMax: number;
  /** 1: the attacks are sent afterwards, 0: they are not. */
  readonly attacks: number;
}

interface FlagDefinition {
  readonly field: keyof CrashTestFlags;
  readonly fallback: number;
  readonly min: number;
  readonly isWhole: boolean;
  readonly description: string;
}

const flags: Readonly<Record<string, FlagDefinition>> = {
  "--tasks": { field: "tasks", fallback: 10_000, min: 1, isWhole: true, description: "how many tasks are run" },
  "--workers": { field: "workers", fallback: 8, min: 1, isWhole: true, description: "how many workers do them" },
  "--schedulers": {
    field: "schedulers",
    fallback: 2,
    min: 1,
    isWhole: true,
    description: "1: on sqlite; more: on one PostgreSQL",
  },
  "--kills": {
    field: "kills",
    fallback: 2,
    min: 0,
    isWhole: true,
    description: "at least so many kills; work goes on until then",
  },
  "--worker-share": {
    field: "workerShare",
    fallback: 0,
    min: 0,
    isWhole: false,
    description: "part of the kills that hits workers, 0 to 1",
  },
  "--first-share": {
    field: "firstShare",
    fallback: 0,
    min: 0,
    isWhole: false,
    description: "part of the workers that are of the first generation, 0 to 1",
  },
  "--kill-every": { field: "killEverySeconds", fallback: 3, min: 0.1, isWhole: false, description: "seconds between two kills" },
  "--restarts": { field: "restarts", fallback: 2, min: 0, isWhole: true, description: "how often PostgreSQL is restarted" },
  "--seconds-max": { field: "secondsMax", fallback: 600, min: 1, isWhole: false, description: "after this long it has failed" },
  "--attacks": {
    field: "attacks",
    fallback: 1,
    min: 0,
    isWhole: true,
    description: "1: all attacks of npm run attack follow, 0: none",
  },
};

export const crashTestHelp = [
  "npm run ledger -- [flags]   schedulers, workers and a PostgreSQL of their own; kills, restarts, and counts",
  ...Object.entries(flags).map(
    ([word, { description: about, fallback }]) => `  ${`${word} N`.padEnd(18)} ${about} (${fallback})`,
  ),
].join("\n");

/** The flags, `help`, or what is wrong with them in one sentence. */
export function readCrashTestFlags(argv: readonly string[]): CrashTestFlags | "help" | { readonly problem: string } {
  if (argv.includes("--help") || argv.includes("-h")) return "help";
  const read = Object.fromEntries(Object.values(flags).map(({ field, fallback }) => [field, fallback]));
  for (let at = 0; at < argv.length; at += 2) {
    const name = argv[at] ?? "";
    const flag = Object.hasOwn(flags, name) ? flags[name] : undefined;
    if (flag === undefined)
      return { problem: `unknown flag ${name}; flags: ${Object.keys(flags).join(", ")}, each with a number` };
    const text = argv[at + 1] ?? "";
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= flag.min) || (flag.isWhole && !Number.isSafeInteger(value)))
      return {
        problem: `${name} takes a ${flag.isWhole ? "whole number" : "number"} of at least ${flag.min}, not "${text}"`,
      };
    read[flag.field] = value;
  }
  const asked = read as unknown as CrashTestFlags;
  if (asked.schedulers === 1 && asked.restarts > 0 && argv.includes("--restarts"))
    return { problem: "--restarts is about PostgreSQL, and a single scheduler works on sqlite; leave one of the two out" };
  return asked.schedulers === 1 ? { ...asked, restarts: 0 } : asked;
}
