"""The columns that a recipe makes features of: numbers, categories, and what is known of items.

A kind of column is one class in one file that owns everything about itself: how a value becomes features in a
request, in SQL and in a table, what it learns from a log, what can be wrong with a value, and how it is kept
as JSON.
"""

from linoto.core.features.columns.category import MISSING, Category, in_order
from linoto.core.features.columns.column import Cell, Column, Fault, Levels, Spread, number_literal
from linoto.core.features.columns.items import ItemColumn
from linoto.core.features.columns.numeric import Numeric

__all__ = [
    "MISSING",
    "Category",
    "Cell",
    "Column",
    "Fault",
    "ItemColumn",
    "Levels",
    "Numeric",
    "Spread",
    "in_order",
    "number_literal",
]
