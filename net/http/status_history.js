// What peer or run did over hours and days, and what happened to the run.
"use strict";

const spans = [["1h", "1 hour", 3.6e6], ["24h", "24 hours", 86.4e6], ["7d", "7 days", 604.8e6]];
let spanShown = spans[0], shown = null;   // shown: the history that was loaded last
let ofRun = false;                        // whether this is the organiser's page
const clock = ms => new Date(ms).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});
function moment(ms) {
  if (Date.now() - ms < 60000) return "now";
  const date = new Date(ms);
  if (spanShown[0] === "1h") return clock(ms);
  if (spanShown[0] === "24h") return date.toLocaleDateString([], {weekday: "short"}) + " " + clock(ms);
  return date.toLocaleDateString([], {weekday: "short", day: "numeric", month: "short"});
}
async function loadHistory() {
  const asked = spanShown;
  let answer;
  try {
    const response = await fetch("/history?span=" + asked[0], {cache: "no-store"});
    if (!response.ok) return;
    answer = await response.json();
  } catch (error) {
    return;  // the next look may find it
  }
  if (asked !== spanShown) return;
  shown = answer;
  $("history-box").hidden = false;
  showHistory();
}
function showHistory() {
  if (!shown) return;
  const period = num(shown.periodMs) || 1, now = Date.now();
  const points = list(shown.points).filter(p => Array.isArray(p) && num(p[0]) >= now - spanShown[2]);
  // What has not run for long fills the chart, too.
  const first = Math.min(points.length ? num(points[0][0]) : now, now - 10 * period);
  const range = [Math.max(first, now - spanShown[2]), now];
  const of = make => points.filter(p => Number.isFinite(make(p))).map(p => [p[0] + period, make(p)]);
  const sent = [ofRun ? "sent by all peers" : "sent", "#2563c9", p => p[1] * 8000 / period];
  // What all peers sent is what they received.
  const rates = ofRun ? [sent] : [sent, ["received", "#d9822b", p => p[2] * 8000 / period]];
  const one = (colour, make, gap = 1.5) => ({colour, points: of(make), gap: gap * period});
  chart($("moved"), rates.map(([, colour, make]) => one(colour, make)), moment, rate, true, range);
  show("moved-key", ...keyOf(rates));
  chart($("done"), [one("#1f8a4c", p => p[3] * 60000 / period)], moment, y => y.toFixed(1), true, range);
  // Steps may take longer than a period.
  chart($("losses"), [one("#9b4dca", p => p[5] ?? NaN, 6)], moment, y => y.toFixed(2), false, range);
  const sum = i => points.reduce((all, p) => all + num(p[i]), 0);
  say("moved-title", ofRun ? `Peers sent each other ${bytes(sum(1))} in ${spanShown[1]}`
    : `Sent ${bytes(sum(1))} and received ${bytes(sum(2))} in ${spanShown[1]}`);
  say("done-title", `Micro-batches per minute; ${sum(3)} in ${spanShown[1]}`);
  const losses = of(p => p[5] ?? NaN);
  say("losses-title", losses.length ? `Loss, now ${losses.at(-1)[1].toFixed(4)}` : "Loss");
}
function spanButton(span) {
  const button = el("button", {type: "button", "aria-pressed": String(span === spanShown)}, span[1]);
  button.addEventListener("click", () => {
    spanShown = span;
    shown = null;
    for (const other of $("spans").children) other.setAttribute("aria-pressed", String(other === button));
    loadHistory();
  });
  return button;
}

// ---- events of the run, in short; `shoal swarm events` says more ----

const eventMoods = {ended: "wait", left: "wait", skipped: "bad", paused: "wait", joined: "good",
                    finished: "good"};
function eventText(e) {
  const step = `step ${num(e.step)}`, why = e.reason ? `: ${e.reason}` : "";
  const who = e.peer ? e.name || String(e.peer).slice(0, 8) : "";
  switch (e.kind) {
    case "generation": {
      const lost = num(e.stepsLost) ? `${num(e.stepsLost)} steps trained again` : "no step lost";
      const pause = Number.isFinite(e.secondsWithoutStep)
        ? `, ${e.secondsWithoutStep.toFixed(1)} s without a step` : "";
      return `generation ${num(e.generation)} from ${step}: `
        + (e.stepsBefore === "none" ? "the first" : lost + pause);
    }
    case "ended": return `generation ${num(e.generation)} before ${step}${why}`;
    case "counting": return `from ${step} on pipelines ${list(e.pipelines).map(num).join(", ")}${why}`;
    case "skipped": return step + why;
    case "finished": return `after ${num(e.step)} steps`;
    case "scheduler": return "started again";
    case "continued": return `${step} went on, nothing is lost`;
    case "restored": return `from a copy of the checkpoint of ${step}`;
    default: return who + why;
  }
}
async function loadEvents() {
  let answer;
  try {
    const response = await fetch("/events", {cache: "no-store"});
    if (!response.ok) return;
    answer = await response.json();
  } catch (error) {
    return;  // the next look may find it
  }
  const events = list(answer.events).filter(e => e).reverse();
  $("events-box").hidden = events.length === 0;
  const time = e => Number.isFinite(e.time)
    ? new Date(e.time).toLocaleString([], {dateStyle: "short", timeStyle: "medium"}) : "–";
  show("events", headRow(["time", "event", ""]), ...events.map(e => el("tr", {}, el("td", {}, time(e)),
       el("td", {class: eventMoods[e.kind] || ""}, e.kind), el("td", {class: "long"}, eventText(e)))));
}

// Called with every status.
let looking = false;
function showPast(v) {
  if (looking) return;
  looking = true;
  ofRun = !v.both;
  show("spans", ...spans.map(spanButton));
  loadHistory();
  setInterval(loadHistory, 30000);
  if (!ofRun) return;
  loadEvents();
  setInterval(loadEvents, 5000);
}
new ResizeObserver(showHistory).observe($("history-box"));
