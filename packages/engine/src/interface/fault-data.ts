// A fault as plain data: what answers, rows and facts hold of an error.

export interface FaultData {
  readonly code: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}
