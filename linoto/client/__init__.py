"""Clients of the decision service: every request is safe to repeat, so a failed one is repeated.

`operations` describes each request once; `Client` sends them from threads, `AsyncClient` from asyncio.
"""

from linoto.client.aio import AsyncClient as AsyncClient
from linoto.client.responses import RewardResult as RewardResult
from linoto.client.responses import ServedDecision as ServedDecision
from linoto.client.responses import ServiceError as ServiceError
from linoto.client.threads import Client as Client
