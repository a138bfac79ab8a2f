"""Erase a conversation, or one turn of it: python tombstone.py TENANT CONVERSATION [TURN]"""

import os
import sys

from confluent_kafka import Producer
from first_turn import key_of

producer = Producer(
    {
        "bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
    }
)
tenant, conversation, *turn = sys.argv[1:]
key = key_of(tenant, conversation)
turns, writes = os.environ.get("TURNS_TOPIC", "turns"), os.environ.get("STATE_WRITES_TOPIC", "state-writes")
if turn:
    producer.produce(turns, key=key, value=None, headers=[("engram.turn-id", turn[0].encode())])
else:
    producer.produce(turns, key=key, value=None)
    producer.produce(writes, key=key, value=None)
if producer.flush(30):
    raise SystemExit("not published within 30 s")
