// Exit codes of `astra` and of the programs it starts: a promise to scripts and supervisors.

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  /** Of a scheduler: starting again would take the name back and end the other one, so a supervisor must be able to tell. */
  replaced: 3,
  notAllowed: 4,
  unreachable: 5,
  conflict: 6,
  timeout: 7,
  interrupted: 130,
  terminated: 143,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

type ExitMeanings = Readonly<Partial<Record<keyof typeof exitCodes, string>>>;

/** When each program ends with which code; no program uses another. */
export const exitMeanings = {
  cli: {
    ok: "done",
    failed: "the run failed or was cancelled, the user declined, or the scheduler refused the request",
    usage: "wrong usage",
    notFound: "not found",
    notAllowed: "not allowed",
    unreachable: "the scheduler cannot be reached",
    conflict: "conflict with the current state",
    timeout: "timeout",
    interrupted: "interrupted",
  },
  scheduler: {
    ok: "stopped, also when `--grace` ran out",
    failed: "the engine or the store died, or an unexpected error",
    usage: "wrong settings, or the start was refused",
    replaced: "another scheduler took over its name",
    terminated: "a second signal, or a signal before it was ready",
  },
  worker: {
    ok: "left after a signal, also when `--grace` ran out",
    failed:
      "a second signal, damaged stored results (`E.OUTBOX.DAMAGED`), or a package that crashed while loading (`E.PKG.INVALID`)",
    usage: "wrong settings, or an unusable data directory or `--metrics-listen`",
    notAllowed: "refused by the scheduler, with `--reconnect-abort-on-auth-error`",
  },
} as const satisfies Record<string, ExitMeanings>;
