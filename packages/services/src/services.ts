// Builds every service once. The app or a test gives what comes from outside; both doors share the result.

import { type CatalogueCache, createCatalogueCache } from "./catalogue/catalogue.ts";
import { createManifestRecorder, type ManifestRecorder } from "./catalogue/manifest-recorder.ts";
import { createHeartbeatWatch, type HeartbeatWatch } from "./events/heartbeat-watch.ts";
import { createVolatileEvents, type VolatileEvents } from "./events/volatile-events.ts";
import { type BlobStores, createDocumentBlobStore } from "./resources/blob-store.ts";
import { createLostResourceFinder, type FindLostResources } from "./resources/lost-resources.ts";
import { createResourceBinder, type ResourceBinder } from "./resources/resource-bindings.ts";
import { createResourceRepository, type ResourceRepository } from "./resources/resource-repository.ts";
import { createResourceRequirements, type ResourceRequirements } from "./resources/resource-requirements.ts";
import { createRunServices, type RunServices } from "./runs/run-services.ts";
import { createSavedViewStore } from "./saved-views/saved-view-store.ts";
import type { SavedViews } from "./saved-views/saved-views.ts";
import { createUserAccounts, type UserAccounts } from "./users/user-accounts.ts";
import { createVendorFrameRelay, type VendorFrameRelay } from "./workers/vendor-frame-relay.ts";
import type { WorkerServices } from "./workers/worker-services.ts";
import { createWorkflowServices, type WorkflowServices } from "./workflows/workflow-services.ts";

export interface ServicesOptions extends WorkerServices {
  readonly ackDeadlineMs: number;
  /** Users that log in with a password. */
  readonly people?: UserAccounts;
  /** Where the bytes of resources are stored, by provider; without it only the document store. */
  readonly blobs?: BlobStores;
  readonly catalogues?: CatalogueCache;
  /** The session door publishes here. Without it heartbeats are only found in the rows of workers, and there are no frames. */
  readonly volatile?: VolatileEvents;
  readonly extensions?: VendorFrameRelay;
  /** This is the only scheduler on its store. */
  readonly isAlone?: boolean;
}

export interface Services {
  readonly users: UserAccounts;
  readonly catalogues: CatalogueCache;
  readonly manifestRecorder: ManifestRecorder;
  readonly workflows: WorkflowServices;
  readonly runs: RunServices;
  readonly workers: WorkerServices;
  readonly resources: ResourceRepository;
  readonly resourceBinder: ResourceBinder;
  readonly resourceRequirements: ResourceRequirements;
  readonly findLostResources: FindLostResources;
  readonly savedViews: SavedViews;
  readonly volatileEvents: VolatileEvents;
  readonly heartbeatWatch: HeartbeatWatch;
  readonly vendorFrames: VendorFrameRelay;
  /** Stops what runs by itself. */
  close(): void;
}

export function createServices(options: ServicesOptions): Services {
  const { environment } = options;
  const blobs = options.blobs ?? { db: createDocumentBlobStore(options) };
  const catalogues = options.catalogues ?? createCatalogueCache(options);
  const manifestRecorder = createManifestRecorder(options);
  const volatile = options.volatile ?? createVolatileEvents();
  const isAlone = options.isAlone === true && options.volatile !== undefined;
  const workflows = createWorkflowServices({ ...options, catalogues });
  const runs = createRunServices(workflows, options.ackDeadlineMs);
  const vendorFrames = options.extensions ?? createVendorFrameRelay({ environment });
  return {
    users: options.people ?? createUserAccounts(options),
    catalogues,
    manifestRecorder,
    workflows,
    runs,
    workers: options,
    resources: createResourceRepository({ ...options, blobs }),
    resourceBinder: createResourceBinder({ ...options, blobs }),
    resourceRequirements: createResourceRequirements({
      ...options,
      whenManifestsStored: () => manifestRecorder.whenIdle(),
    }),
    findLostResources: createLostResourceFinder(options),
    savedViews: { store: createSavedViewStore(options), environment, digest: options.digest },
    volatileEvents: volatile,
    heartbeatWatch: createHeartbeatWatch({ ...options, volatile, isAlone }),
    vendorFrames,
    close: () => runs.bulk.close(),
  };
}
