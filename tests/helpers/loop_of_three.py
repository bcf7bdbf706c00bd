"""A loop of three arms made over HTTP."""

from __future__ import annotations

from helpers.service_process import TOLERANT

import linoto
from linoto.client import Client

LOG = linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])


def make_loop(client: Client, policy: linoto.Gated = TOLERANT) -> None:
    client.create("loop", arms=["a", "b", "c"], policy=policy, default_reward=0.0, offline=LOG, window=9e5)
