// Tables that can be sorted by a click on a column's head, the page's own and those that came with it.

const numberIn = (text) => {
  const found = /^-?[\d,]*\.?\d+(e[+-]?\d+)?/i.exec(text.trim());
  return found ? parseFloat(found[0].replaceAll(",", "")) : NaN;
};
// Numbers by their size and before what is none, texts by their letters; nothing comes last either way.
const compareCells = (a, b, downwards) => {
  const x = typeof a === "number" ? a : numberIn(String(a ?? "")), y = typeof b === "number" ? b : numberIn(String(b ?? ""));
  const empty = (value) => value === null || value === undefined || value === "" || value === "-";
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  const order = !isNaN(x) && !isNaN(y) ? x - y : !isNaN(x) ? -1 : !isNaN(y) ? 1
    : String(a).localeCompare(String(b), "en", {numeric: true});
  return downwards ? -order : order;
};

const markSorted = (heads, place, downwards) => heads.forEach((head, i) => {
  if (i === place) head.setAttribute("aria-sort", downwards ? "descending" : "ascending");
  else head.removeAttribute("aria-sort");
});
const sortButton = (head, sort) => {
  const button = element("button", {type: "button", class: "sort", title: "sort by this column"});
  button.append(...head.childNodes);
  button.addEventListener("click", sort);
  head.append(button);
};

// A table of `columns` {name, text (left), value (to sort by), cell (row -> text or element)} over rows() that are read
// again by the function it returns; of more than `most` rows the first are shown until all are asked for.
const sortableTable = (columns, rows, {most = 100, sort = -1, downwards = false, caption = "", onRow = null} = {}) => {
  let all = false, place = sort;
  const heads = columns.map((column) => element("th", {scope: "col", class: column.text ? "text" : null,
                                                       title: column.about ?? null}, column.name));
  const body = element("tbody");
  const more = element("button", {type: "button", class: "more", onclick: () => { all = true; show(); }});
  const table = element("table", {}, caption ? element("caption", {}, caption) : null,
                        element("thead", {}, element("tr", {}, ...heads)), body);
  const show = () => {
    const shown = [...rows()];
    if (place >= 0) shown.sort((a, b) => compareCells(columns[place].value(a), columns[place].value(b), downwards));
    const part = all ? shown : shown.slice(0, most);
    body.replaceChildren(...part.map((row) => {
      const line = element("tr", {}, ...columns.map((column, i) => {
        const content = column.cell(row);
        return element(i === 0 ? "th" : "td", {scope: i === 0 ? "row" : null, class: column.text ? "text" : null},
                       ...(Array.isArray(content) ? content : [content ?? ""]));
      }));
      if (onRow) onRow(line, row, columns.length);
      return line;
    }));
    if (!shown.length)
      body.append(element("tr", {}, element("td", {class: "text", colspan: columns.length}, "Nothing matches.")));
    more.hidden = part.length === shown.length;
    more.textContent = `show all ${count(shown.length)} rows`;
    markSorted(heads, place, downwards);
  };
  heads.forEach((head, i) => sortButton(head, () => {
    downwards = place === i ? !downwards : !columns[i].text;
    place = i;
    show();
  }));
  return {node: element("div", {}, element("div", {class: "scroll", tabindex: 0, role: "region",
                                                   "aria-label": caption || "table"}, table), more), show};
};

// The tables that stand in the page already.
const makeSortable = (table) => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, i) => sortButton(head, () => {
    const downwards = head.getAttribute("aria-sort") === "descending" ? false
      : head.getAttribute("aria-sort") === "ascending" ? true : !head.classList.contains("text");
    const text = (row) => row.cells[i]?.innerText ?? "";
    body.append(...[...body.rows].sort((a, b) => compareCells(text(a), text(b), downwards)));
    markSorted(heads, i, downwards);
  }));
};
