"""The kinds of columns that a context may have: what its fields become before a linear model sees them."""

from linoto.core.features.columns import (
    Bands,
    Category,
    Cycle,
    Embedding,
    Fourier,
    Hashed,
    ItemColumn,
    Logarithm,
    Numeric,
    Powers,
    Since,
    Spline,
)

__all__ = [
    "Bands",
    "Category",
    "Cycle",
    "Embedding",
    "Fourier",
    "Hashed",
    "ItemColumn",
    "Logarithm",
    "Numeric",
    "Powers",
    "Since",
    "Spline",
]
