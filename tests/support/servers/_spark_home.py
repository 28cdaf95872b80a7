"""The Spark that pyspark brings, and what its Java is started with."""

from __future__ import annotations

from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent

# What Spark's launcher gives to Java 17.
_OPENED = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io"),
    *("java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent"),
    *("java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch"),
    *("java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar"),
)
SPARK_JAVA_OPTIONS = (
    *("-XX:+IgnoreUnrecognizedVMOptions", "-Djdk.reflect.useDirectMethodHandle=false"),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
)
