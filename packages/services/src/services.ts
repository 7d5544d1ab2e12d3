// Builds every service once. The app or a test gives what comes from outside; both doors share the result.

import { type CatalogueCache, createCatalogueCache } from "./catalogue/catalogue.ts";
import { createManifestRecorder, type ManifestRecorder } from "./catalogue/manifest-recorder.ts";
import { createHeartbeatWatch, type HeartbeatWatch } from "./events/heartbeat-watch.ts";
import { createVolatileEvents, type VolatileEvents } from "./events/volatile-events.ts";
import { type BlobStores, createDocumentBlobStore } from "./resources/blob-store.ts";
import { DispatchResources } from "./resources/dispatch-resources.ts";
import { createLostResourceFinder, type FindLostResources } from "./resources/lost-resources.ts";
import { createResourceBinder } from "./resources/resource-bindings.ts";
import { ResourceGrants } from "./resources/resource-grants.ts";
import { ResourceRepository } from "./resources/resource-repository.ts";
import { ResourceRequirements } from "./resources/resource-requirements.ts";
import { ResourceUploads } from "./resources/resource-uploads.ts";
import { createRunServices, type RunServices } from "./runs/run-services.ts";
import { SavedViews } from "./saved-views/saved-views.ts";
import { UserAccounts } from "./users/user-accounts.ts";
import { UserChanges } from "./users/user-changes.ts";
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
  readonly userChanges: UserChanges;
  readonly catalogues: CatalogueCache;
  readonly manifestRecorder: ManifestRecorder;
  readonly workflows: WorkflowServices;
  readonly runs: RunServices;
  readonly workers: WorkerServices;
  readonly resources: ResourceRepository;
  readonly resourceUploads: ResourceUploads;
  readonly resourceGrants: ResourceGrants;
  readonly dispatchResources: DispatchResources;
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
  const users = options.people ?? new UserAccounts(options);
  const resources = new ResourceRepository(options, blobs);
  return {
    users,
    userChanges: new UserChanges(options, users),
    catalogues,
    manifestRecorder,
    workflows,
    runs,
    workers: options,
    resources,
    resourceUploads: new ResourceUploads(resources),
    resourceGrants: new ResourceGrants(resources),
    dispatchResources: new DispatchResources(
      new ResourceRequirements(options, () => manifestRecorder.whenIdle()),
      createResourceBinder(options, blobs),
      environment,
    ),
    findLostResources: createLostResourceFinder(options),
    savedViews: new SavedViews(options),
    volatileEvents: volatile,
    heartbeatWatch: createHeartbeatWatch({ ...options, volatile, isAlone }),
    vendorFrames,
    close: () => runs.bulk.close(),
  };
}
