"""Turns formulas into MathML while the site is built, so that no script is needed to read them."""

import html
import re

from math_core import LatexError, LatexToMathML
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

# What pymdownx.arithmatex leaves behind: \( ... \) in a span, \[ ... \] in a div.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<latex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
CONVERTER = LatexToMathML(fancy_error=False)


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Replace every formula, or stop the build and name the first that cannot be."""

    def replace(match: re.Match[str]) -> str:
        latex = html.unescape(match["latex"]).strip()
        try:
            mathml = CONVERTER.convert_with_local_state(latex, displaystyle=match["tag"] == "div")
        except LatexError as error:
            raise PluginError(f"{page.file.src_uri}: cannot render {latex!r}: {error}") from error
        return f'<{match["tag"]} class="maths">{mathml}</{match["tag"]}>'

    return FORMULA.sub(replace, content)
