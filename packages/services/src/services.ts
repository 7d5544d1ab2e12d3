// Builds every service once. The app or a test gives what comes from outside; both doors share the result.

import { CatalogueCache } from "./catalogue/catalogue.ts";
import { ManifestRecorder } from "./catalogue/manifest-recorder.ts";
import { limitReader } from "./environment/in-place-limits.ts";
import { HeartbeatWatch } from "./events/heartbeat-watch.ts";
import { VolatileEvents } from "./events/volatile-events.ts";
import { Alerts, type AlertsOptions } from "./fleet/alerts.ts";
import { createFleetServices, type FleetServicesOptions } from "./fleet/fleet-services.ts";
import { checkStoredArchive, type StoredArchive } from "./packages/archive-check.ts";
import { PackageInstalls, type PackageInstallsOptions } from "./packages/package-installs.ts";
import { PackageKeys } from "./packages/package-keys.ts";
import { PackageRepository, type PackageRepositoryOptions } from "./packages/package-repository.ts";
import { PackageResources } from "./packages/package-resources.ts";
import { type BlobStores, createDocumentBlobStore } from "./resources/blob-store.ts";
import { DispatchResources } from "./resources/dispatch-resources.ts";
import { createLostResourceFinder } from "./resources/lost-resources.ts";
import { createResourceBinder } from "./resources/resource-bindings.ts";
import { ResourceGrants } from "./resources/resource-grants.ts";
import { ResourceRepository } from "./resources/resource-repository.ts";
import { ResourceRequirements } from "./resources/resource-requirements.ts";
import { ResourceUploads } from "./resources/resource-uploads.ts";
import { createRunServices, type RunServicesOptions } from "./runs/run-services.ts";
import { SavedViews } from "./saved-views/saved-views.ts";
import { UserAccounts } from "./users/user-accounts.ts";
import { UserChanges } from "./users/user-changes.ts";
import { VendorFrameRelay } from "./workers/vendor-frame-relay.ts";
import { WorkerCommands } from "./workers/worker-commands.ts";
import type { WorkerContext } from "./workers/worker-reader.ts";
import { createWorkflowServices } from "./workflows/workflow-services.ts";

export interface ServicesOptions
  extends WorkerContext,
    RunServicesOptions,
    PackageRepositoryOptions,
    PackageInstallsOptions,
    FleetServicesOptions,
    Pick<AlertsOptions, "isStoreDiskFull"> {
  /** Users that log in with a password. */
  readonly people?: UserAccounts;
  /** Where the bytes of resources are stored, by provider; without it only the document store. */
  readonly blobs?: BlobStores;
  readonly catalogues?: CatalogueCache;
  /** The session door publishes here. Without it heartbeats are only found in the rows of workers, and there are no frames. */
  readonly volatile?: VolatileEvents;
  readonly extensions?: VendorFrameRelay;
  /** Origins that packages may be installed from although they are not public https addresses. */
  readonly packageOrigins?: readonly string[];
  /** This is the only scheduler on its store. */
  readonly isAlone?: boolean;
}

export type WorkerServices = WorkerContext & { readonly commands: WorkerCommands };
export type Services = ReturnType<typeof createServices>;

export function createServices(options: ServicesOptions) {
  const { environment } = options;
  const blobs = options.blobs ?? { db: createDocumentBlobStore(options) };
  const catalogues = options.catalogues ?? new CatalogueCache(options);
  const { inPlace, reader } = options;
  const documentReader = inPlace === undefined ? reader : limitReader(reader, inPlace);
  const manifestRecorder = new ManifestRecorder(options);
  const volatile = options.volatile ?? new VolatileEvents();
  const isAlone = options.isAlone === true && options.volatile !== undefined;
  const workflows = createWorkflowServices({ ...options, reader: documentReader, catalogues });
  const runs = createRunServices(workflows, options);
  const vendorFrames = options.extensions ?? new VendorFrameRelay(environment);
  const users = options.people ?? new UserAccounts(options);
  const resources = new ResourceRepository(options, blobs);
  const packageKeys = new PackageKeys(options);
  const packages = new PackageRepository(options, resources, packageKeys);
  const packageInstalls = new PackageInstalls(packages, packageKeys, options);
  const commands = new WorkerCommands(options, packageInstalls);
  const fleet = createFleetServices({ ...options, hasPolling: options.hasBulkPolling }, { packages, packageInstalls, commands });
  return {
    users,
    userChanges: new UserChanges(options, users),
    catalogues,
    manifestRecorder,
    workflows,
    runs,
    workers: { ...options, catalogues, commands } as WorkerServices,
    resources,
    packageKeys,
    packages,
    packageInstalls,
    fleet,
    alerts: new Alerts(options),
    packageResources: new PackageResources(options, packages, resources),
    /** In place, for the thread that such checks are sent to. */
    checkArchive: (archive: StoredArchive) => checkStoredArchive(resources.blobStoreOf(archive.provider), archive),
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
    heartbeatWatch: new HeartbeatWatch({ ...options, volatile, isAlone }),
    vendorFrames,
    /** Stops what runs by itself. */
    close() {
      runs.bulk.close();
      fleet.loop.close();
    },
  };
}
