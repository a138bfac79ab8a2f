"""The column of producers taken apart: who wrote each turn."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from workers.processing.columns.reading import Coded, coded_alike, fields


class Producers(NamedTuple):
    """The columns of the record `producer` that name something, by the distinct values of all."""

    service: Coded
    region: Coded
    build_id: Coded
    instance_id: Coded
    sdk: Coded
    sdk_version: Coded
    path: Coded


def read_producers(column: pa.StructArray) -> Producers:
    """Take the column ``producer`` of the projected table apart."""
    service, region, build_id, instance_id, _, sdk, sdk_version, path = fields(column)
    return Producers(*coded_alike([service, region, build_id, instance_id, sdk, sdk_version, path]))
