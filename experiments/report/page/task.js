// One task: each run as a dot, and the curves of learning, where a memory that is pointed at shows its single seeds.

const COLOURS = 6;  // --line-0 ...
const themeColour = (() => {
  const probe = element("span", {hidden: true});
  return (name) => {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
})();
const faded = (colour, alpha) => colour.replace(/^rgba?\(([^)]*)\)$/, (_, parts) =>
  `rgba(${parts.split(/[,\s/]+/).filter(Boolean).slice(0, 3).join(",")},${alpha})`);

const curvePoints = (run) => (run.evaluations ?? "").split(" ").filter(Boolean).map((pair) => pair.split(":").map(Number));
const openTask = (task, memory = "") => {
  choose({task});
  emphasise(memory);
  document.getElementById("task").scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches
    ? "auto" : "smooth", block: "start"});
};
let emphasise = () => {};

// The memories of the task, the best first, controls last, with the colours of the best.
const rankedIn = (task) => {
  const ranked = memories.map(({label}) => ({label, control: isControl(label), estimate: shownEstimate(task, label),
                                             runs: scoresOf(task, label)}))
    .filter(({label, estimate}) => estimate && memoryMatches(label))
    .sort((a, b) => a.control - b.control || b.estimate.value - a.estimate.value);
  ranked.forEach((entry, i) => {
    entry.colour = entry.control || i >= COLOURS ? "--line-other" : `--line-${i}`;
    entry.coloured = !entry.control && i < COLOURS;
  });
  return ranked;
};

const taskFacts = (task) => {
  const facts = taskOf.get(task), list = element("p", {class: "about"});
  const parts = [];
  if (facts.name && facts.name !== task) parts.push(`${facts.name}.`);
  if (facts.max_episode_steps) parts.push(`Episodes of at most ${count(facts.max_episode_steps)} steps.`);
  if (typeof facts.chance_success === "number") parts.push(`Chance ${percent(facts.chance_success)}%.`);
  if (typeof facts.random_success === "number") parts.push(`Random play ${percent(facts.random_success)}%.`);
  const separation = facts.separation;
  if (separation && memories.length > 1)
    parts.push(`${separation.tells_apart === true ? "Tells memories apart" : separation.tells_apart === false
      ? "Tells no memories apart" : "Not known whether it tells memories apart"}: ${separation.reason}.`);
  if (separation?.intraclass_correlation)
    parts.push(`Intraclass correlation ${estimateText(separation.intraclass_correlation, hundredths)}.`);
  list.append(parts.join(" "));
  return list;
};

const strip = (ranked, task, point) => {
  const list = element("ol", {class: "strip", "aria-label": `runs on ${task}`});
  for (const entry of ranked) {
    const row = element("li", {"data-memory": entry.label, tabindex: 0, class: entry.control ? "control" : null},
      element("span", {class: "swatch", style: `background:var(${entry.colour})`}),
      element("span", {class: "name"}, entry.label), runDots(entry.runs, entry.estimate, taskOf.get(task).chance_success),
      element("span", {class: "value"}, percent(entry.estimate.value)));
    withTooltip(row, () => cellTooltip(task, entry.label));
    row.addEventListener("pointerenter", () => point(entry.label));
    row.addEventListener("pointerleave", () => point(""));
    row.addEventListener("focus", () => point(entry.label));
    list.append(row);
  }
  return list;
};

// Lines of memories, best seen when pointed at one: then it shows its interval and `singles(label)`, lines of its single
// seeds. `curves`: of labels [{x, value, interval}], ascending; `chance`: a level, or none.
const lineChart = (ranked, curves, singles, {label, xLabel, xText = steps, chance, point, values = null}) => {
  const drawn = ranked.filter((entry) => curves.has(entry.label)).reverse();
  const table = uPlot.join(drawn.map((entry) => [curves.get(entry.label).map((p) => p.x),
                                                 curves.get(entry.label).map((p) => 100 * p.value)]));
  const holder = element("div", {class: "chart", role: "img", "aria-label": label});
  let pointed = "", chart = null;
  const path = (u, points) => {
    u.ctx.beginPath();
    points.forEach(([x, y], i) => u.ctx[i ? "lineTo" : "moveTo"](u.valToPos(x, "x", true), u.valToPos(y, "y", true)));
  };
  const drawPointed = (u) => {
    const context = u.ctx, ratio = devicePixelRatio;
    context.save();
    context.beginPath();
    context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    context.clip();
    if (typeof chance === "number") {
      context.setLineDash([2 * ratio, 4 * ratio]);
      context.lineWidth = ratio;
      context.strokeStyle = themeColour("--quiet");
      path(u, [[u.scales.x.min, 100 * chance], [u.scales.x.max, 100 * chance]]);
      context.stroke();
      context.setLineDash([]);
    }
    const entry = drawn.find((other) => other.label === pointed);
    if (entry) {
      const colour = themeColour(entry.coloured ? entry.colour : "--ink"), points = curves.get(pointed);
      if (points.every((p) => p.interval)) {
        path(u, [...points.map((p) => [p.x, 100 * p.interval[1]]),
                 ...[...points].reverse().map((p) => [p.x, 100 * p.interval[0]])]);
        context.fillStyle = faded(colour, 0.14);
        context.fill();
      }
      context.lineWidth = ratio;
      context.strokeStyle = faded(colour, 0.65);
      for (const single of singles(pointed)) {
        path(u, single);
        context.stroke();
      }
      context.lineWidth = 3 * ratio;
      context.strokeStyle = colour;
      path(u, points.map((p) => [p.x, 100 * p.value]));
      context.stroke();
    }
    context.restore();
  };
  const series = () => drawn.map((entry) => ({
    label: entry.label, points: {show: values !== null}, spanGaps: true,
    stroke: () => faded(themeColour(entry.colour), pointed && pointed !== entry.label ? 0.25
      : entry.coloured || entry.control ? 1 : 0.55),
    width: entry.coloured ? 2 : 1, dash: entry.control ? [6, 4] : undefined}));
  const nearest = (u) => {
    const {idx, left, top} = u.cursor;
    if (idx === null || idx === undefined || left < 0) return "";
    let best = "", distance = 30;
    drawn.forEach((entry, i) => {
      const value = u.data[i + 1][idx];
      if (value === null || value === undefined) return;
      const away = Math.abs(u.valToPos(value, "y") - top);
      if (away <= distance) [best, distance] = [entry.label, away];
    });
    return best;
  };
  const tell = (u) => {
    const found = nearest(u);
    point(found);
    if (!found) return hideTooltip();
    const at = u.data[0][u.cursor.idx], box = u.over.getBoundingClientRect();
    const estimate = curves.get(found).find((p) => p.x === at);
    showTooltip({x: box.left + u.cursor.left, y: box.top + u.cursor.top}, element("b", {}, found),
      element("p", {}, estimate ? `${estimateText(estimate)}%` : "", ` at ${xText(at)}`),
      singles(found).length ? element("p", {class: "quiet"}, "thin lines: its single seeds") : "");
  };
  const axis = {stroke: () => themeColour("--quiet"), grid: {stroke: () => themeColour("--rule"), width: 1},
                ticks: {show: false}, font: "12px system-ui, sans-serif"};
  const size = () => ({width: Math.max(240, holder.clientWidth), height: holder.clientWidth < 500 ? 260 : 380});
  const draw = () => {
    if (chart || !holder.clientWidth) return;
    chart = new uPlot({
      ...size(), legend: {show: false}, cursor: {y: false, points: {show: false}, drag: {x: false, y: false}},
      scales: {x: {time: false}, y: {range: [-2, 102]}},
      axes: [{...axis, values: (_, at) => at.map(xText), label: xLabel, labelSize: 22, labelGap: 0, size: 34,
              labelFont: "12px system-ui, sans-serif", ...(values ? {splits: () => values} : {})},
             {...axis, values: (_, at) => at.map((value) => `${value}%`), size: 48}],
      series: [{}, ...series()], hooks: {draw: [drawPointed], setCursor: [tell]}}, table, holder);
    chart.over.addEventListener("pointerleave", () => { point(""); hideTooltip(); });
  };
  return {node: holder, draw, emphasise(of) { pointed = of; chart?.redraw(false); },
          resize() { if (chart) chart.setSize(size()); else draw(); }, redraw() { chart?.redraw(); }};
};

// A curve's intervals, where as many finished runs as make one trusted stand behind it.
const curvesOf = (task) => new Map(data.curves.filter((curve) => curve.task === task && curve.points.length)
  .map((curve) => [curve.backbone, curve.points.map((p) => ({x: p.environment_steps, value: p.value,
    interval: runsIn(task, curve.backbone).filter((run) => run.final_success !== null && run.evaluations).length >=
      TRUSTED_RUNS ? p.interval : null}))]));
const curveChart = (ranked, task, point) => {
  const curves = curvesOf(task);
  if (!ranked.some((entry) => curves.has(entry.label)))
    return {node: element("p", {class: "about"},
                          "No evaluations during training are known of these runs: there are no curves."), emphasise() {}};
  const singles = (label) => runsIn(task, label).map(curvePoints).filter((curve) => curve.length)
    .map((curve) => curve.map(([at, success]) => [at, 100 * success]));
  return lineChart(ranked, curves, singles, {xLabel: "environment steps", chance: taskOf.get(task).chance_success, point,
    label: `success during training on ${task}; ` +
      ranked.slice(0, 3).map((entry) => `${entry.label} ends at ${percent(entry.estimate.value)}%`).join(", ")});
};

const charts = new Map();  // by the section that they are in
const redrawCharts = () => { for (const chart of charts.values()) chart.redraw?.(); };
addEventListener("resize", () => { for (const chart of charts.values()) chart.resize?.(); });
// Of those that tell memories apart and have curves, where there are such, the one that does so most.
const mostTelling = (labels) => {
  const correlation = (label) => taskOf.get(label).separation?.intraclass_correlation?.value ?? -1;
  const withCurves = labels.filter((label) => data.curves.some((curve) => curve.task === label && curve.points.length));
  const telling = withCurves.filter((label) => tellsApart(label));
  const among = telling.length ? telling : withCurves.length ? withCurves : labels;
  return among.reduce((best, label) => correlation(label) > correlation(best) ? label : best);
};
const taskSection = () => {
  const title = element("h2"), facts = element("div"), figures = element("div", {class: "task-figures"});
  const select = element("select", {"aria-label": "task", onchange: () => choose({task: select.value})});
  const turn = (by) => () => {
    const shown = matrixColumns().flatMap(([, of]) => of);
    choose({task: shown[(shown.indexOf(chosen.task) + by + shown.length) % shown.length]});
  };
  const controls = element("p", {class: "turn"}, element("button", {type: "button", onclick: turn(-1), "aria-label": "task before"}, "←"),
    select, element("button", {type: "button", onclick: turn(1), "aria-label": "next task"}, "→"));
  let chart = null, stripNode = null;
  emphasise = (label) => {
    chart?.emphasise(label);
    for (const row of stripNode?.children ?? []) row.classList.toggle("pointed", row.dataset.memory === label);
  };
  const show = () => {
    const shown = matrixColumns().flatMap(([, of]) => of);
    if (!shown.length) return figures.replaceChildren(element("p", {}, "Nothing matches."));
    const task = shown.includes(chosen.task) ? chosen.task : mostTelling(shown);
    chosen.task = task;
    select.replaceChildren(...shown.map((label) => element("option", {value: label, selected: label === task}, label)));
    title.textContent = `Task ${task}`;
    facts.replaceChildren(taskFacts(task));
    const ranked = rankedIn(task);
    stripNode = strip(ranked, task, (label) => emphasise(label));
    chart = curveChart(ranked, task, (label) => emphasise(label));
    charts.set("task", chart);
    figures.replaceChildren(
      element("div", {}, element("h3", {}, "Success of every run"), element("p", {class: "about"},
        `A dot is a run, the line their mean${ranked.some((entry) => entry.estimate.interval)
          ? ", the bar its 95% interval" : ""}; dotted: chance.`), stripNode),
      element("div", {}, element("h3", {}, "Success during training"), element("p", {class: "about"},
        "Means over runs; point at a line or a memory for its single seeds."), chart.node));
    requestAnimationFrame(() => chart.draw?.());
  };
  onChoice(["family", "memory", "learner", "score", "task"], show);
  const made = element("section", {id: "task"}, title, tasks.length > 1 ? controls : null, facts, figures);
  return made;
};

// Success against the number that alone tells the tasks apart, and away from where the agents were trained.
const sweepChart = () => {
  if (!data.sweep) return null;
  const order = tasks.map((task, i) => [data.sweep.values[i], task.label]).sort(([a], [b]) => a - b);
  const curves = new Map(memories.map(({label}) => [label, order.map(([x, task]) => ({x, ...shownEstimate(task, label)}))
    .filter((p) => p.value !== undefined)]).filter(([, points]) => points.length));
  return {title: `Success against ${data.sweep.key}`, key: data.sweep.key, values: order.map(([x]) => x), curves,
          chance: tasks[0].chance_success, about: "Final success of agents trained at each value."};
};
const rangeCharts = () => (data.range?.curves ?? []).length ? tasks.map((task) => {
  const order = data.range.values.map((x, i) => [x, i]).sort(([a], [b]) => a - b);
  const curves = new Map(data.range.curves.filter((curve) => curve.task === task.label && curve.greedy.length)
    .map((curve) => [curve.backbone, order.map(([x, i]) => ({x, value: curve.greedy[i].value,
      interval: curve.runs >= TRUSTED_RUNS ? curve.greedy[i].interval : null}))]));
  return {title: `Elsewhere than in training: ${task.label}`, key: data.range.key, values: order.map(([x]) => x), curves,
          chance: task.chance_success, about: `Agents trained on ${task.label}, evaluated at other values of ${data.range.key}.`};
}).filter(({curves}) => curves.size) : [];

const sweepSections = () => [sweepChart(), ...rangeCharts()].filter(Boolean).map((given, i) => {
  const holder = element("div", {class: "task-figures"});
  const show = () => {
    const ranked = memories.map(({label}) => ({label, control: isControl(label), points: given.curves.get(label)}))
      .filter(({label, points}) => points && memoryMatches(label))
      .map((entry) => ({...entry, mean: entry.points.reduce((sum, p) => sum + p.value, 0) / entry.points.length}))
      .sort((a, b) => a.control - b.control || b.mean - a.mean);
    ranked.forEach((entry, place) => {
      entry.coloured = !entry.control && place < COLOURS;
      entry.colour = entry.coloured ? `--line-${place}` : "--line-other";
    });
    if (!ranked.length) return holder.replaceChildren(element("p", {}, "Nothing matches."));
    let chart = null;
    const legend = element("ul", {class: "names"}, ...ranked.map((entry) => element("li", {tabindex: 0,
      onpointerenter: () => chart.emphasise(entry.label), onpointerleave: () => chart.emphasise(""),
      onfocus: () => chart.emphasise(entry.label)},
      element("span", {class: "swatch", style: `background:var(${entry.colour})`}), entry.label)));
    chart = lineChart(ranked, given.curves, () => [], {xLabel: given.key, xText: (x) => String(x), values: given.values,
      chance: given.chance, label: given.title, point: (label) => chart.emphasise(label)});
    charts.set(`sweep-${i}`, chart);
    holder.replaceChildren(chart.node, legend);
    requestAnimationFrame(() => chart.draw());
  };
  const made = section(`sweep-${i}`, given.title, element("p", {class: "about"}, given.about), holder);
  onChoice(["memory", "learner", "score"], show);
  return made;
});
