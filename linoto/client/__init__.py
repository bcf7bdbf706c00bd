"""Clients of the decision service: every request may be repeated, so a failed one simply is.

What can be asked is in `calls`, what is answered and when to ask again in `answers`. `Client` is for threads,
`AsyncClient` its asyncio twin; both need only the standard library.
"""

from linoto.client.aio import AsyncClient as AsyncClient
from linoto.client.answers import RewardResult as RewardResult
from linoto.client.answers import ServedDecision as ServedDecision
from linoto.client.answers import ServiceError as ServiceError
from linoto.client.threads import Client as Client
