// What the other parts share: the data, elements, numbers as text, what is chosen, and the tooltip.

// Lists of like objects travel as {columns, rows} (page.cpp).
const unpacked = (value) => {
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value.packed_columns)) {
    return value.rows.map((row) => Object.fromEntries(value.packed_columns.map((key, i) => [key, unpacked(row[i])])));
  }
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, unpacked(part)]));
};
const data = unpacked(JSON.parse(document.getElementById("data").textContent));

// element("td", {class: "number", title: "x"}, child or text ...); texts are text, whatever they say.
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

const percent = (fraction) => {
  const text = (100 * fraction).toFixed(1);
  return text === "-0.0" ? "0.0" : text;
};
const whole = (fraction) => Math.round(100 * fraction).toString().replace(/^-0$/, "0");
const hundredths = (number) => number.toFixed(2).replace(/^-0\.00$/, "0.00");
const count = (number) => number.toLocaleString("en-US");
const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
// Nothing where both ends read the same.
const intervalText = (interval, text = percent) =>
  interval && text(interval[0]) !== text(interval[1]) ? `${text(interval[0])} to ${text(interval[1])}` : "";
const estimateText = (estimate, text = percent) => {
  const interval = intervalText(estimate.interval, text);
  return interval ? `${text(estimate.value)} (${interval})` : text(estimate.value);
};
const duration = (seconds) => {
  if (seconds === null) return "";
  if (seconds < 60) return `${Math.round(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${String(Math.floor(seconds % 60)).padStart(2, "0")}s`;
  return `${Math.floor(seconds / 3600)}h${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}m`;
};
const steps = (number) => number >= 1e6 ? `${+(number / 1e6).toFixed(2)}M`
  : number >= 1e3 ? `${+(number / 1e3).toFixed(1)}k` : `${number}`;
const plainly = (text) => text.replaceAll("_", " ");

// An interval of fewer runs is not to be trusted: those are shown themselves.
const TRUSTED_RUNS = 5;

const tasks = data.tasks, memories = data.backbones;
const taskOf = new Map(tasks.map((task) => [task.label, task]));
const memoryOf = new Map(memories.map((memory) => [memory.label, memory]));
const isControl = (label) => (memoryOf.get(label)?.control ?? "none") !== "none";
const familyOf = (task) => taskOf.get(task)?.name ?? task;
// Of several learners a row is a memory by one of them; its label is that of the pair, "gru by ppo".
const learners = [...new Set(memories.map((memory) => memory.learner).filter(Boolean))];
const memoryName = (label) => memoryOf.get(label)?.memory ?? label;
const learnerName = (label) => memoryOf.get(label)?.learner ?? "";
// With a final success, it is evaluations of what was trained that have.
const hasDiverged = (run) => run.failure === "diverged" && run.final_success === null;
const runsOf = new Map();
for (const run of data.runs) {
  const key = JSON.stringify([run.task, run.backbone]);
  if (!runsOf.has(key)) runsOf.set(key, []);
  runsOf.get(key).push(run);
}
const runsIn = (task, memory) => runsOf.get(JSON.stringify([task, memory])) ?? [];
const tellsApart = (task) => taskOf.get(task)?.separation?.tells_apart;

// From chance to the top, 0 to 1; below chance is 0.
const fromChance = (success, task) => {
  const chance = taskOf.get(task)?.chance_success ?? 0;
  return Math.max(0, Math.min(1, (success - chance) / (1 - chance)));
};

// What is chosen stays in the address: a reload, or a link, shows the same.
const GROUPS = new Map([["learner", learnerName], ["memory", memoryName]]);  // rows under a heading each
const defaults = {family: "", memory: "", learner: "", group: learners.length > 1 ? "learner" : "none",
                  score: Object.keys(data.scores)[0] ?? "", task: "", sort: ""};
const chosen = {...defaults, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1)))};
const watchers = [];
const choose = (changes) => {
  Object.assign(chosen, changes);
  const kept = Object.entries(chosen).filter(([key, value]) => key in defaults && value !== defaults[key]);
  history.replaceState(null, "", kept.length ? `#${new URLSearchParams(kept)}` : location.pathname + location.search);
  for (const watch of watchers) watch(changes);
};
const onChoice = (keys, work) => {
  watchers.push((changes) => keys.some((key) => key in changes) && work());
  work();
};
const memoryMatches = (label) => (!chosen.learner || learnerName(label) === chosen.learner) &&
  (!chosen.memory.trim() || chosen.memory.toLowerCase().split(/[\s,]+/).filter(Boolean)
    .some((word) => memoryName(label).toLowerCase().includes(word)));
const taskMatches = (label) => !chosen.family || familyOf(label) === chosen.family;

const tooltip = element("div", {id: "tooltip", role: "tooltip", hidden: true});
const showTooltip = (place, ...content) => {
  tooltip.replaceChildren(...content);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect(), gap = 12;
  let left = place.x + gap, top = place.y + gap;
  if (left + box.width > innerWidth - 8) left = Math.max(8, place.x - box.width - gap);
  if (top + box.height > innerHeight - 8) top = Math.max(8, place.y - box.height - gap);
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${top}px`;
};
const hideTooltip = () => { tooltip.hidden = true; };
// By the pointer and by the keyboard.
const withTooltip = (target, content) => {
  target.addEventListener("pointermove", (event) => showTooltip({x: event.clientX, y: event.clientY}, ...content()));
  target.addEventListener("pointerleave", hideTooltip);
  target.addEventListener("focus", () => {
    const box = target.getBoundingClientRect();
    if (target.matches(":focus-visible")) showTooltip({x: box.right, y: box.bottom}, ...content());
  });
  target.addEventListener("blur", hideTooltip);
};
addEventListener("keydown", (event) => event.key === "Escape" && hideTooltip());
addEventListener("scroll", hideTooltip, {passive: true, capture: true});

const section = (id, title, ...children) => element("section", {id}, element("h2", {}, title), ...children);
