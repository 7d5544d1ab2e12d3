// What the comparison of the API with its document leaves out, and the refusals it expects, each with its reason. An expected refusal that
// no longer occurs fails the run, so that this list only gets shorter.

export interface LeftOutOperation {
  readonly operationId: string;
  readonly reason: string;
}

/** A refusal of a request that its schema allows, because no schema can tell what it is refused for. */
export interface ExpectedRefusal {
  readonly error: string;
  /** Matches all of the `details.path` that it names; absent: any. */
  readonly path?: string;
  /** How its message begins; absent: in any way. */
  readonly message?: string;
  /** As schemathesis names them, method and path; absent: all. */
  readonly operations?: readonly string[];
  readonly reason: string;
}

const endless = "its answer is a stream of events that does not end by itself, and the tool reads answers to their end";

export const leftOutOperations: readonly LeftOutOperation[] = [
  { operationId: "streamEvents", reason: endless },
  { operationId: "streamExtension", reason: endless },
];

export const expectedRefusals: readonly ExpectedRefusal[] = [
  {
    error: "E.WORKFLOW.INVALID",
    operations: [
      "POST /api/v1/runs",
      "POST /api/v1/workflows",
      "POST /api/v1/workflows/import",
      "PUT /api/v1/workflows/{workflowId}",
      "PATCH /api/v1/workflows/{workflowId}/draft",
    ],
    reason: "a schema cannot tell whether ids occur once, edges meet nodes, a graph has a cycle, or a worker has the package",
  },
  {
    error: "E.REQUEST.INVALID",
    path: "body[.](from|to|pins|chunkSize|versions[.][0-9]+[.]version)|workflow[.]id",
    operations: [
      "POST /api/v1/runs",
      "POST /api/v1/runs/{runId}/replay",
      "POST /api/v1/resources/uploads",
      "POST /api/v1/workflows/import",
      "PUT /api/v1/workflows/{workflowId}",
    ],
    reason:
      "a schema cannot compare values: a node with those of the workflow, an id with the address, a version with the one before, a size with that of its parts",
  },
  {
    error: "E.REQUEST.INVALID",
    message: "body.url is missing",
    operations: ["POST /api/v1/workers/{workerName}/commands"],
    reason: "an install without an address is for what is published, and no schema can tell what that is",
  },
  {
    error: "E.PKG.PERMISSION",
    operations: ["POST /api/v1/packages"],
    reason: "the tool can send bytes, and sign none of them",
  },
  {
    error: "E.REQUEST.INVALID",
    path: "body[.]publicKey",
    operations: ["POST /api/v1/package-keys"],
    reason: "a schema cannot tell whether bytes are a point of the curve",
  },
  {
    error: "E.REQUEST.INVALID",
    message: "the body has ",
    reason:
      "keys named __proto__ or with a NUL are refused everywhere, also where a schema takes any object; the document says so at its top",
  },
  {
    error: "E.REQUEST.INVALID",
    path: "headers[.]If-Match",
    operations: [
      "PUT /api/v1/views/{viewId}",
      "DELETE /api/v1/views/{viewId}",
      "PUT /api/v1/workflows/{workflowId}",
      "DELETE /api/v1/workflows/{workflowId}",
    ],
    reason:
      "the phase coverage of schemathesis finds no header with quotes, and sends its wrong one (0) in requests that it counts as right; [A622] tests the header, the phase fuzzing sends right ones",
  },
  {
    error: "E.RESOURCE.DIGEST",
    operations: ["POST /api/v1/resources"],
    reason: "a schema cannot compute the SHA-256 of the file that is sent with it",
  },
];
