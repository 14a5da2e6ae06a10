// Every memory on every task: a cell is coloured from chance to the top, a tooltip has its runs, a click opens the task.

// Where runs lie between 0 and 100%, with chance.
const runDots = (runs, estimate, chance) => {
  const line = element("span", {class: "dots", "aria-hidden": "true"});
  const at = (fraction) => `${Math.max(0, Math.min(100, 100 * fraction))}%`;
  if (chance !== null && chance !== undefined) line.append(element("i", {class: "chance", style: `left:${at(chance)}`}));
  if (estimate?.interval)
    line.append(element("i", {class: "interval", style:
      `left:${at(estimate.interval[0])};width:calc(${at(estimate.interval[1])} - ${at(estimate.interval[0])})`}));
  for (const success of runs) line.append(element("i", {class: "run", style: `left:${at(success)}`}));
  if (estimate) line.append(element("i", {class: "mean", style: `left:${at(estimate.value)}`}));
  return line;
};
// What a run counts with.
const scoreOf = (run, key) => (hasDiverged(run) ? data.scores[key]?.of_diverged : run[key]) ?? null;
const countedRuns = (task, memory, key) => runsIn(task, memory).filter((run) => scoreOf(run, key) !== null);
const scoresOf = (task, memory, key = chosen.score) => countedRuns(task, memory, key).map((run) => scoreOf(run, key));
// An interval of few runs is kept to the files.
const shownEstimate = (task, memory, key = chosen.score) => {
  const estimate = data.scores[key]?.cells?.[task]?.[memory] ?? null;
  if (!estimate) return null;
  return {value: estimate.value, interval: scoresOf(task, memory, key).length >= TRUSTED_RUNS || !data.runs.length
    ? estimate.interval : null};
};

const cellTooltip = (task, memory) => {
  const estimate = shownEstimate(task, memory), runs = scoresOf(task, memory), chance = taskOf.get(task).chance_success;
  const lines = [element("b", {}, memory), element("span", {class: "quiet"}, ` on ${task}`)];
  if (!estimate) return [...lines, element("p", {}, "no run that counts")];
  lines.push(element("p", {}, element("b", {}, `${percent(estimate.value)}%`),
                     intervalText(estimate.interval) ? ` (${intervalText(estimate.interval)})` : "", ` ${plainly(chosen.score)}`));
  if (runs.length) lines.push(runDots(runs, estimate, chance));
  if (runs.length)
    lines.push(element("p", {class: "quiet"}, `${counted(runs.length, "run")}: ${countedRuns(task, memory, chosen.score)
      .map((run) => hasDiverged(run) ? "diverged" : whole(run[chosen.score])).join(", ")}`));
  if (chance !== null && chance !== undefined) lines.push(element("p", {class: "quiet"}, `chance ${percent(chance)}%`));
  return lines;
};

const matrixColumns = () => {
  const shown = tasks.filter((task) => taskMatches(task.label)).map((task) => task.label);
  return [["tell memories apart", shown.filter((task) => tellsApart(task) === true)],
          ["not known", shown.filter((task) => tellsApart(task) !== true && tellsApart(task) !== false)],
          ["tell none apart", shown.filter((task) => tellsApart(task) === false)]].filter(([, of]) => of.length);
};

// Of the columns that a memory has runs of, and how many it lacks: null without any.
const meanOver = (memory, columns) => {
  const cells = columns.map((task) => shownEstimate(task, memory)).filter(Boolean).map((cell) => cell.value);
  if (!cells.length) return null;
  return {value: cells.reduce((a, b) => a + b, 0) / cells.length, lacking: columns.length - cells.length};
};

const drawMatrix = (holder) => {
  const groups = matrixColumns(), columns = groups.flatMap(([, of]) => of);
  const telling = groups.filter(([name]) => name !== "tell none apart").flatMap(([, of]) => of);
  const own = memories.map((memory) => memory.label).filter(memoryMatches);
  // A mean over the easier columns alone is no place before others.
  const meanOf = (memory) => meanOver(memory, telling.length ? telling : columns);
  const sortValue = (memory) => {
    if (columns.includes(chosen.sort)) return shownEstimate(chosen.sort, memory)?.value ?? -1;
    const mean = meanOf(memory);
    return mean ? mean.value - 2 * mean.lacking : -2 * columns.length - 1;
  };
  const byText = new Map([["name", memoryName], ["learner", learnerName]]), text = byText.get(chosen.sort);
  const order = (labels) => [...labels].sort((a, b) => text ? text(a).localeCompare(text(b), "en", {numeric: true})
    : sortValue(b) - sortValue(a));
  const ordered = (labels) => [...order(labels.filter((label) => !isControl(label))), ...order(labels.filter(isControl))];
  const groupOf = GROUPS.get(chosen.group) ?? (() => "");
  // Groups in the order of their best row.
  const rowGroups = [...new Set(ordered(own).map(groupOf))].map((name) =>
    [name, ordered(own.filter((label) => groupOf(label) === name))]);
  const lead = learners.length > 1 ? 3 : 2;  // columns before those of the tasks
  const firstOf = new Set(groups.slice(1).map(([, of]) => of[0]));

  const head = element("thead");
  if (groups.length > 1 || groups[0]?.[0] !== "not known")
    head.append(element("tr", {class: "groups"}, element("td", {colspan: lead}), ...groups.map(([name, of]) =>
      element("th", {colspan: of.length, scope: "colgroup", class: firstOf.has(of[0]) ? "first" : null},
              element("span", {}, name)))));
  const heading = (label, key, attributes, ...content) => {
    const cell = element("th", {scope: "col", ...attributes}, ...content);
    if (chosen.sort === key) cell.setAttribute("aria-sort", byText.has(key) ? "ascending" : "descending");
    sortButton(cell, () => choose({sort: key}));
    return cell;
  };
  head.append(element("tr", {}, heading("memory", "name", {class: "text corner"}, "memory"),
    learners.length > 1 ? heading("learner", "learner", {class: "text corner"}, "learner") : null,
    heading("mean", "", {class: "task mean", title: "mean over the tasks that tell memories apart, as far as they are shown"},
            element("span", {}, "mean")),
    ...columns.map((task) => {
      const cell = heading(task, task, {class: `task${firstOf.has(task) ? " first" : ""}`}, element("span", {}, task));
      const {reason, intraclass_correlation: correlation} = taskOf.get(task).separation ?? {};
      withTooltip(cell.querySelector("button"), () => [element("b", {}, task),
        reason ? element("p", {}, `${tellsApart(task) === false ? "Tells no memories apart: " : ""}${reason}.`) : "",
        correlation ? element("p", {class: "quiet"}, `Intraclass correlation ${estimateText(correlation, hundredths)}.`) : "",
        element("p", {class: "quiet"}, "A click sorts by it.")]);
      return cell;
    })));

  const body = element("tbody");
  const rowOf = (memory) => {
    const mean = meanOf(memory), lacking = mean?.lacking ? `without ${counted(mean.lacking, "task")}` : null;
    const line = element("tr", {class: isControl(memory) ? "control" : null},
      element("th", {scope: "row", class: "text"}, memoryName(memory)),
      learners.length > 1 ? element("td", {class: "text learner"}, learnerName(memory)) : null,
      element("td", {class: "mean", title: lacking}, mean ? `${whole(mean.value)}${lacking ? "*" : ""}` : ""));
    for (const task of columns) {
      const estimate = shownEstimate(task, memory);
      const heat = estimate ? fromChance(estimate.value, task) : 0;
      const cell = element("td", {class: `cell${heat > 0.55 ? " hot" : ""}${firstOf.has(task) ? " first" : ""}${
        tellsApart(task) === false ? " apart" : ""}${chosen.task === task ? " chosen" : ""}`, tabindex: -1,
        style: estimate ? `--heat:${(100 * heat).toFixed(1)}%` : null, "data-task": task, "data-memory": memory},
        estimate ? whole(estimate.value) : "");
      line.append(cell);
    }
    return line;
  };
  for (const [name, rows] of rowGroups) {
    if (name) body.append(element("tr", {class: "group"}, element("th", {scope: "rowgroup", class: "text",
      colspan: lead + columns.length}, name)));
    body.append(...rows.map(rowOf));
  }
  const table = element("table", {class: "matrix"}, head, body);
  holder.replaceChildren(table);
  if (!own.length || !columns.length) return holder.replaceChildren(element("p", {}, "Nothing matches."));

  // One cell is in the tab order; arrows go on from it.
  const lines = [...body.querySelectorAll("tr:not(.group)")];
  const cellAt = (row, column) => lines[row]?.querySelectorAll(".cell")[column];
  cellAt(0, 0).tabIndex = 0;
  const found = (event) => event.target.closest?.(".cell");
  const content = (cell) => cellTooltip(cell.dataset.task, cell.dataset.memory);
  body.addEventListener("pointermove", (event) => {
    const cell = found(event);
    if (cell) showTooltip({x: event.clientX, y: event.clientY}, ...content(cell));
  });
  body.addEventListener("pointerleave", hideTooltip);
  body.addEventListener("click", (event) => {
    const cell = found(event);
    if (cell) openTask(cell.dataset.task, cell.dataset.memory);
  });
  body.addEventListener("focusin", (event) => {
    const cell = found(event), box = cell?.getBoundingClientRect();
    if (cell?.matches(":focus-visible")) showTooltip({x: box.right, y: box.bottom}, ...content(cell));
  });
  body.addEventListener("focusout", hideTooltip);
  body.addEventListener("keydown", (event) => {
    const cell = found(event);
    if (!cell) return;
    if (event.key === "Enter") return openTask(cell.dataset.task, cell.dataset.memory);
    const move = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    if (!move) return;
    event.preventDefault();
    const row = lines.indexOf(cell.parentNode), column = [...cell.parentNode.querySelectorAll(".cell")].indexOf(cell);
    const next = cellAt(row + move[0], column + move[1]);
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus({focusVisible: true});
  });
};

const matrixSection = () => {
  if (tasks.length * memories.length < 2) return null;
  const holder = element("div", {class: "scroll"});
  onChoice(["family", "memory", "learner", "group", "score", "sort", "task"], () => drawMatrix(holder));
  return section("matrix", "Every memory on every task",
    element("p", {class: "about"}, "Mean over runs in percent. The colour goes from chance to 100%: what is not above " +
      "chance has none. Point at a cell for its runs, click it for the task." + (memories.some(({label}) =>
        meanOver(label, tasks.map((task) => task.label))?.lacking) ? " A mean with a star lacks some tasks." : "")),
    element("p", {class: "legend", "aria-hidden": "true"}, "chance ", element("span", {class: "ramp"}), " 100%"), holder);
};
