"""Holds the book, and its atlas, in a headless Chromium: python3 book.py CHROMIUM BOOK [PICTURES]

BOOK is the folder that `mdbook build` wrote. Exits with 1 and says what is wrong. With a folder for PICTURES it also writes
how the pages look at each width.
"""
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from browser import WIDTHS, Browser, told

LOOKS = (Path(__file__).parent / "book.js").read_text()

# Pages of each kind, opened at every width, on light and dark screens; all others of the atlas once.
OPENED = ["atlas/index", "atlas/encodings/rope", "atlas/encodings/sinusoidal", "atlas/encodings/radix",
          "atlas/encodings/alibi", "atlas/extensions/yarn", "atlas/extensions/rerope", "results", "index",
          "reference/extensions", "guides/studies"]
# Letters of a picture that are lower than this, in CSS pixels, cannot be read. In the small multiples of the overview the
# name below says what is drawn, and a click opens the chart.
LEAST = 8


class Links(HTMLParser):
    """What a page links to and shows, and the places in it that can be linked to."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.places = [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.places.add(attributes["id"])
        target = attributes.get("href" if tag == "a" else "src" if tag == "img" else "")
        if target and not urlsplit(target).scheme:
            self.targets.append(target)


def broken(book):
    """The links within the book that lead nowhere."""
    pages = {page.resolve(): Links(page) for page in book.rglob("*.html") if page.name not in ("print.html", "toc.html", "404.html")}
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = unquote(parts.fragment)
            if not there.exists():
                yield f"{page.name}: the link {target} leads nowhere"
            elif place and there in pages and place not in pages[there].places:
                yield f"{page.name}: the page of {target} has no such place"


def lowest_letters(picture):
    """The least size of a text in a drawing, and the drawing's own width. A drawing that is missing is named elsewhere."""
    text = picture.read_text() if picture.exists() else '<svg width="1"'
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)', text)]
    width = float(re.search(r'<svg[^>]*?width="([\d.]+)', text).group(1))
    return (min(sizes) if sizes else None), width


class Checks:
    def __init__(self, browser, book, page):
        self.browser, self.book, self.page, self.wrong = browser, book, page, []

    def hold(self, is_true, what):
        if not is_true:
            self.wrong.append(f"{self.page}: {what}")

    def open(self, width, dark=False):
        self.browser.open(self.book / f"{self.page}.html", width, dark=dark)
        # Pictures may still be on their way.
        self.browser.run("Promise.all([...document.images].map((image) => image.decode().catch(() => {}))).then(() => true)")

    def looks(self, widths, pictures=None):
        for width in widths:
            for is_dark in [False, True]:
                name = f"{width}{'-dark' if is_dark else ''}"
                self.open(width, is_dark)
                for what in self.browser.run(LOOKS):
                    self.hold(False, f"at {name}: {what}")
                self.letters(name)
                for complaint in self.browser.complaints():
                    # Styles, fonts and pictures are the book's own.
                    if not complaint.startswith(("it fetches file://", "it fetches data:")):
                        self.hold(False, f"at {name}: {complaint}")
                if pictures:
                    self.browser.picture(pictures / f"{self.page.replace('/', '-')}-{name}")

    def letters(self, name):
        """The letters in pictures are high enough at the size that they are shown in."""
        shown = self.browser.run("""[...document.querySelectorAll("main img")]
            .filter((image) => image.src.endsWith(".svg") && !image.closest("td"))
            .map((image) => [new URL(image.src).pathname, image.getBoundingClientRect().width])""")
        for path, width in shown:
            size, drawn = lowest_letters(Path(unquote(path)))
            if size is not None:
                self.hold(size * width / drawn >= LEAST, f"at {name}: letters of {size * width / drawn:.1f} pixels in {Path(path).name}")

    def sorts(self):
        """The first long table is sorted by a click on a heading, and by Enter."""
        self.open(1280)
        self.browser.run("globalThis.table = document.querySelector('table:has(th.sortable)'); true")
        self.hold(self.browser.run("table !== null"), "no table can be sorted")
        count = self.browser.run("table.tHead.rows[0].cells.length")
        for index in range(count):
            for order in ["ascending", "descending"]:
                if order == "ascending":
                    self.browser.run(f"table.tHead.rows[0].cells[{index}].click()")
                else:
                    self.browser.run(f"table.tHead.rows[0].cells[{index}].focus()")
                    self.browser.press("Enter", "\r")
                said = self.browser.run(f"table.tHead.rows[0].cells[{index}].getAttribute('aria-sort')")
                self.hold(said == order, f"aria-sort of column {index} is {said} in the place of {order}")
                cells = self.browser.run(f"[...table.tBodies[0].rows].map((row) => row.cells[{index}].textContent.trim())")
                numbers = [float(cell.split()[0]) for cell in cells if re.match(r"\d", cell)]
                if len(numbers) == len(cells):
                    self.hold(numbers == sorted(numbers, reverse=order == "descending"), f"column {index} is {cells}, {order}")


def main():
    program, book = sys.argv[1], Path(sys.argv[2]).resolve()
    pictures = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    wrong = list(broken(book))
    browser = Browser(program)
    try:
        rest = sorted(str(page.relative_to(book).with_suffix("")) for page in (book / "atlas").rglob("*.html"))
        for page in OPENED:
            checks = Checks(browser, book, page)
            checks.looks(WIDTHS, pictures)
            wrong += checks.wrong
        for page in rest:
            if page not in OPENED:
                checks = Checks(browser, book, page)
                checks.looks([390])
                wrong += checks.wrong
        overview = Checks(browser, book, "atlas/index")
        overview.sorts()
        wrong += overview.wrong
    finally:
        browser.close()
    told(wrong)


main()
