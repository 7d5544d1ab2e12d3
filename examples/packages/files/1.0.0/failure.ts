// Errors of this package: the code of a fault and a sentence.

export const failure = (code: string, message: string, cause?: unknown): Error & { code: string } =>
  Object.assign(new Error(message, { cause }), { code });
