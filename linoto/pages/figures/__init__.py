"""Results in, pictures out: the only place that knows matplotlib."""

from linoto.pages.figures.experiments import draw as draw
from linoto.pages.figures.experiments import draw_both as draw_both
from linoto.pages.figures.experiments import draw_bounds as draw_bounds
from linoto.pages.figures.experiments import draw_story as draw_story
from linoto.pages.figures.pieces import COLOURS as COLOURS
from linoto.pages.figures.pieces import colour_of as colour_of
from linoto.pages.figures.pieces import label_axes as label_axes
from linoto.pages.figures.pieces import panels as panels
from linoto.pages.figures.pieces import save as save
from linoto.pages.figures.pieces import spaced as spaced
from linoto.pages.figures.pieces import styled as styled
from linoto.pages.figures.pieces import with_legend as with_legend
from linoto.pages.figures.preview import draw_first as draw_first
from linoto.pages.figures.preview import draw_losses as draw_losses
from linoto.pages.figures.preview import draw_share as draw_share
from linoto.pages.figures.preview import draw_tradeoff as draw_tradeoff
