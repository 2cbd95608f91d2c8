"""The site of docs/: every page is in it, and every link of it leads somewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from docs import site
from docs.generate import ON_SITE


class Page(HTMLParser):
    """Anchors, and where links, pictures, scripts and styles lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.anchors |= {each for each in (of.get("id"), of.get("name")) if each}
        self.links += [each for each in (of.get("href"), of.get("src")) if each]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """The pages of the site."""
    folder = tmp_path_factory.mktemp("site") / "built"
    site.build(folder)
    return {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}


def named(tree: object) -> set[str]:
    """The pages that the navigation names."""
    if isinstance(tree, str):
        return {tree}
    inner = tree.values() if isinstance(tree, dict) else tree
    return set().union(*map(named, inner))  # type: ignore[arg-type, call-overload]


def test_every_page_is_in_the_navigation_and_day_one_is_the_first():
    text = site.CONFIG.read_text()
    tree = yaml.safe_load(text.partition("\nnav:\n")[2])
    assert named(tree) == {path.name for path in site.DOCS.glob("*.md")} | ON_SITE.keys()
    [(title, pages)] = tree[0].items()
    assert title == "Day one"
    assert [*pages[0].values()] == ["index.md"]


def test_every_link_of_the_site_leads_somewhere(built: dict[Path, Page]):
    broken = []
    for path, page in built.items():
        if path.name == "404.html":  # its links begin at the address of the site
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = built[target].anchors | {""} if target in built else {parts.fragment}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.parent.name}: {link}")
    assert not broken


def test_nothing_is_fetched_from_elsewhere(built: dict[Path, Page]):
    """Links may lead elsewhere; fonts, scripts and styles are the site's own."""
    for path in built:
        text = path.read_text()
        for fetched in ('src="http', "fonts.googleapis", "fonts.gstatic", "cdn.", "unpkg.com"):
            assert fetched not in text, path


def test_links_out_of_the_docs_lead_to_the_repository():
    text = site.led_outside("[a](../deploy/kubernetes) [b](../README.md#try-it)", "docs/x.md")
    assert text == (
        f"[a]({site.REPOSITORY}/tree/main/deploy/kubernetes) "
        f"[b]({site.REPOSITORY}/blob/main/README.md#try-it)"
    )
    for link in ("../nothing.md", "../../outside.md"):
        with pytest.raises(site.SiteError, match=r"docs/x\.md: \S+ is not there"):
            site.led_outside(f"[a]({link})", "docs/x.md")
