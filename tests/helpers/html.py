"""A page as a reader's program sees it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "path", "use", "rect", "input"}


class Page(HTMLParser):
    """What a browser would fetch, point to, and fail to close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.outside: list[str] = []
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.open += [] if tag in VOID else [tag]
        for name, value in attributes:
            self.attributes.add(name)
            if name == "id":
                self.ids[str(value)] += 1
            if name in ("href", "xlink:href"):
                self.links.append(str(value))
            if name in ("src", "srcset", "data", "action", "poster"):
                self.outside.append(str(value))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"
