"""A streaming job of one's own: Avro topics of TiCDC, from Kafka to Delta tables and to a log of what was left out.

Run it with Python, or with spark-submit and the connectors that docs/cluster.md names:

    python examples/foreach_batch.py localhost:9092 'shop_.*' http://localhost:8081 out
    spark-submit --jars "$jars" examples/foreach_batch.py localhost:9092 'shop_.*' http://localhost:8081 out

It asks for 8 shuffle partitions: Spark's 200 are dear for batches of less than some millions of rows.

Each batch is decoded once. `replicate` keeps the newest row of each key, and changes nothing where Spark gives a batch
once more after a crash. What it sets aside is counted; a job that watches this one can tell by it.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession

import tidecast


def job(spark: SparkSession, brokers: str, topics: str, registry: str, out: str, *, forever: bool) -> None:
    """Apply the topics whose names match a pattern; `forever`, or until their end as it is now."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribePattern", topics)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000_000)
        .load()
    )

    def apply(batch: DataFrame, batch_id: int) -> None:
        with tidecast.decode(batch, protocol="avro", schema_registry=registry, tz="UTC") as events:
            done = tidecast.replicate(events, f"{out}/tables", dead_letters=f"{out}/dead-letters")
            # A table of yours beside them; it has no key, so that a batch that comes again is there twice.
            verdicts = tidecast.verify(events).groupBy("table", "verdict").count()
            verdicts.write.format("delta").mode("append").save(f"{out}/verdicts")
        for table in done.tables:
            print(f"batch {batch_id}: {table.name}: {table.upserted} upserted, {table.deleted} deleted")
        if done.dead_letters:
            print(f"batch {batch_id}: dead letters: {done.dead_letters}")

    writer = stream.writeStream.foreachBatch(apply).option("checkpointLocation", f"{out}/checkpoint")
    trigger = {"processingTime": "10 seconds"} if forever else {"availableNow": True}
    writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Apply TiCDC's Avro topics to Delta tables.")
    for name in ("brokers", "topics", "registry", "out"):
        parser.add_argument(name)
    parser.add_argument("--once", action="store_true", help="end at what the topics hold now")
    asked = parser.parse_args()
    session = tidecast.configure_spark(SparkSession.builder.appName("foreach_batch"))
    session = session.config("spark.sql.shuffle.partitions", 8).getOrCreate()
    job(session, asked.brokers, asked.topics, asked.registry, asked.out, forever=not asked.once)
    session.stop()
