"""The live page in headless Chromium: it follows a run, needs no mouse, and fits a phone."""

import shutil

import pytest

from replay.service.journal import Journal
from spade.app.rundir import RunDir
from tests.app.report.test_page import EVIL, make_run, status
from tests.app.web.browser import needs_chromium, open_browser
from tests.app.web.served import serve

pytestmark = needs_chromium
PAGES = ("", "environments", "plays", "designs")
WIDER = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with harmless texts, and a run with hostile texts."""
    folder = tmp_path_factory.mktemp("web")
    return make_run(folder / "base"), make_run(folder / "<b>evil&", EVIL)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def tab(browser):
    browser.complaints.clear()
    browser.size(1200)
    browser.prefer("light")
    yield browser
    assert browser.complaints == []  # neither an error nor something that the page's policy refused


def test_the_page_follows_a_run_and_keeps_what_the_reader_opened(tab, runs, tmp_path):
    run = RunDir(shutil.copytree(runs[0].path, tmp_path / "run"))
    with serve(run.path) as page:
        tab.open(page.address)
        tab.wait("document.getElementById('state').textContent === 'connected'")
        tab.run("marked = true; document.querySelectorAll('.numbers')[1].open = true")
        tab.run("document.querySelectorAll('.numbers summary')[1].focus()")
        Journal(run.path).step(status(7), {})
        tab.wait("document.getElementById('state').textContent.startsWith('as of')")
        tab.wait("document.querySelector('#glance dd').textContent === '7'")
        assert tab.run("marked && document.querySelectorAll('.numbers')[1].open")
        assert tab.run("document.activeElement === document.querySelectorAll('.numbers summary')[1]")
        page.process.kill()
        tab.wait("document.getElementById('state').className.includes('lost')")


def test_filters_and_orders_need_no_mouse(tab, runs):
    with serve(runs[0].path) as page:
        tab.open(page.address)
        tab.press("2", "2")
        tab.wait("location.pathname.endsWith('/environments') && document.readyState === 'complete'")
        every = tab.run("document.querySelectorAll('.rows tbody tr').length")
        tab.press("/", "/")
        assert tab.run("document.activeElement.name") == "name"
        for letter in "e00000":
            tab.press(letter, letter)
        tab.press("Enter", "\r")
        tab.wait("location.search.includes('name=e00000') && document.readyState === 'complete'")
        assert 0 < tab.run("document.querySelectorAll('.rows tbody tr').length") < every
        tab.run("document.querySelector('.rows thead a').focus()")
        tab.press("Enter", "\r")
        tab.wait("location.search.includes('sort=') && document.readyState === 'complete'")
        assert tab.run("document.querySelector('[aria-sort]').textContent") == "id"
        tab.run("document.querySelector('.rows tbody a').focus()")
        tab.press("Enter", "\r")
        tab.wait("location.pathname.endsWith('/environment') && document.readyState === 'complete'")
        tab.run("document.activeElement.blur()")
        tab.press("Tab")
        assert tab.run("document.activeElement.className") == "skip"


def test_hostile_texts_stay_texts(tab, runs):
    with serve(runs[1].path) as page:
        for path in PAGES:
            tab.open(page.address + path)
            links = tab.run("[...document.querySelectorAll('.rows tbody a')].slice(0, 2).map((each) => each.href)")
            for address in (page.address + path, *links):
                tab.open(address)
                assert tab.run("document.scripts.length") == 1
                assert tab.run("document.body.innerText.includes('<b>evil&') || document.title.includes('<b>evil&') "
                               "|| document.body.innerText.includes('</script><script>alert(1)</script>')")  # fmt: skip
        assert tab.run("try { document.body.innerHTML = '<b>x</b>'; 'taken' } catch { 'refused' }") == "refused"
        tab.complaints.clear()  # the refusal itself


def test_a_phone_shows_every_page_without_scrolling_sideways(tab, runs):
    tab.size(390, 800, phone=True)
    with serve(*(each.path for each in runs)) as page:
        for path in (*PAGES, "environments?run=1", "designs?run=1"):
            tab.open(page.address + path)
            assert tab.run(WIDER) == 0
            link = tab.run("document.querySelector('.rows tbody a')?.href")
            if link:
                tab.open(link)
                assert tab.run(WIDER) == 0


def test_the_page_is_light_or_dark_as_the_reader_prefers(tab, runs):
    def is_readable():
        back, text = tab.run(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('h1')).color]"
            ".map((each) => each.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"
        )
        return back, abs(back - text) > 400

    with serve(runs[0].path) as page:
        tab.open(page.address)
        light = is_readable()
        tab.prefer("dark")
        dark = is_readable()
    assert light[0] > 600 > 200 > dark[0]
    assert light[1]
    assert dark[1]
