"""The page in a real browser: silent, asking for nothing, readable narrow, dark and on paper, reachable by keyboard."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_browser import CHROMIUM, Browser
from report_runs import invent_run

from apex_reports.html import Html
from apex_reports.style import DARK, LIGHT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"),
]

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HIDDEN = "[...document.querySelectorAll('details.episode svg')].filter(s => !s.checkVisibility({contentVisibilityAuto: true})).length"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on disk."""
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    path.write_text(Html().render((invent_run(folder / "run", traced=6),)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all tests here."""
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    """The browser with the page, wide and light."""
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
    browser.said.clear()
    browser.asked.clear()
    browser.open(page)
    return browser


def test_the_page_says_nothing_and_asks_for_nothing(opened: Browser, page: Path) -> None:
    assert opened.value("document.querySelectorAll('section').length") == 13
    assert (
        opened.value("getComputedStyle(document.querySelector('.word')).fontWeight") == "700"
    )  # its policy lets its style in
    assert opened.said == []
    assert opened.asked == [page.as_uri()]


def test_a_planted_script_style_and_picture_do_nothing_and_are_seen(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    planted = tmp_path / "planted.html"
    bad = '<script>document.title = "owned"</script><p style="color:red">x</p><img src="https://example.invalid/x.png">'
    planted.write_text(page.read_text(encoding="utf-8").replace("<main>", f"<main>{bad}"), encoding="utf-8")
    browser.said.clear()
    browser.open(planted)
    assert browser.value("document.title").startswith("APEX report")
    assert sum("Content Security Policy" in said for said in browser.said) == 3


def test_nothing_is_wider_than_a_narrow_window(opened: Browser) -> None:
    for width in (1200, 375, 320):
        opened.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        assert opened.value(OVERFLOW) <= 0, f"the page scrolls sideways at {width} pixels"
    opened.value(
        "document.querySelector('.scroll').style.overflowX = 'visible', document.querySelector('table').style.width = '900px'"
    )
    assert opened.value(OVERFLOW) > 0  # the measure sees what it is for


@pytest.mark.parametrize(("scheme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_it_follows_the_scheme(opened: Browser, scheme: str, colours: dict[str, str]) -> None:
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    paper, ink = (tuple(int(colours[name][i : i + 2], 16) for i in (1, 3, 5)) for name in ("paper", "ink"))
    style = "getComputedStyle(document.{})"
    assert opened.value(style.format("body") + ".backgroundColor") == f"rgb{paper}"
    assert opened.value(style.format("querySelector('svg text.strong')") + ".fill") == f"rgb{ink}"


def test_paper_is_white_even_from_a_dark_screen_and_shows_every_timeline(opened: Browser) -> None:
    assert opened.value(HIDDEN) > 0
    opened.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert opened.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.value(HIDDEN) == 0
    opened.call("Emulation.setEmulatedMedia", media="", features=[])
    pdf = base64.b64decode(opened.call("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") >= 4


def test_motion_stops_where_it_is_not_wanted(opened: Browser) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    assert opened.value(behaviour) == "smooth"
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert opened.value(behaviour) == "auto"


def test_tab_reaches_links_tables_figures_and_timelines(opened: Browser) -> None:
    opened.value("document.activeElement.blur()")
    seen = []
    for _ in range(60):
        for kind in ("keyDown", "keyUp"):
            opened.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(
            opened.value(
                "document.activeElement.tagName + ' ' + (document.activeElement.getAttribute('aria-label') || '')"
            )
        )
    assert seen[0].startswith("A") and any(s.startswith("SUMMARY") for s in seen)
    assert any("Figure: Success@budget" in s for s in seen)


def test_opening_one_timeline_closes_the_other(opened: Browser) -> None:
    opened.value("document.querySelectorAll('details.episode > summary')[1].click()")
    assert (
        opened.value("[...document.querySelectorAll('details.episode')].map(d => d.open).slice(0, 2).join()")
        == "false,true"
    )


def test_every_picture_and_region_has_a_name(opened: Browser) -> None:
    nodes = opened.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
        and node["role"]["value"] in ("image", "region", "navigation", "table", "main", "banner")
    ]
    assert {"image", "region", "navigation", "table", "main", "banner"} <= {role for role, _ in named}
    assert [role for role, name in named if not name and role not in ("main", "banner")] == []
