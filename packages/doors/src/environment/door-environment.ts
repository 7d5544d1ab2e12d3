// What the doors need besides the engine: clock, timers, ids and a log. The app passes the real ones, tests their own.

import type { ServiceEnvironment } from "@astraflow/services";

export interface DoorEnvironment extends ServiceEnvironment {
  /** Whether debug lines are written. Those about single frames are built only then. */
  readonly isDebug?: boolean;
}
