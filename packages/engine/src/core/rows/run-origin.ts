// The origin of a run: who started it, which version of the workflow, which run it repeats. Written once, at its start; shown and
// searched, never decided upon.

import { isRecord } from "@astraflow/protocol";
import type { RunId, RunRow } from "../../storage/rows.ts";
import { parsedColumn } from "./parsed-column.ts";

export interface RunOrigin {
  readonly by?: string;
  readonly corr?: string;
  /** Published version of the workflow, or null for a draft or a definition that came with the request. */
  readonly version?: number | string | null;
  /** Digest of that version as it was published; the stored plan may hold more, from the manifests of its packages. */
  readonly versionHash?: string;
  /** The run that this one repeats, and from which node on. */
  readonly replayOf?: RunId;
  readonly from?: string;
  readonly to?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Further fields of the caller. */
  readonly [more: string]: unknown;
}

const originColumn = parsedColumn<RunRow, RunOrigin>(
  (run) => run.about,
  {},
  (text) => {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : {};
  },
);

export const readRunOrigin = originColumn.read;
