"use strict";
const $ = id => document.getElementById(id);
const colours = ["#2563c9", "#d9822b", "#1f8a4c", "#9b4dca", "#c0392b", "#0f9aa8", "#8a6d3b",
                 "#d14d8b", "#4f6d7a", "#7fb800", "#6a4c93", "#ff8fab", "#00798c", "#b08968",
               "#3d5a80", "#e0a100"];
const rateHistory = new Map();   // link, by the ids of its ends -> {label, points: [[seconds, bits per second]]}
const keep = 180;            // seconds of link rates

// What the table of status fields (net/http/peer_status_fields.cc) calls a field, or a value of it.
function label(path, value) {
  const key = value === undefined ? path : path + "=" + value;
  return (self.shoalLabels || {})[key] ?? value ?? path.split(".").pop();
}
// All values of a text, in the table's order.
function valuesOf(path) {
  const keys = Object.keys(self.shoalLabels || {}).filter(key => key.startsWith(path + "="));
  return keys.map(key => key.slice(path.length + 1));
}
// What peers say reaches the page as text nodes and numbers only: it is never parsed as HTML.
const num = x => Number.isFinite(x) ? x : 0;
const list = x => Array.isArray(x) ? x : [];
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map(c => c instanceof Node ? c : String(c ?? "")));
  return element;
}
const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const show = (id, ...children) => $(id).replaceChildren(...children);
// Only what changes is said again by a screen reader.
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}
// Through the object model: the page's policy forbids style attributes.
function coloured(element, colour, width) {
  element.style.background = colour;
  if (width) element.style.width = width;
  return element;
}
const headRow = names => el("tr", {}, ...names.map(name => el("th", {scope: "col"}, name)));
const row = cells => el("tr", {}, ...cells.map(c => el("td", {}, c)));
const keyOf = items => items.map(([name, colour]) =>
  el("span", {}, coloured(el("i"), colour), name)).flatMap(span => [span, " "]);
function bytes(n) {
  n = num(n);
  if (n <= 0) return "0 B";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const u = Math.min(units.length - 1, Math.floor(Math.log2(n) / 10));
  const v = n / 2 ** (10 * u);
  return (u === 0 ? v : v < 10 ? v.toFixed(2) : v.toFixed(1)) + " " + units[u];
}
function rate(bps) {
  bps = num(bps);
  if (bps < 1) return "–";
  if (bps >= 1e9) return (bps / 1e9).toFixed(2) + " Gbit/s";
  if (bps >= 1e6) return (bps / 1e6).toFixed(1) + " Mbit/s";
  return (bps / 1e3).toFixed(0) + " kbit/s";
}
function duration(seconds) {
  const minutes = Math.ceil(seconds / 60), hours = Math.floor(minutes / 60);
  if (minutes < 60) return `${minutes} min`;
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}
const cap = bps => bps ? rate(bps) : "no cap";
const ratio = (raw, wire) => num(wire) ? (num(raw) / wire).toFixed(1) + "×" : "–";
const mood = state => ({training: "good", finished: "good", failed: "bad", stopped: "bad",
                        gone: "bad"}[state] || "wait");

// Names are chosen by their owners: where two are alike, the id tells them apart.
function distinct(peers) {
  const count = new Map();
  for (const p of peers) count.set(p.name, (count.get(p.name) || 0) + 1);
  return peers.map(p => count.get(p.name) > 1
    ? {...p, name: `${p.name} (${String(p.id).slice(0, 8)})`} : p);
}
const pairs = value => list(value).filter(p => Array.isArray(p) && p.every(Number.isFinite));
// Scheduler and peer show the same picture: both become {title, state, ..., peers, links}.
function normalise(s) {
  if (s.run) {
    const peers = list(s.members).map(m => ({
      id: m.peer, name: m.name, stage: m.stage, pipeline: m.pipeline,
      state: m.connected === false ? "gone" : m.state, status: m.status || {}}));
    return {both: false, title: s.run.name, state: s.run.state, reason: s.run.reason, step: s.run.step,
            steps: s.run.steps, skipped: s.run.skippedSteps, lastSkipped: s.run.lastSkipped,
            loss: s.run.loss, losses: list(s.run.losses), heldOut: pairs(s.run.heldOut),
            checkpoint: s.run.checkpointStep, store: s.checkpointStore || {}, logs: s.logs || {},
            left: num(s.run.stepSeconds) * Math.max(0, num(s.run.steps) - num(s.run.step)),
            speed: s.run.samplesPerSecond, peers: distinct(peers), version: s.version};
  }
  const swarm = s.swarm || {};
  const role = s.role || {stage: -1, pipeline: -1};
  const rules = list((s.terms || {}).rules).filter(rule => !list(s.stateReasons).includes(rule));
  return {both: true, title: s.name, run: swarm.name, state: s.state, reason: list(s.stateReasons).concat(rules).join("; "),
          step: swarm.step, steps: swarm.targetStep, loss: swarm.loss, losses: list(swarm.losses),
          heldOut: pairs(swarm.heldOut),
          speed: (s.work || {}).samplesPerSecond, version: s.version,
          peers: [{id: s.peerId, name: s.name, stage: role.stage, pipeline: role.pipeline,
                   state: s.state, status: s}]};
}
const linksOf = v => v.peers.flatMap(p => list(p.status.links).filter(l => l).map(
  l => ({...l, from: p, name: (v.peers.find(q => q.id === l.peer) || l).name})));

function totals(v) {
  const sum = {};
  for (const kind of ["forward", "backward", "replica"]) {
    sum[kind] = {wire: 0, raw: 0};
    for (const p of v.peers) {
      const k = ((p.status.traffic || {})[kind]) || {};
      // Over all peers what is sent is what is received; a single peer may only receive a kind.
      sum[kind].wire += num(k.wireSentBytes) + (v.both ? num(k.wireReceivedBytes) : 0);
      sum[kind].raw += num(k.rawSentBytes) + (v.both ? num(k.rawReceivedBytes) : 0);
    }
  }
  sum.control = {wire: 0, raw: 0};
  for (const p of v.peers) {
    sum.control.wire += num((((p.status.traffic || {}).control) || {}).wireSentBytes);
  }
  return sum;
}

function checkpointText(v) {
  const step = `step ${num(v.checkpoint)}`;
  return v.store.address ? `${step}, stored ${num(v.store.step)}` : step;
}
function showCards(v, sum) {
  const wire = sum.forward.wire + sum.backward.wire + sum.replica.wire;
  const raw = sum.forward.raw + sum.backward.raw + sum.replica.raw;
  let store = 0;
  for (const p of v.peers) store += num((p.status.deltaStore || {}).bytes);
  const cards = [[label("swarm.step"), v.steps ? `${v.step || 0} / ${v.steps}` : v.step || 0],
                 [label("swarm.loss"), num(v.loss) ? v.loss.toFixed(4) : "–"],
                 [label("swarm.heldOutLoss"), v.heldOut.length ? v.heldOut.at(-1)[1].toFixed(4) : "–"],
                 [label("work.samplesPerSecond"), num(v.speed) ? v.speed.toFixed(1) : "–"],
                 [label(v.both ? "traffic.payloadBothWays" : "traffic.payloadSent"), bytes(wire)],
                 [label("traffic.forward.rawSentBytes"), bytes(raw)],
                 [label("traffic.compression"), ratio(raw, wire)], [label("deltaStore.ofAll"), bytes(store)]];
  if (!v.both) {
    cards.push(["checkpoint", checkpointText(v)],
               ["ETA", v.state === "training" && v.left ? duration(v.left) : "–"]);
  }
  if (v.both) {
    const usage = v.peers[0].status.usage || {};
    cards.push([label("usage.trainedMs"), (num(usage.trainedMs) / 3.6e6).toFixed(1) + " h"],
               [label("usage.traffic"), bytes(num(usage.sentBytes) + num(usage.receivedBytes))]);
    const gpu = v.peers[0].status.gpu || {};
    if (num(gpu.powerWatts)) cards.push([label("gpu.powerWatts"), gpu.powerWatts.toFixed(0) + " W"]);
    if (num(usage.energyJoules)) {
      cards.push([label("usage.energyJoules"), (usage.energyJoules / 3.6e6).toFixed(2) + " kWh"]);
    }
  }
  show("cards", ...cards.map(([label, value]) =>
    el("div", {class: "card"}, el("b", {}, value), el("span", {}, label))));
}

function peerBox(p) {
  const layers = list((p.status.role || {}).layers);
  const where = layers.length === 2 ? `, layers ${num(layers[0])}–${num(layers[1]) - 1}` : "";
  return el("div", {class: "peer " + mood(p.state)}, el("b", {}, p.name),
            el("small", {}, p.state + where));
}
function gapBox(stage) {
  return el("div", {class: "peer gap"}, el("b", {}, "nobody"), el("small", {}, `stage ${num(stage)}`));
}
function wireBox(from, to) {
  const find = (p, other) => list(p && p.status.links).find(
    l => l && other && l.peer === other.id && String(l.channel).startsWith("boundary"));
  const forward = find(from, to), backward = find(to, from);
  return el("div", {class: "wire"}, rate(forward && forward.upBps) + " →", el("i"),
            "← " + rate(backward && backward.upBps));
}
function showMap(v) {
  const placed = v.peers.filter(p => p.stage >= 0);
  const spares = v.peers.filter(p => !(p.stage >= 0));
  const numbers = of => [...new Set(placed.map(of))].sort((a, b) => a - b);
  const stages = numbers(p => p.stage);
  const rows = numbers(p => p.pipeline).map(d => {
    const at = stages.map(s => placed.find(p => p.pipeline === d && p.stage === s));
    const box = (p, i) => p ? peerBox(p) : gapBox(stages[i]);
    const wire = i => at[i - 1] && at[i] ? wireBox(at[i - 1], at[i]) : el("div", {class: "wire"});
    return el("div", {class: "row"}, el("span", {class: "label"}, `pipeline ${d}`),
              ...at.flatMap((p, i) => (i ? [wire(i)] : []).concat(box(p, i))));
  });
  if (spares.length) {
    rows.push(el("div", {class: "row"}, el("span", {class: "label"}, "no stage"),
                 ...spares.flatMap(p => [peerBox(p), "\u00a0"])));
  }
  show("map", ...(rows.length ? rows : ["no peers yet"]));
}

// The points in lists without a gap.
function unbroken(points, gap) {
  const parts = [[]];
  points.forEach((p, i) => {
    if (i > 0 && p[0] - points[i - 1][0] > gap) parts.push([]);
    parts.at(-1).push(p);
  });
  // A lone point is seen, too.
  return parts.map(part => part.length === 1 ? [part[0], part[0]] : part);
}
// series: [{colour, points: [[x, y]], dots: whether each point is marked, gap: the line breaks between points
// that are further apart}]; axis labels by the two formatters; range: of x, by default that of the points.
function chart(target, series, formatX, formatY, fromZero, range) {
  const w = target.clientWidth || 400, h = 170, left = 84, bottom = 20, top = 8;
  const all = series.flatMap(s => s.points);
  if (all.length < 2) {
    target.replaceChildren(svg("text", {x: 8, y: 24}, "nothing to draw yet"));
    return;
  }
  const xs = range || all.map(p => p[0]), ys = all.map(p => p[1]);
  const x0 = Math.min(...xs), x1 = Math.max(...xs);
  let y0 = fromZero ? 0 : Math.min(...ys), y1 = Math.max(...ys);
  if (y1 <= y0) y1 = y0 + 1;
  const X = x => left + (x - x0) / Math.max(x1 - x0, 1e-9) * (w - left - 8);
  const Y = y => top + (1 - (y - y0) / (y1 - y0)) * (h - bottom - top);
  const shapes = [];
  for (let i = 0; i <= 3; ++i) {
    const y = y0 + (y1 - y0) * i / 3;
    shapes.push(svg("line", {class: "grid", x1: left, x2: w - 8, y1: Y(y), y2: Y(y)}),
                svg("text", {x: left - 6, y: Y(y) + 4, "text-anchor": "end"}, formatY(y)));
  }
  shapes.push(svg("text", {x: left, y: h - 4}, formatX(x0)),
              svg("text", {x: w - 8, y: h - 4, "text-anchor": "end"}, formatX(x1)));
  for (const s of series) {
    for (const part of unbroken(s.points, s.gap || Infinity)) {
      shapes.push(svg("polyline", {
        fill: "none", stroke: s.colour, "stroke-width": 1.6, "stroke-linecap": "round",
        points: part.map(p => `${X(p[0]).toFixed(1)},${Y(p[1]).toFixed(1)}`).join(" ")}));
    }
    if (s.dots) {
      shapes.push(...s.points.map(p => svg("circle", {cx: X(p[0]), cy: Y(p[1]), r: 3, fill: s.colour})));
    }
  }
  target.replaceChildren(...shapes);
}
function showLoss(v) {
  const points = v.losses.map((l, i) => Array.isArray(l) ? l : [i, l])
    .filter(p => Number.isFinite(p[1])).map(p => [p[0] + 1, p[1]]);
  chart($("loss"), [{colour: colours[0], points}, {colour: colours[1], points: v.heldOut, dots: true}],
        x => "step " + Math.round(x), y => y.toFixed(2), false);
  show("loss-key", ...keyOf([[label("swarm.loss"), colours[0]],
                             [label("swarm.heldOutLoss"), colours[1]]]));
}
function showRates(links) {
  const now = performance.now() / 1000;
  const live = new Set();
  for (const l of links) {
    const key = JSON.stringify([l.from.id, l.peer, l.channel]);
    live.add(key);
    const label = `${l.from.name} → ${l.name}` + (String(l.channel).startsWith("boundary") ? ""
      : " (" + String(l.channel).split("/")[0] + ")");
    if (!rateHistory.has(key)) rateHistory.set(key, {label, points: []});
    const points = rateHistory.get(key).points;
    points.push([now, num(l.upBps)]);
    while (points.length && points[0][0] < now - keep) points.shift();
  }
  for (const key of rateHistory.keys()) if (!live.has(key)) rateHistory.delete(key);
  const series = [...rateHistory.values()].map(({label, points}, i) =>
    ({name: label, colour: colours[i % colours.length], points}));
  chart($("rates"), series, x => x > now - 2 ? "now" : Math.round(x - now) + " s", rate, true);
  show("rates-key", ...keyOf(series.map(s => [s.name, s.colour])));
}
function showLinks(links) {
  const head = ["links[].from", "links[].to", "links[].channel", "links[].path", "links[].upBps", "limits.upBps",
                "pacing.lineBps", "links[].ratio", "links[].sentWireBytes", "links[].receivedWireBytes", "links[].rttMs",
                "links[].queueBytes", "links[].stalled"].map(path => label(path));
  show("links", headRow(head), ...links.map(l => {
    const limits = l.from.status.limits || {};
    const cells = [l.from.name, l.name, l.channel, l.path || "–", l.connected ? rate(l.upBps) : "connecting",
                   cap(limits.upBps), rate((l.from.status.pacing || {}).lineBps), num(l.ratio) ? l.ratio.toFixed(1) + "×" : "–",
                   bytes(l.sentWireBytes), bytes(l.receivedWireBytes),
                   num(l.rttMs) ? l.rttMs.toFixed(1) + " ms" : "–", bytes(l.queueBytes),
                   ((num(l.stallRateLimitMs) + num(l.stallNetworkMs)) / 1000).toFixed(1) + " s"];
    return row(cells);
  }));
}
// What a stage's compute does or waits for, in the order of the bars, which is that of the table.
const useColours = ["#2563c9", "#1f8a4c", "#7fb800", "#6a4c93", "#f0c419", "#d9822b", "#c0392b",
                    "#8a6d3b", "#0f9aa8", "#b8bfc6"];
const uses = valuesOf("work.time[].activity").map((use, i) =>
  [use, label("work.time[].activity", use), useColours[i % useColours.length]]);
const span = ms => num(ms) >= 0.5 ? ms < 1000 ? ms.toFixed(0) + " ms" : (ms / 1000).toFixed(2) + " s" : "–";
// The order of work of a stage and its bounds; the simulation takes up to 64 micro-batches of a step.
function scheduleCells(p) {
  const w = p.status.work;
  if (!p.status.role || !w.microBatches) return Array(6).fill("–");
  return [w.schedule, w.inFlightMax, w.schedule === "1f1b" ? "–" : w.pendingWeightsMax,
          w.memoryMaxBytes ? bytes(w.memoryMaxBytes) : "–", span(w.simulatedMs), span(w.unlimitedMs)];
}
const before = new Map();   // peer -> [time, {activity: ms}] pairs of the last half minute
function showTime(v) {
  const placed = v.peers.filter(p => list((p.status.work || {}).time).some(t => t && t.ms > 0))
    .sort((a, b) => (a.pipeline - b.pipeline) || (a.stage - b.stage));
  $("time-box").style.display = placed.length ? "" : "none";
  const seen = new Set();
  const head = [label("links[].name"), "", ...["schedule", "inFlightMax", "pendingWeightsMax", "memoryMaxBytes",
                "simulatedMs", "unlimitedMs"].map(name => label("work." + name))];
  show("time", headRow(head), ...placed.map(p => {
    const now = Object.fromEntries(list(p.status.work.time).map(t => [t.activity, num(t.ms)]));
    const looks = before.get(p.id) || [];
    const sum = o => Object.values(o).reduce((a, b) => a + b, 0);
    if (looks.length && sum(now) < sum(looks[looks.length - 1])) looks.length = 0;  // a new generation
    looks.push(now);
    if (looks.length > 30) looks.shift();
    before.set(p.id, looks);
    // The last half minute; all of it while that is not known.
    const first = looks[0], total = sum(now) - sum(first);
    const share = use => total > 0 ? ((now[use] || 0) - (first[use] || 0)) / total
                                   : (now[use] || 0) / sum(now);
    const bars = uses.filter(([use]) => share(use) > 0.002).map(([use, name, colour]) => {
      seen.add(use);
      const percent = (100 * share(use)).toFixed(1);
      return coloured(el("i", {title: `${name}: ${percent} %`}), colour, percent + "%");
    });
    return el("tr", {}, el("td", {class: "peer-name"}, p.name),
              el("td", {class: "bar"}, el("b", {}, ...bars)),
              ...scheduleCells(p).map(c => el("td", {}, c)));
  }));
  show("time-key", ...keyOf(uses.filter(([use]) => seen.has(use)).map(([, ...rest]) => rest)));
}
const part = x => Number.isFinite(x)
  ? (100 * x).toFixed(x >= 0.1 ? 0 : x >= 0.01 ? 1 : 2) + " %" : "–";
function showEnds(v) {
  const ends = v.peers.flatMap(p => list(p.status.boundaries).filter(e => e).map(e => ({...e, from: p})))
    .sort((a, b) => (a.from.pipeline - b.from.pipeline) || (a.boundary - b.boundary));
  $("ends-box").style.display = ends.length ? "" : "none";
  const of = name => label("boundaries[]." + name);
  const head = [label("links[].name"), ...["boundary", "side", "mode", "relativeDelta",
                "relativeDeltaP90", "forwardError", "firstVisits", "deltaHits", "resends"].map(of)];
  // Each end says what it sends.
  show("ends", headRow(head), ...ends.map(end => {
    const sender = end.side === "sender";
    const e = sender ? end : {...end, ...end.gradients};
    const low = sender ? null : e.lowRank;
    const mode = low ? `${part(low.ratio)} low rank` : e.mode || "–";
    const cells = [e.from.name, e.boundary, label("boundaries[].side", e.side), mode,
                   part(e.relativeDelta ?? NaN), part(e.relativeDeltaP90 ?? NaN),
                   part((sender ? e.forwardError : e.backwardError) ?? NaN), e.firstVisits,
                   e.deltaHits, e.resends];
    const mark = !low && e.mode && e.mode !== "delta" ? {class: "wait"} : {};
    return el("tr", {}, ...cells.map((c, i) => el("td", i === 3 ? mark : {}, c)));
  }));
}
function showHealth(v) {
  const names = new Map();   // what to say -> the peers that say it
  for (const p of v.peers) {
    for (const h of list(p.status.health).filter(h => h)) {
      const text = `${h.text}; ${h.fix}`;
      names.set(text, [...(names.get(text) || []), p.name]);
    }
  }
  const skipped = num(v.skipped)
    ? [el("p", {}, el("b", {}, `steps skipped: ${v.skipped}; `), v.lastSkipped)] : [];
  const failure = (v.store || {}).lastFailure;
  const unstored = failure
    ? [el("p", {}, el("b", {}, "checkpoints are not copied to the store; it tries again: "), failure)] : [];
  const unlogged = (v.logs || {}).lastFailure
    ? [el("p", {}, el("b", {}, "a log is not written; it tries again: "), v.logs.lastFailure)] : [];
  show("health", ...skipped, ...unstored, ...unlogged, ...[...names].map(([text, who]) =>
    el("p", {}, el("b", {}, v.both ? "" : who.join(", ") + ": "), text)));
}
function showKinds(sum) {
  const of = name => label("traffic." + name);
  show("kinds", headRow(["kind", "payload", "forward.rawSentBytes", "forward.ratio"].map(of)),
       ...Object.entries(sum).map(([kind, k]) =>
         row([of(kind), bytes(k.wire), k.raw ? bytes(k.raw) : "–", k.raw ? ratio(k.raw, k.wire) : "–"])));
}
// Once: a link that is made anew each second cannot be reached by keyboard.
function showFoot(v) {
  if ($("foot").childElementCount) return;
  show("foot", `shoal ${v.version} · `, el("a", {href: "/api/v1/status"}, "JSON"), " · ",
       el("a", {href: "/metrics"}, "metrics"),
       v.both ? " · `shoal page` prints a link with which settings can be changed here" : "");
}
async function refresh() {
  try {
    const answer = await fetch("/api/v1/status", {cache: "no-store"});
    const v = normalise(await answer.json());
    const sum = totals(v), links = linksOf(v);
    document.title = "shoal: " + v.title;
    say("name", v.title);
    say("state", v.state);
    $("state").className = "state " + mood(v.state);
    say("reason", v.reason || "");
    showCards(v, sum); showMap(v); showLoss(v); showRates(links); showLinks(links); showKinds(sum);
    showEnds(v); showHealth(v); showTime(v);
    if (self.showPast) showPast(v);
    if (v.both && self.showPeer) showPeer(v);
    showFoot(v);
  } catch (error) {
    say("state", "no answer");
    $("state").className = "state bad";
  }
}
refresh();
setInterval(refresh, 1000);
