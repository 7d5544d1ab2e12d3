// What the doors need from outside besides the engine.

import type { ServiceEnvironment } from "@astraflow/services";

export interface DoorEnvironment extends ServiceEnvironment {
  /** Whether debug lines are logged. Those that would cost something on every frame are built only then. */
  readonly isDebug?: boolean;
}
