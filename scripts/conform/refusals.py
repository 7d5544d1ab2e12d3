"""Loaded by schemathesis: a request that its schema allows is accepted, or refused for a reason that no schema can tell.

Which refusals those are is in known-failures.ts. Those that occurred are written down, one line each, so that the list can be kept short.
"""

import json
import os
import re

import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

with open(os.environ["ASTRA_CONFORM_REFUSALS"], encoding="utf-8") as file:
    expected_refusals = json.load(file)
seen_file = os.environ["ASTRA_CONFORM_SEEN"]
seen = set()


def find_expected_refusal(case, response):
    try:
        body = response.json()
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    path = str((body.get("details") or {}).get("path", ""))
    for index, refusal in enumerate(expected_refusals):
        if (
            body.get("error") == refusal["error"]
            and case.operation.label in refusal.get("operations", [case.operation.label])
            and re.fullmatch(refusal.get("path", ".*"), path)
            and str(body.get("message", "")).startswith(refusal.get("message", ""))
        ):
            return index
    return None


@schemathesis.check
def accepted_or_expectedly_refused(ctx, response, case):
    index = find_expected_refusal(case, response)
    if index is None:
        return positive_data_acceptance(ctx, response, case)
    if index not in seen:
        seen.add(index)
        with open(seen_file, "a", encoding="utf-8") as file:
            file.write(f"{index}\n")
    return None


def has_null(value):
    if isinstance(value, dict):
        return any(has_null(item) for item in value.values())
    return value is None or (isinstance(value, list) and any(has_null(item) for item in value))


@schemathesis.check
def refused_or_null_left_out(ctx, response, case):
    """The document says at its top that a null counts as a field that is left out, so a null proves nothing."""
    return None if has_null(case.body) else negative_data_rejection(ctx, response, case)
