// What the functions of this folder work with.

import { defaultSettings, type EngineGauge, type StoreReader, workerTimings } from "@astraflow/engine";
import type { EngineClient } from "../environment/engine-client.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import type { WorkerViewContext } from "../presentation/worker-view.ts";

export interface WorkerServices {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  /** The engine's own numbers; null while it cannot be asked. */
  readonly gauge: () => EngineGauge | null;
  /** How often a worker is expected to send a heartbeat; the engine's defaults if absent. */
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
}

export const workerViewContext = ({ gauge, environment, heartbeatMsOf }: WorkerServices): WorkerViewContext => ({
  // Times in rows are the store's.
  now: gauge()?.now ?? environment.clock.now(),
  heartbeatMsOf: heartbeatMsOf ?? ((tenant, dialect) => workerTimings(defaultSettings, tenant, dialect).heartbeatMs),
});
