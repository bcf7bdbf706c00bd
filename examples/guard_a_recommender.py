"""Put a scikit-learn recommender behind a safety gate: it learns, and never falls far below the log.

Run: python examples/guard_a_recommender.py   (needs scikit-learn)
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

import linoto

rng = np.random.default_rng(0)
articles = np.eye(40)  # whatever features the recommender likes; the guard never sees them
appeal = rng.uniform(0.1, 0.6, size=40)  # the truth, which nobody knows
shown = np.repeat(np.arange(8), 50)  # current practice: the first eight articles
clicks = (rng.random(400) < appeal[shown]).astype(float)

# The ten lines: the log, the guard, and any model at all.
log = linoto.Offline.from_rows(shown, clicks, k=40)
guard = linoto.Guard(log, epsilon=0.05, reward_range=(0, 1), noise="bounded")
model = Ridge(alpha=5.0)
for _ in range(2000):
    if guard.rounds % 50 == 0:
        model.fit(articles[shown], clicks)
    wish = model.predict(articles) + 0.15 * rng.standard_normal(40)
    decision = guard.decide(int(wish.argmax()))  # the model's wish, or a safe article
    click = float(rng.random() < appeal[decision.arm])
    guard.update(decision, click)
    shown, clicks = np.append(shown, decision.arm), np.append(clicks, click)

print(guard.certificate)
practice, earned = appeal[shown[:400]].mean(), appeal[shown[400:]].mean()
print(f"current practice earns {practice:.3f} a round, the guarded recommender earned {earned:.3f}")
