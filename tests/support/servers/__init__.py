"""Real servers for tests, each a context manager, on free loopback ports: Kafka, a Schema Registry, S3, Spark."""

from servers._cluster import SparkCluster
from servers._connect import ConnectServer
from servers._kafka import KafkaBroker
from servers._mariadb import MariaDB
from servers._oauth import Issuer, TokenServer
from servers._registry import SchemaRegistry
from servers._rest_catalog import RestCatalogServer
from servers._s3 import S3Server
from servers._spark_home import SPARK_HOME

__all__ = [
    "SPARK_HOME",
    "ConnectServer",
    "Issuer",
    "KafkaBroker",
    "MariaDB",
    "RestCatalogServer",
    "S3Server",
    "SchemaRegistry",
    "SparkCluster",
    "TokenServer",
]
