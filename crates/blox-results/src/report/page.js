"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const element = (name, text, kind) => {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
};

// Light or dark: the setting of the system, until the button changes it.
const dark = matchMedia("(prefers-color-scheme: dark)");
const setDark = (on) => { document.body.classList.toggle("dark", on); drawGantt(); };
$("theme").onclick = () => setDark(!document.body.classList.contains("dark"));
dark.onchange = () => setDark(dark.matches);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const counted = (n, what) => `${whole.format(n)} ${what}${n === 1 ? "" : "s"}`;
// Every time of the page has one unit.
const UNIT = data.unit;
const inUnit = (places) => {
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  return { format: (s) => format.format(s / UNIT.seconds) };
};
const FINE = UNIT.seconds === 1 ? 1 : 3;
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: FINE });
const duration = (s) => s === null || s === undefined ? "" : `${exact.format(s / UNIT.seconds)} ${UNIT.symbol}`;
// Three digits of the smallest time, at most three places.
function placesOf(times) {
  let least = Infinity;
  for (const s of times) if (s) least = Math.min(least, Math.abs(s) / UNIT.seconds);
  return least === Infinity ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(least)), 0), FINE);
}

// Rows in the order of a column; what is empty comes last either way.
function order(rows, value, up) {
  return rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === y) return a - b;
    if (x === null || x === "") return 1;
    if (y === null || y === "") return -1;
    return (x < y ? -1 : 1) * (up ? 1 : -1);
  });
}
function mark(header, th, up) {
  for (const other of header.children) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
}

// Tables of figures: their rows are in the page.
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0], header = table.tHead.rows[0];
  [...header.cells].forEach((th, column) => th.firstElementChild.onclick = () => {
    const up = th.getAttribute("aria-sort") !== "ascending";
    const rows = [...body.rows];
    const texts = rows.map((row) => row.cells[column].dataset.v ?? row.cells[column].textContent);
    const numbers = texts.every((v) => v === "" || !Number.isNaN(Number(v)));
    const value = (i) => texts[i] === "" || !numbers ? texts[i] : Number(texts[i]);
    const sorted = order(rows.map((_, i) => i), value, up);
    // An average over fewer jobs does not rank before one over all.
    const partial = (i) => rows[i].classList.contains("partial");
    for (const i of sorted.filter((i) => !partial(i))) body.append(rows[i]);
    for (const i of sorted.filter(partial)) body.append(rows[i]);
    mark(header, th, up);
  });
}

// The jobs of one scheduler, a page at a time.
const TIME = "time";
const jct = (r, i) => r.queueing[i] === null ? null : r.finish[i] - r.submit[i];
const COLUMNS = [
  ["job_id", (r, i) => r.id ? r.id[i] : r.job[i], null],
  ["number", (r, i) => r.job[i], whole],
  ["submitted", (r, i) => r.submit[i], TIME],
  ["first start", (r, i) => r.start[i], TIME],
  ["end", (r, i) => r.finish[i], TIME],
  ["JCT", jct, TIME],
  ["queueing time", (r, i) => r.queueing[i], TIME],
  ["GPUs", (r, i) => r.gpus[i], whole],
  ["duration", (r, i) => r.duration[i], TIME],
  ["preemptions", (r, i) => r.preemptions[i], whole],
  ["launches", (r, i) => r.launches[i], whole],
  ["outcome", (r, i) => data.words[r.outcome[i]], null],
  ["reason", (r, i) => data.words[r.reason[i]], null],
  ["measured", (r, i) => r.measured[i] ? "yes" : "no", null],
];
const PAGE = 100;
const jobs = { run: 0, rows: [], formats: [], sort: 0, up: true, page: 0 };
const shown = (column) => column[0] !== "number" || data.runs[jobs.run].jobs.id;
function fillJobs() {
  const r = data.runs[jobs.run].jobs, text = $("find").value.trim().toLowerCase();
  jobs.rows = r.job.map((_, i) => i);
  if (text) jobs.rows = jobs.rows.filter((i) => String(r.job[i]) === text
    || (r.id && r.id[i].toLowerCase().includes(text))
    || data.words[r.outcome[i]].includes(text)
    || data.words[r.reason[i]].toLowerCase().includes(text));
  const value = COLUMNS[jobs.sort][1];
  // Times of all columns, as precise as each column of this scheduler needs.
  jobs.formats = COLUMNS.map((c) => c[2] === TIME ? inUnit(placesOf(r.job.map((_, i) => c[1](r, i)))) : c[2]);
  order(jobs.rows, (i) => value(r, i), jobs.up);
  jobs.page = 0;
  drawJobs();
}
function drawJobs() {
  const r = data.runs[jobs.run].jobs, header = element("tr"), body = element("tbody");
  COLUMNS.forEach((column, k) => {
    if (!shown(column)) return;
    const th = element("th", undefined, column[2] ? "" : "text"), button = element("button", column[2] === TIME ? `${column[0]} (${UNIT.name})` : column[0]);
    button.onclick = () => { jobs.up = jobs.sort === k ? !jobs.up : true; jobs.sort = k; fillJobs(); };
    th.append(button);
    if (jobs.sort === k) th.setAttribute("aria-sort", jobs.up ? "ascending" : "descending");
    header.append(th);
  });
  const pages = Math.max(1, Math.ceil(jobs.rows.length / PAGE));
  for (const i of jobs.rows.slice(jobs.page * PAGE, (jobs.page + 1) * PAGE)) {
    const row = element("tr");
    for (const [k, column] of COLUMNS.entries()) {
      if (!shown(column)) continue;
      const v = column[1](r, i), format = jobs.formats[k];
      const text = format ? (v === null ? "" : format.format(v)) : v;
      const cell = element("td", text, column[2] ? "" : "text");
      if (!column[2]) cell.title = text;
      row.append(cell);
    }
    if (gantt.chosen === r.job[i]) row.className = "chosen";
    row.onclick = () => choose(r.job[i], jobs.run);
    body.append(row);
  }
  const head = element("thead");
  head.append(header);
  $("jobs").replaceChildren(head, body);
  $("where").textContent = `${counted(jobs.rows.length, "job")}, page ${jobs.page + 1} of ${pages}`;
  $("back").disabled = jobs.page === 0;
  $("next").disabled = jobs.page + 1 >= pages;
}
$("back").onclick = () => { jobs.page--; drawJobs(); };
$("next").onclick = () => { jobs.page++; drawJobs(); };
$("find").oninput = fillJobs;

// GPUs over time. The window is in seconds and rows; the canvas shows it.
const BOTTOM = 26, FONT = "11px DejaVu Sans, Verdana, sans-serif";
let LEFT = 64;
// Bars come with differences of their starts; nodes come as numbers of equal nodes.
for (const { spans } of data.runs) {
  if (!spans) continue;
  let at = 0;
  spans.start = spans.start.map((d) => at += d);
  spans.nodes = spans.nodes.flatMap(([count, gpus, type]) => Array(count).fill([gpus, data.words[type]]));
}
const nodeName = (node, type) => type ? `node ${node} (${type})` : `node ${node}`;
const gantt = { run: -1, from: 0, to: 1, top: 0, rows: 1, hover: null, chosen: null };
const canvas = $("canvas");
const withSpans = data.runs.map((r, i) => r.spans ? i : -1).filter((i) => i >= 0);
const bounds = () => { const s = data.runs[gantt.run].spans; return { end: s.end || 1, rows: s.rows }; };
function resetGantt() {
  const b = bounds();
  Object.assign(gantt, { from: 0, to: b.end, top: 0, rows: b.rows });
  const g = canvas.getContext("2d"), { nodes } = data.runs[gantt.run].spans;
  g.font = FONT;
  LEFT = 12 + Math.max(30, ...new Set(nodes.map(([, type]) => g.measureText(nodeName(nodes.length - 1, type)).width)));
  // Half of a narrow chart is for bars.
  LEFT = Math.min(LEFT, canvas.clientWidth / 2);
  drawGantt();
}
function clampGantt() {
  const b = bounds();
  const span = Math.min(Math.max(gantt.to - gantt.from, Math.min(1, b.end)), b.end);
  gantt.from = Math.min(Math.max(gantt.from, 0), b.end - span);
  gantt.to = gantt.from + span;
  gantt.rows = Math.min(Math.max(gantt.rows, 1), b.rows);
  gantt.top = Math.min(Math.max(gantt.top, 0), b.rows - gantt.rows);
}
function place() {
  const w = canvas.clientWidth - LEFT, h = canvas.clientHeight - BOTTOM;
  return {
    w, h,
    x: (t) => LEFT + (t - gantt.from) / (gantt.to - gantt.from) * w,
    y: (row) => (row - gantt.top) / gantt.rows * h,
  };
}
// A round number of units that is at least `least` seconds.
function step(least) {
  const power = 10 ** Math.floor(Math.log10(least / UNIT.seconds));
  return [1, 2, 5, 10].map((m) => m * power * UNIT.seconds).find((s) => s >= least * (1 - 1e-9));
}
function drawGantt() {
  if (gantt.run < 0) return;
  clampGantt();
  const s = data.runs[gantt.run].spans, p = place(), g = canvas.getContext("2d");
  const scale = devicePixelRatio || 1, style = getComputedStyle(document.body);
  const colour = (name) => style.getPropertyValue(name).trim();
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.fillStyle = colour("--card");
  g.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  g.font = FONT;
  g.strokeStyle = colour("--grid");
  g.fillStyle = colour("--ink");
  g.lineWidth = 1;
  const unit = step((gantt.to - gantt.from) / Math.max(1, p.w / 90));
  g.textAlign = "center";
  for (let k = Math.ceil(gantt.from / unit - 1e-9) + 0; k * unit <= gantt.to; k++) {
    const t = k * unit;
    const x = Math.round(p.x(t)) + 0.5;
    g.beginPath(); g.moveTo(x, 0); g.lineTo(x, p.h + 4); g.stroke();
    const name = moment(t, unit), half = g.measureText(name).width / 2;
    g.fillText(name, Math.min(x, LEFT + p.w - half), p.h + 17);
  }
  g.save();
  g.beginPath(); g.rect(LEFT, 0, p.w, p.h); g.clip();
  if (s.shades) {
    const lines = s.shades.length, cells = s.shades[0].length;
    g.fillStyle = colour("--soft");
    s.shades.forEach((line, row) => {
      const y = p.y(row * s.per_row), h = p.y((row + 1) * s.per_row) - y;
      for (let c = 0; c < cells; c++) {
        const shade = line.charCodeAt(c) - 48;
        if (!shade) continue;
        g.globalAlpha = shade / 9 * 0.45;
        const x = p.x(c / cells * s.end);
        g.fillRect(x, y, p.x((c + 1) / cells * s.end) - x + 0.3, h);
      }
    });
  }
  const mark = gantt.hover ?? gantt.chosen;
  const gap = p.h / gantt.rows > 5 ? 1 : 0;
  const bar = (i) => {
    const a = Math.max(p.x(s.start[i]), LEFT - 2), b = Math.min(p.x(s.start[i] + s.length[i]), LEFT + p.w + 2);
    const y = p.y(s.first[i]);
    g.fillRect(a, y, Math.max(b - a - gap, 0.5), p.y(s.first[i] + s.count[i]) - y - gap);
  };
  const late = [];
  for (let i = 0; i < s.job.length; i++) {
    if (s.start[i] > gantt.to || s.start[i] + s.length[i] < gantt.from) continue;
    if (s.first[i] > gantt.top + gantt.rows || s.first[i] + s.count[i] < gantt.top) continue;
    if (s.job[i] === mark) { late.push(i); continue; }
    g.globalAlpha = mark === null ? 1 : 0.3;
    g.fillStyle = data.colours[s.colour.charCodeAt(i) - 97];
    bar(i);
  }
  g.globalAlpha = 1;
  g.fillStyle = colour("--ink");
  for (const i of late) bar(i);
  g.restore();
  g.textAlign = "right";
  g.fillStyle = colour("--ink");
  let first = 0, free = 0;
  s.nodes.forEach(([gpus, type], node) => {
    const y = p.y(first), middle = p.y(first + gpus / 2);
    if (y >= 0 && y <= p.h && p.h / gantt.rows * gpus > 4) {
      g.strokeStyle = colour("--grid");
      g.beginPath(); g.moveTo(LEFT, y); g.lineTo(LEFT + p.w, y); g.stroke();
    }
    if (middle >= free + 6 && middle <= p.h) { g.fillText(nodeName(node, type), LEFT - 6, middle + 4, LEFT - 8); free = middle + 6; }
    first += gpus;
  });
  g.strokeStyle = colour("--ink");
  g.beginPath(); g.moveTo(LEFT + 0.5, 0); g.lineTo(LEFT + 0.5, p.h + 0.5); g.lineTo(LEFT + p.w, p.h + 0.5); g.stroke();
  $("window").textContent = `${duration(gantt.from)} to ${duration(gantt.to)}`
    + (gantt.chosen === null ? "" : `, job ${nameOf(gantt.chosen)} is marked`);
}
// A moment, as exact as its neighbours are near.
function moment(t, unit) {
  const places = Math.min(Math.max(-Math.floor(Math.log10(unit / UNIT.seconds) + 1e-9), 0), 6);
  return `${inUnit(places).format(t)} ${UNIT.symbol}`;
}
function zoom(factor, x, rows, y) {
  const at = gantt.from + (gantt.to - gantt.from) * x;
  gantt.from = at - (at - gantt.from) * factor;
  gantt.to = at + (gantt.to - at) * factor;
  const line = gantt.top + gantt.rows * y;
  gantt.rows *= rows;
  gantt.top = line - gantt.rows * y;
  drawGantt();
}
function under(event) {
  const box = canvas.getBoundingClientRect(), p = place(), s = data.runs[gantt.run].spans;
  const t = gantt.from + (event.clientX - box.left - LEFT) / p.w * (gantt.to - gantt.from);
  const row = gantt.top + (event.clientY - box.top) / p.h * gantt.rows;
  // Half a pixel beside a thin bar is good enough.
  const slack = (gantt.to - gantt.from) / p.w * 0.75;
  for (let i = s.job.length - 1; i >= 0; i--) {
    if (row >= s.first[i] && row < s.first[i] + s.count[i]
      && t >= s.start[i] - slack && t <= s.start[i] + s.length[i] + slack) return i;
  }
  return -1;
}
function nameOf(job) {
  const r = data.runs[gantt.run].jobs, at = r.job.indexOf(job);
  return r.id && at >= 0 ? r.id[at] : job;
}
function story(i) {
  const run = data.runs[gantt.run], s = run.spans, r = run.jobs, job = s.job[i];
  const lines = [`job ${job}`];
  const at = r.job.indexOf(job);
  if (at >= 0) {
    if (r.id) lines[0] = `job ${r.id[at]} (number ${job})`;
    lines.push(`${counted(r.gpus[at], "GPU")} for ${duration(r.duration[at])}, submitted at ${duration(r.submit[at])}`);
    if (jct(r, at) !== null) lines.push(`JCT ${duration(jct(r, at))}, of that queueing ${duration(r.queueing[at])}`);
    else lines.push(data.words[r.outcome[at]]);
    lines.push(`preempted ${counted(r.preemptions[at], "time")}, launched ${counted(r.launches[at], "time")}`);
  }
  lines.push(`here: ${duration(s.start[i])} to ${duration(s.start[i] + s.length[i])} (${duration(s.length[i])})`);
  return lines.join("\n");
}
let grip = null;
canvas.onpointerdown = (e) => { canvas.setPointerCapture(e.pointerId); grip = { x: e.clientX, y: e.clientY, moved: false }; };
canvas.onpointerup = (e) => {
  if (grip && !grip.moved) { const i = under(e); choose(i < 0 ? null : data.runs[gantt.run].spans.job[i], -1); }
  grip = null;
};
canvas.onpointermove = (e) => {
  const p = place(), tip = $("tip");
  if (grip) {
    const dx = e.clientX - grip.x, dy = e.clientY - grip.y;
    if (grip.moved || Math.abs(dx) + Math.abs(dy) > 3) {
      const t = dx / p.w * (gantt.to - gantt.from);
      gantt.from -= t; gantt.to -= t; gantt.top -= dy / p.h * gantt.rows;
      Object.assign(grip, { x: e.clientX, y: e.clientY, moved: true });
      tip.hidden = true;
      drawGantt();
    }
    return;
  }
  const i = under(e), job = i < 0 ? null : data.runs[gantt.run].spans.job[i];
  if (job !== gantt.hover) { gantt.hover = job; drawGantt(); }
  tip.hidden = i < 0;
  if (i < 0) return;
  tip.textContent = story(i);
  tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
};
canvas.onpointerleave = () => { $("tip").hidden = true; if (gantt.hover !== null) { gantt.hover = null; drawGantt(); } };
canvas.onwheel = (e) => {
  // Only once it was clicked, so that the page scrolls past it.
  if (document.activeElement !== canvas) return;
  e.preventDefault();
  const box = canvas.getBoundingClientRect(), p = place(), f = Math.exp((e.deltaY || e.deltaX) * 0.002);
  zoom(e.shiftKey ? 1 : f, (e.clientX - box.left - LEFT) / p.w, e.shiftKey ? f : 1, (e.clientY - box.top) / p.h);
};
canvas.onkeydown = (e) => {
  const t = (gantt.to - gantt.from) / 8, keys = {
    "+": () => zoom(0.7, 0.5, 1, 0), "-": () => zoom(1 / 0.7, 0.5, 1, 0), 0: resetGantt,
    ArrowLeft: () => { gantt.from -= t; gantt.to -= t; drawGantt(); },
    ArrowRight: () => { gantt.from += t; gantt.to += t; drawGantt(); },
    ArrowUp: () => { gantt.top -= gantt.rows / 8; drawGantt(); },
    ArrowDown: () => { gantt.top += gantt.rows / 8; drawGantt(); },
  };
  if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
};
$("in").onclick = () => zoom(0.5, 0.5, 1, 0);
$("out").onclick = () => zoom(2, 0.5, 1, 0);
$("taller").onclick = () => zoom(1, 0, 0.5, 0.5);
$("flatter").onclick = () => zoom(1, 0, 2, 0.5);
$("all").onclick = resetGantt;
onresize = () => drawGantt();

// Marks a job; from the table, also shows where it ran.
function choose(job, run) {
  gantt.chosen = job;
  if (run >= 0 && data.runs[run].spans) {
    if (run !== gantt.run) { gantt.run = run; $("gantt-run").value = run; resetGantt(); }
    const s = data.runs[run].spans;
    let [from, to] = [Infinity, -Infinity];
    s.job.forEach((j, i) => { if (j === job) { from = Math.min(from, s.start[i]); to = Math.max(to, s.start[i] + s.length[i]); } });
    if (from < to) {
      const room = (to - from) * 0.2;
      Object.assign(gantt, { from: from - room, to: to + room });
      canvas.scrollIntoView({ block: "nearest" });
    }
  }
  drawGantt();
  drawJobs();
}
function fillChoice(select, runs, change) {
  for (const i of runs) { const o = element("option", data.runs[i].name); o.value = i; select.append(o); }
  select.onchange = () => change(Number(select.value));
}
fillChoice($("jobs-run"), data.runs.map((_, i) => i), (i) => { jobs.run = i; fillJobs(); });
fillChoice($("gantt-run"), withSpans, (i) => { gantt.run = i; $("rule").textContent = data.runs[i].spans.rule; resetGantt(); });
if (withSpans.length) {
  gantt.run = withSpans[0];
  $("rule").textContent = data.runs[gantt.run].spans.rule;
  $("gantt").hidden = false;
  resetGantt();
} else {
  $("no-gantt").hidden = false;
}
if (data.runs.length) fillJobs();
else $("jobs-card").hidden = $("all-jobs").hidden = $("gpus").hidden = $("no-gantt").hidden = true;
setDark(dark.matches);
document.body.dataset.ready = "yes";
