"""The ground that everything stands on: a Java, the connectors, a Spark session, the system's time zone."""

from tidecast.runtime._jars import SPARK_JARS, fetch_jars
from tidecast.runtime._java import Java, find_java
from tidecast.runtime._session import spark_session
from tidecast.runtime._zone import local_zone

__all__ = ["SPARK_JARS", "Java", "fetch_jars", "find_java", "local_zone", "spark_session"]
