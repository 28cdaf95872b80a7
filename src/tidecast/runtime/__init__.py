"""The ground that everything stands on: a Java, the connectors, a Spark session, the system's time zone."""

from tidecast.runtime._executors import check_executors
from tidecast.runtime._jars import ICEBERG_JARS, MYSQL_JARS, SPARK_JARS, fetch_jars, read_jar_list
from tidecast.runtime._java import Java, find_java
from tidecast.runtime._outside import outside_settings
from tidecast.runtime._session import QUICK, configure_spark, is_iceberg, running_session, spark_session
from tidecast.runtime._tasks import RunningTasks
from tidecast.runtime._where import MASTER, REMOTE, command_settings, settings_of_command, without_secrets
from tidecast.runtime._zone import check_zone, local_zone, unknown_zone

__all__ = [
    "ICEBERG_JARS",
    "MASTER",
    "MYSQL_JARS",
    "QUICK",
    "REMOTE",
    "SPARK_JARS",
    "Java",
    "RunningTasks",
    "check_executors",
    "check_zone",
    "command_settings",
    "configure_spark",
    "fetch_jars",
    "find_java",
    "is_iceberg",
    "local_zone",
    "outside_settings",
    "read_jar_list",
    "running_session",
    "settings_of_command",
    "spark_session",
    "unknown_zone",
    "without_secrets",
]
