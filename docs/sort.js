// A click on the heading of a table's column sorts its rows: by number where the column begins with numbers, by word
// otherwise. A second click turns the order round.
"use strict";

(function () {
    // "16.4 ±0.4%" counts as 16.4; "-" stands last.
    function valueOf(cell) {
        const text = cell ? cell.textContent.trim() : "";
        const number = parseFloat(text.replace(/,/g, ""));
        return text === "-" ? Infinity : Number.isNaN(number) ? text.toLowerCase() : number;
    }

    function compare(a, b) {
        if (typeof a === "number" && typeof b === "number") return a - b;
        if (typeof a === "number") return -1;
        if (typeof b === "number") return 1;
        return a < b ? -1 : a > b ? 1 : 0;
    }

    function sortBy(table, column, button) {
        const falling = button.getAttribute("aria-sort") === "ascending";
        for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
        button.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = Array.from(body.rows).map((row) => [valueOf(row.cells[column]), row]);
        rows.sort((a, b) => (falling ? -1 : 1) * compare(a[0], b[0]));
        for (const [, row] of rows) body.append(row);
    }

    for (const table of document.querySelectorAll("main table")) {
        const body = table.tBodies[0];
        if (!body || body.rows.length < 8 || table.querySelector("tbody img")) continue;
        table.querySelectorAll("thead th").forEach((heading, column) => {
            heading.classList.add("sortable");
            heading.tabIndex = 0;
            heading.title = "Sort by this column";
            heading.addEventListener("click", () => sortBy(table, column, heading));
            heading.addEventListener("keydown", (event) => {
                if (event.key === "Enter" || event.key === " ") {
                    event.preventDefault();
                    sortBy(table, column, heading);
                }
            });
        });
    }
})();
