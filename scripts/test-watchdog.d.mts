/** The types of test-watchdog.mjs, for test-progress.ts and the tests. */

/** What one process of the test runner works on. */
export interface ProgressNote {
  file: string;
  fileSince: number;
  /** Null between tests and in hooks. */
  title: string | null;
  since: number;
  /** The last hook of the file has run. */
  isEnded: boolean;
}

export interface WatchdogOptions {
  /** Where the processes leave their notes. */
  folder: string;
  /** Paths are shown below it. */
  root: string;
  /** A file that takes longer hangs. */
  fileLimitMs: number;
  /** A test that takes longer is named, and again after as long. */
  namedAfterMs: number;
}

export interface TestInProgress extends ProgressNote {
  process: number;
}

export type ReadProgress = (folder: string) => TestInProgress[];
export const readProgress: ReadProgress;

/** `FILE: test TITLE has run N s`. */
export type DescribeProgress = (one: ProgressNote, root: string, now: number) => string;
export const describeProgress: DescribeProgress;

export interface Watchdog {
  /** Looks once: lines to print, and the files that hang. */
  look(now: number): { lines: string[]; hanging: TestInProgress[] };
}
export type CreateWatchdog = (options: WatchdogOptions) => Watchdog;
export const createWatchdog: CreateWatchdog;
