"""Tables of Apache Iceberg, in a catalog of its own kind."""

from tidecast.replica.targets.iceberg._catalog import check_iceberg
from tidecast.replica.targets.iceberg._table import IcebergTarget

__all__ = ["IcebergTarget", "check_iceberg"]
