// docs/faults.md as text, written from the fault table.

import { type FaultRow, faultCodes } from "../faults/fault-codes.ts";

const origins: Record<FaultRow["since"], string> = {
  seed: "From the specification",
  field: "From the workers already in the field",
  own: "Our own",
};

export function renderFaultPage(): string {
  const sections = (Object.keys(origins) as FaultRow["since"][]).map((since) => {
    const rows = Object.entries(faultCodes)
      .filter(([, row]) => row.since === since)
      // The anchor is what the link of a printed fault leads to: a row of a table has no address of its own.
      .map(
        ([code, row]) =>
          `| <a id="${code}"></a>\`${code}\` | ${row.http} | \`${row.resp}\` | ${row.retry ? "yes" : "no"} | ${row.cause} |`,
      );
    return [`## ${origins[since]}`, "", "| code | HTTP | RESP | retry | what happened |", "|---|---|---|---|---|", ...rows].join(
      "\n",
    );
  });
  return `# Fault codes

A code is a promise to callers: it keeps its meaning, while the sentence beside it may improve. Branch on the code, never on the
words. In a REST answer it is \`error\` of the body \`{error, message, requestId?, details?}\`; in a frame it is \`code\`; in RESP the
error line begins as shown. "retry: yes" says that the same request, unchanged, may succeed later.

This page is generated from the fault table in \`packages/protocol\`; do not edit it by hand.

${sections.join("\n\n")}
`;
}
