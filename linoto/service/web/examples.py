"""An example of every body that can be sent; each is described in OpenAPI, and accepted by a test."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "LoopSpec": [
        {
            "arms": [{"name": "blue", "features": [1, 0]}, {"name": "green", "features": [0, 1]}],
            "policy": {
                "type": "Gated",
                "gate": {"type": "Tolerance", "epsilon": 0.02},
                "confidence": {"type": "Confidence", "noise": "bounded", "reward_range": [0, 1]},
            },
            "offline": {"pulls": [8000, 2000], "reward_sums": [640, 120]},
            "default_reward": 0,
            "window": 3600,
        },
        {
            "arms": [{"name": "short"}, {"name": "long"}],
            "policy": {"type": "LinUCB"},
            "rows": [["short", 0.5], ["long", 0.25]],
            "default_reward": 0,
        },
        {
            "recipe": {
                "items": ["blue", "green"],
                "context": [
                    {"kind": "numeric", "name": "age", "mean": 40, "scale": 10},
                    {"kind": "category", "name": "country", "levels": ["DE", "NO"]},
                ],
                "crosses": [["item", "country"]],
            },
            "practice": "blue",
            "policy": {
                "type": "Gated",
                "gate": {"type": "Control", "budget": 20},
                "confidence": {"type": "Confidence", "noise": "bounded", "reward_range": [0, 1]},
            },
            "default_reward": 0,
        },
        {
            "arms": [{"name": "short"}, {"name": "long"}],
            "policy": {
                "type": "Gated",
                "gate": {"type": "Control", "budget": 20},
                "confidence": {"type": "Confidence", "noise": "bounded", "reward_range": [0, 1]},
                "guardrails": [
                    {
                        "type": "Guardrail",
                        "name": "complaints",
                        "reward_range": [0, 1],
                        "lower_is_better": True,
                        "budget": 20,
                    }
                ],
            },
            "rows": [["short", 0.5], ["long", 0.25]],
            "default_reward": 0,
        },
    ],
    "DecideRequest": [
        {},
        {"context": {"age": 31, "country": "DE"}, "arms": ["blue", "green"]},
        {"key": "visit-17"},
        {"key": "visit-18", "arms": ["blue", "green"]},
    ],
    "DecideBatch": [
        {
            "decisions": [
                {"key": "visit-19", "context": {"age": 31, "country": "DE"}},
                {"key": "visit-20", "context": {"age": 58, "country": None}, "arms": ["blue", "green"]},
            ]
        },
        {"decisions": [{"key": "visit-21"}, {"key": "visit-22", "arms": ["blue", "green"]}]},
    ],
    "RewardValue": [{"reward": 1.0}, {"reward": 1, "metrics": {"complaints": 0}}],
    "RewardReport": [
        {"key": "visit-17", "reward": 1.0},
        {"decision_id": "1-1", "reward": 1.0},
        {"key": "visit-17", "metrics": {"complaints": 0}},
    ],
    "RewardBatch": [
        {"rewards": [{"decision_id": "1-1", "reward": 1}, {"key": "visit-18", "reward": 0}]},
        {"rewards": [{"decision_id": "1-9f3a7c21b0-41", "reward": 1, "metrics": {"complaints": 1}}]},
    ],
    "NewArms": [{"arms": [{"name": "medium"}]}],
    "Change": [{"mode": "safe-only"}, {"mode": "live", "holdback": 0.05}],
}
