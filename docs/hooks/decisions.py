"""Lists every decision record on the index page of adr/, so that none is forgotten."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Append one link per record to adr/index.md; other pages stay as they are."""
    if page.file.src_uri != "adr/index.md":
        return markdown
    records = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri.startswith("adr/0"))
    lines = [markdown, ""]
    for record in records:
        with open(f"{config.docs_dir}/{record}", encoding="utf-8") as text:
            title = text.readline().lstrip("# ").strip()
        lines.append(f"- [{title}]({record.removeprefix('adr/')})")
    return "\n".join(lines) + "\n"
