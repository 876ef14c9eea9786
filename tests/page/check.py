"""Holds the pages of reports in a headless Chromium: python3 check.py CHROMIUM [PICTURES] -- PAGE..

Exits with 1 and says what is wrong. With a folder for PICTURES it also writes how each page looks at each width.
"""
import sys
from pathlib import Path

from browser import WIDTHS, Browser, told

LOOKS = (Path(__file__).parent / "looks.js").read_text()

# The chart that is played with, and what is asked of it.
HELPERS = """
globalThis.figure = document.querySelector("figure.chart");
globalThis.plot = figure.querySelector(".plot");
globalThis.names = [...figure.querySelectorAll(".legend button")];
globalThis.readout = () => figure.querySelector(".readout").textContent;
globalThis.lines = (series) => [...plot.querySelectorAll(`[data-series="${series}"]`)];
globalThis.is_drawn = (series) => lines(series).some((line) => line.getClientRects().length > 0);
globalThis.table = document.querySelector("section:has(.chart) .wide:not(.heat .wide) table");
globalThis.column = (index) => [...table.tBodies[0].rows].map((row) => row.cells[index].textContent);
globalThis.middle = (element) => {
  element.scrollIntoView({ block: "center" });
  const { left, top, width, height } = element.getBoundingClientRect();
  return [left + width / 2, top + height / 2];
};
true
"""


class Checks:
    def __init__(self, browser, page):
        self.browser, self.page, self.wrong = browser, page, []

    def hold(self, is_true, what):
        if not is_true:
            self.wrong.append(f"{self.page}: {what}")

    def ask(self, script):
        return self.browser.run(script)

    def looks(self, pictures):
        """At every width, on light and dark screens, with what is folded unfolded."""
        for width in WIDTHS:
            for is_dark in [False, True]:
                name = f"{width}{' dark' if is_dark else ''}"
                self.browser.open(self.page, width, dark=is_dark)
                # A phone zooms out of a page that is wider than its screen.
                inner = self.ask("innerWidth")
                self.hold(inner == width, f"at {name}: the page takes {inner} pixels")
                for what in self.ask(LOOKS):
                    self.hold(False, f"at {name}: {what}")
                if pictures:
                    self.browser.picture(Path(pictures) / f"{self.page.parent.name}-{name.replace(' ', '-')}")
                self.ask("document.querySelectorAll('details').forEach((details) => (details.open = true))")
                for what in self.ask(LOOKS):
                    self.hold(False, f"at {name}, unfolded: {what}")
                for complaint in self.browser.complaints():
                    self.hold(False, f"at {name}: {complaint}")

    def switches(self):
        """A series is hidden and shown by Enter, by Space and by a click."""
        series = self.ask("Number(names[0].parentElement.dataset.series)")
        self.hold(self.ask("names.every((name) => name.getAttribute('aria-pressed') === 'true')"), "a series is off at first")

        def both_ways(how, act):
            for wanted in [False, True]:
                act()
                self.hold(self.ask(f"is_drawn({series})") == wanted, f"{how} does not switch a series")
                pressed = self.ask("names[0].getAttribute('aria-pressed')")
                self.hold(pressed == str(wanted).lower(), f"{how} leaves aria-pressed at {pressed}")

        self.ask("names[0].focus()")
        both_ways("Enter", lambda: self.browser.press("Enter", "\r"))
        both_ways("Space", lambda: self.browser.press(" ", " "))
        both_ways("a click", lambda: self.browser.point(*self.ask("middle(names[0])"), click=True))

    def reads(self):
        """Values are read by arrow keys and by the pointer."""
        self.ask("plot.focus()")
        before = self.ask("readout()")
        self.browser.press("ArrowRight")
        after = self.ask("readout()")
        self.hold(before and after and before != after, f"the right arrow reads {after!r} after {before!r}")
        self.browser.press("ArrowDown")
        other = self.ask("readout()")
        self.hold(other.split(":")[0] != after.split(":")[0], f"the down arrow stays at {other!r}")
        self.browser.press("Home")
        self.hold(self.ask("readout()") != other, "Home does not read the first point")
        self.browser.press("Escape")
        self.hold(self.ask("readout()") == "", "Escape leaves a value")
        # The last marker of the series that is drawn last lies on top.
        place = self.ask("""(() => {
            const drawing = [...plot.querySelectorAll("svg")].find((svg) => svg.getClientRects().length > 0);
            const groups = [...drawing.querySelectorAll("g[data-series]")];
            globalThis.last = Number(groups.at(-1).dataset.series);
            return middle(groups.at(-1).querySelector(":is(circle, polygon):last-of-type"));
        })()""")
        self.browser.point(*place)
        read = self.ask("readout()")
        name = self.ask("""figure.querySelector(`li[data-series="${last}"]`).textContent.trim()""")
        self.hold(read.startswith(f"{name}: "), f"the pointer on {name!r} reads {read!r}")
        self.hold(self.ask("readout() !== '' && plot.querySelector('.pointed[cx]') !== null"), "no ring around the point")

    def sorts(self):
        """A click on a head orders the rows up, down, and as they were; what is missing stays last."""
        original = self.ask("column(0)")
        for index in range(self.ask("table.tHead.rows[0].cells.length")):
            for order in ["ascending", "descending", "none"]:
                self.ask(f"table.tHead.rows[0].cells[{index}].querySelector('button').click()")
                said = self.ask(f"table.tHead.rows[0].cells[{index}].getAttribute('aria-sort')")
                self.hold(said == order, f"aria-sort is {said} in the place of {order}")
                found = self.ask(f"column({index})")
                values = [number(text) for text in found if text not in ("-", "–", "nan")]
                if order != "none" and all(value is not None for value in values):
                    self.hold(values == sorted(values, reverse=order == "descending"), f"column {index} is {found}, {order}")
                    self.hold(all(text in ("-", "–", "nan") for text in found[len(values):]), f"missing first: {found}")
            self.hold(self.ask("column(0)") == original, "the third click does not bring the order back")

    def copies(self):
        """The table goes to the clipboard as tab-separated values with errors in columns of their own."""
        self.ask("navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }; true")
        self.ask("table.closest('.wide').nextElementSibling.querySelector('button').click()")
        lines = (self.ask("new Promise((done) => setTimeout(() => done(globalThis.copied), 50))") or "").splitlines()
        widths = {len(line.split("\t")) for line in lines}
        self.hold(len(lines) == self.ask("table.rows.length") and len(widths) == 1, f"it copies {lines[:2]}")
        self.hold("±" not in "".join(lines) and " error" in lines[0], f"errors have no column: {lines[:2]}")
        self.hold("copied" in self.ask("table.closest('.wide').nextElementSibling.textContent"), "it does not say so")

    def prints(self):
        """Paper has every series, light colours, and nothing to click."""
        self.ask("names[0].click()")
        self.browser.media(dark=True, medium="print")
        series = self.ask("Number(names[0].parentElement.dataset.series)")
        self.hold(self.ask(f"is_drawn({series})"), "a hidden series is not printed")
        self.hold(self.ask("document.querySelector('.copy').getClientRects().length") == 0, "a button is printed")
        self.hold(self.ask("getComputedStyle(document.body).color") == "rgb(31, 35, 40)", "it prints in dark colours")
        self.ask("dispatchEvent(new Event('beforeprint'))")
        self.hold(self.ask("document.querySelector('details:not([open])')") is None, "what is folded is not printed")
        self.ask("dispatchEvent(new Event('afterprint'))")
        self.browser.media()
        self.hold(len(self.browser.call("Page.printToPDF")["data"]) > 10_000, "it prints nothing")

    def works(self):
        for width in WIDTHS:
            self.browser.open(self.page, width)
            self.ask(HELPERS)
            for check in [self.switches, self.reads, self.sorts, self.copies, self.prints]:
                check()
            for complaint in self.browser.complaints():
                self.hold(False, f"at {width}, in use: {complaint}")

    def needs_no_script(self):
        """Without scripts everything is shown, and nothing looks as if it could be clicked."""
        counted = "['figure.chart svg', 'table', '.legend li'].map((it) => document.querySelectorAll(it).length)"
        self.browser.open(self.page, 800)
        with_scripts = self.ask(counted)
        self.browser.open(self.page, 800, scripts=False)
        self.hold(self.ask(counted) == with_scripts and min(with_scripts) > 0, "without scripts something is missing")
        self.hold(self.ask("document.querySelectorAll('button').length") == 0, "a button does nothing without scripts")

    def runs_nothing_else(self):
        """A name that became an element could still not run."""
        self.browser.open(self.page, 800)
        self.ask("""document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='globalThis.ran = true'>");
            document.body.append(Object.assign(document.createElement("script"), { textContent: "globalThis.ran = true" }));""")
        ran = self.ask("new Promise((done) => setTimeout(() => done(globalThis.ran === true), 100))")
        self.hold(not ran, "a foreign script runs")


def number(text):
    """The value of a cell, without its error."""
    first = text.replace("±", " ").split()[0]
    try:
        return float(first)
    except ValueError:
        return None


def main():
    split = sys.argv.index("--")
    program, pictures = sys.argv[1], sys.argv[2] if split > 2 else None
    browser, wrong = Browser(program), []
    try:
        for page in map(Path, sys.argv[split + 1:]):
            checks = Checks(browser, page)
            checks.looks(pictures)
            checks.works()
            checks.needs_no_script()
            checks.runs_nothing_else()
            wrong += checks.wrong
    finally:
        browser.close()
    told(wrong)


main()
