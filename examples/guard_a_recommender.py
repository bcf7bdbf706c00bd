"""Put a scikit-learn recommender behind a safety gate: it learns, and never falls far below the log.

Run: python examples/guard_a_recommender.py   (needs scikit-learn)
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

import linoto

rng = np.random.default_rng(0)
means = rng.uniform(0.1, 0.6, size=40)  # the truth, which nobody knows
pulls = np.where(np.arange(40) < 8, 50, 0)  # current practice shows the first eight articles
clicks = rng.binomial(pulls, means)
features = np.eye(40)

log = linoto.Offline(pulls=pulls, reward_sums=clicks)
guard = linoto.Guard(log, epsilon=0.05, reward_range=(0, 1), noise="bounded")
shown, clicked = (
    list(np.repeat(np.arange(40), pulls)),
    list(np.concatenate([np.repeat([1, 0], [c, n - c]) for c, n in zip(clicks, pulls, strict=True)])),
)
model = LogisticRegression(C=10.0).fit(features[shown], clicked)
for step in range(2000):
    if step % 100 == 0:
        model.fit(features[shown], clicked)
    appeal = model.predict_proba(features)[:, 1] + 0.1 * rng.standard_normal(40)  # whatever the model does
    decision = guard.decide(int(appeal.argmax()))  # its arm, or a safe one
    click = int(rng.random() < means[decision.arm])
    guard.update(decision, click)
    shown.append(decision.arm)
    clicked.append(click)

reference = pulls @ means / pulls.sum()
earned = float(np.mean(means[shown[-2000:]]))
print(guard.certificate)
print(f"current practice earns {reference:.3f} a round, the guarded recommender earned {earned:.3f}")
