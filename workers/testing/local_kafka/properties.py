"""The configuration files of a local cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
ADMIN: Final = "admin"
WORKER: Final = "worker"

_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Ports of one node; ``secured`` is None in a cluster without authorizer."""

    plain: int
    controller: int
    secured: int | None


def server_properties(node: int, ports: tuple[NodePorts, ...], data: Path, keystore: Path | None) -> str:
    """Return ``server.properties`` of ``node`` (from 0), which is broker and controller in one process.

    ``keystore`` is the PEM of the secured listener's key and certificate, None in a cluster without authorizer.
    """
    own = ports[node]
    listeners = [f"PLAINTEXT://{HOST}:{own.plain}", f"CONTROLLER://{HOST}:{own.controller}"]
    if own.secured is not None:
        listeners.append(f"SECURED://{HOST}:{own.secured}")
    replicas = min(3, len(ports))
    lines = {
        "node.id": node,
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{i}@{HOST}:{p.controller}" for i, p in enumerate(ports)),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(item for item in listeners if not item.startswith("CONTROLLER")),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        # One: a cluster that coordinates one group then coordinates all.
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(1, replicas - 1),
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": max(1, replicas - 1),
        "default.replication.factor": replicas,
        "min.insync.replicas": max(1, replicas - 1),
        # A killed broker is to be missed after seconds.
        "broker.session.timeout.ms": 6000,
        "broker.heartbeat.interval.ms": 1000,
    }
    if keystore is not None:
        lines |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The plain listeners know nobody's name: they stay the way in for brokers, tests and ACL changes.
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{_SCRAM_LOGIN} required;",
            "listener.name.secured.ssl.keystore.type": "PEM",
            "listener.name.secured.ssl.keystore.location": keystore,
        }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


LOG4J: Final = """\
status=warn
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=OUT
"""
