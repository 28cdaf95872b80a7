"""The ground that everything stands on: a Java, the connectors, a Spark session."""

from tidecast.runtime._jars import SPARK_JARS, fetch_jars
from tidecast.runtime._java import Java, find_java
from tidecast.runtime._session import spark_session

__all__ = ["SPARK_JARS", "Java", "fetch_jars", "find_java", "spark_session"]
