"""Results in, pictures out: the only place that knows matplotlib."""

from linoto.figures.experiments import draw as draw
from linoto.figures.experiments import draw_both as draw_both
from linoto.figures.experiments import draw_bounds as draw_bounds
from linoto.figures.experiments import draw_story as draw_story
from linoto.figures.pieces import COLOURS as COLOURS
from linoto.figures.pieces import colour_of as colour_of
from linoto.figures.pieces import label_axes as label_axes
from linoto.figures.pieces import panels as panels
from linoto.figures.pieces import save as save
from linoto.figures.pieces import spaced as spaced
from linoto.figures.pieces import styled as styled
from linoto.figures.pieces import with_legend as with_legend
from linoto.figures.preview import draw_first as draw_first
from linoto.figures.preview import draw_losses as draw_losses
from linoto.figures.preview import draw_share as draw_share
from linoto.figures.preview import draw_tradeoff as draw_tradeoff
