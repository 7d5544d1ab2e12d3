// How a run came to be: who asked, which version of the workflow, of which run it is a repeat. Written once, at its start; shown and
// searched, never decided upon.

import type { RunId, RunRow } from "../../storage/rows.ts";
import { parsedColumn } from "./parsed-column.ts";

export interface RunOrigin {
  readonly by?: string;
  readonly corr?: string;
  /** Of the workflow: its published version, or null for a draft or a definition that came with the request. */
  readonly version?: number | string | null;
  /** Digest of that version as it was published; what runs may say more, by the manifests of its packages. */
  readonly versionHash?: string;
  /** The run that this one repeats, and from which node on. */
  readonly replayOf?: RunId;
  readonly from?: string;
  readonly to?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** What else the caller wants to find again. */
  readonly [more: string]: unknown;
}

const originColumn = parsedColumn<RunRow, RunOrigin>(
  (run) => run.about,
  {},
  (text) => {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? (parsed as RunOrigin) : {};
  },
);

export const readRunOrigin = originColumn.read;
