// The scheduler cannot start as it was told to. One sentence that names the thing and the way out; the process ends with code 2.

export class StartupError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
  }
}
