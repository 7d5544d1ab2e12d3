// What authors of node packages import: the types of handlers and of what they are given, and the errors they throw and catch.

export { isNextError, NextError, TaskError } from "./errors.ts";
export type { FeedbackChunk, FeedbackInput, FeedbackSender } from "./feedback.ts";
export type {
  DispatchedResourceRef,
  HandlerContext,
  HandlerOutputs,
  HandlerVendorFrames,
  IncomingVendorFrame,
  NodeHandler,
  PackageSetup,
  ResourceBinding,
  ResourceBindingError,
  SetupContext,
} from "./handler.ts";
export type { HandlerArtifact, HandlerResources, KeptResource, ResourceDraft, StoredFile, UploadOptions } from "./resources.ts";
export { readResultStatus, type ResultStatus } from "./result-status.ts";
