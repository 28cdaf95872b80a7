"""Kafka 4.1.0, one node that is broker and controller."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewTopic

from servers._oauth import Issuer
from servers._process import JavaServer, free_ports
from tidecast.runtime import fetch_jars, read_jar_list

# What Kafka's own build puts on the broker's class path, and a binding for its log.
_JARS = read_jar_list(Path(__file__).with_name("kafka.jars"))

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwks.endpoint.url={keys}
log.dirs={data}
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
log.cleaner.dedupe.buffer.size=2097152
"""

_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
"""


Messages = dict[tuple[str, int], list[tuple[bytes | None, bytes | None]]]
"""Keys and values by topic and partition, in the order of their offsets."""


class KafkaBroker(JavaServer):
    """A broker: `bootstrap` for anybody, `sasl_bootstrap` for `user` with `password` (SASL_PLAINTEXT).

    The password goes by PLAIN or, after `enable_scram`, by SCRAM-SHA-512; by OAUTHBEARER go tokens of `issuer`. Topics
    are not created by themselves: use `create_topic`, or an admin client.
    """

    user = "alice"
    password = "alice-secret"
    bootstrap: str
    sasl_bootstrap: str
    issuer: Issuer

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic and wait until it is there."""
        creation = self._admin.create_topics([NewTopic(name, partitions, 1)])
        creation[name].result(timeout=30)

    def producer(self) -> Producer:
        """Return a producer that keeps the order of a partition, even where it has to send a message again."""
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "enable.idempotence": True})

    def send(self, topic: str, partition: int, values: Iterable[str]) -> None:
        """Add messages without a key to a partition; when this returns, they can be read."""
        producer = self.producer()
        for value in values:
            producer.produce(topic, value=value.encode(), partition=partition)
        assert producer.flush(30) == 0

    def enable_scram(self) -> None:
        """Give the user a SCRAM-SHA-512 credential, of which the broker keeps no password."""
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(self.user, kind, self.password.encode())
        self._admin.alter_user_scram_credentials([wanted])[self.user].result(timeout=30)

    def messages(self, *topics: str) -> Messages:
        """Return every message of some topics, as far as these are there."""
        settings: dict[str, str | int] = {"bootstrap.servers": self.bootstrap, "group.id": "tests", "log_level": 0}
        with closing(Consumer(settings)) as consumer:
            known = consumer.list_topics(timeout=30).topics
            places = [TopicPartition(t, p) for t in topics if t in known for p in known[t].partitions]
            ends = [consumer.get_watermark_offsets(place, timeout=30) for place in places]
            consumer.assign(
                [TopicPartition(p.topic, p.partition, first) for p, (first, _) in zip(places, ends, strict=True)]
            )
            found: Messages = {(place.topic, place.partition): [] for place in places}
            for _ in range(sum(end - first for first, end in ends)):
                message = consumer.poll(30)
                assert message is not None
                assert message.error() is None
                found[message.topic() or "", message.partition() or 0].append((message.key(), message.value()))
        return found

    def _command(self) -> Sequence[str | Path]:
        plain, sasl, controller = free_ports(3)
        self.bootstrap, self.sasl_bootstrap = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"
        self._admin = AdminClient(
            {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
        )
        data = self.work / "data"
        data.mkdir()
        # This is all that formatting the storage would do, without a second Java.
        cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        (data / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
        self.issuer = Issuer()
        keys = self.work / "keys.json"
        keys.write_text(self.issuer.keys)
        properties = self.work / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                plain=plain,
                sasl=sasl,
                controller=controller,
                user=self.user,
                password=self.password,
                keys=keys.as_uri(),
                data=data,
            )
        )
        log = self.work / "log4j2.properties"
        log.write_text(_LOG)
        jars = os.pathsep.join(map(str, fetch_jars(_JARS)))
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
        return [allowed, f"-Dlog4j2.configurationFile={log}", "-cp", jars, "kafka.Kafka", properties]

    def _answers(self) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False
