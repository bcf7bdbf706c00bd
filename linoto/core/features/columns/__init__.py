"""The columns that a recipe makes features of: numbers, categories, and what is known of items.

A kind of column is one class in one file that owns everything about itself: how a value becomes features in a
request, in SQL and in a table, what it learns from a log, what can be wrong with a value, and how it is kept
as JSON.
"""

from linoto.core.features.columns.bands import Bands
from linoto.core.features.columns.category import Category, in_order
from linoto.core.features.columns.column import MISSING, Cell, Column, Fault, Found, Levels, number_literal
from linoto.core.features.columns.embedding import Embedding
from linoto.core.features.columns.fourier import Fourier
from linoto.core.features.columns.hashed import Hashed
from linoto.core.features.columns.items import ItemColumn
from linoto.core.features.columns.logarithm import Logarithm
from linoto.core.features.columns.numeric import NumberColumn, Numeric
from linoto.core.features.columns.optional import IN_LOG, OptionalColumn, is_absent
from linoto.core.features.columns.powers import Powers
from linoto.core.features.columns.spline import Spline
from linoto.core.features.columns.spread import MARKS, Spread
from linoto.core.features.columns.times import Cycle, Since

__all__ = [
    "IN_LOG",
    "MARKS",
    "MISSING",
    "Bands",
    "Category",
    "Cell",
    "Column",
    "Cycle",
    "Embedding",
    "Fault",
    "Found",
    "Fourier",
    "Hashed",
    "ItemColumn",
    "Levels",
    "Logarithm",
    "NumberColumn",
    "Numeric",
    "OptionalColumn",
    "Powers",
    "Since",
    "Spline",
    "Spread",
    "in_order",
    "is_absent",
    "number_literal",
]
