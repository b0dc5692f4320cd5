// What only a peer's page has: settings that its owner may change, a picture to share.
"use strict";

// ---- settings, for who came by the link of `shoal page` ----

// The token stands behind "#", which no browser sends or logs; from there it goes at once, so that
// nobody copies it with the address. It is kept for this tab.
let token = "";
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (given) sessionStorage.setItem("shoal-token", given);
    token = given || sessionStorage.getItem("shoal-token") || "";
  } catch (error) {
    token = given || "";
  }
  if (given) window.history.replaceState(null, "", location.pathname);
}
function forgetToken() {
  token = "";
  try {
    sessionStorage.removeItem("shoal-token");
  } catch (error) { /* it was never kept */ }
}
// {good, code, text, json}: what shoald says to an order.
async function order(command, values = {}) {
  try {
    const answer = await fetch("/settings", {
      method: "POST", cache: "no-store", credentials: "omit",
      headers: {"Content-Type": "application/json", "X-Shoal-Token": token},
      body: JSON.stringify({[command]: values})});
    if (!answer.ok) return {good: false, code: answer.status, text: (await answer.text()).trim()};
    const json = await answer.json();
    return {good: true, code: answer.status, text: json.message || "", json};
  } catch (error) {
    return {good: false, code: 0, text: "shoald does not answer"};
  }
}
function told(answer) {
  $("settings-said").className = answer.good ? "good" : "bad";
  say("settings-said", answer.text);
}
function settingField(setting) {
  const id = "set-" + setting.name;
  const until = setting.until ? `Until ${clock(setting.until)}. ` : "";
  const input = el("input", {id, type: "text", name: setting.name, value: setting.value,
                             autocomplete: "off", spellcheck: "false", "aria-describedby": id + "-help"});
  return el("div", {class: "field"}, el("label", {for: id}, setting.name.replace("_", " ")), input,
            el("small", {id: id + "-help"}, until + setting.help));
}
function showSettings(settings) {
  const lasts = el("select", {id: "set-for"}, ...[["", "until changed again"], ["1h", "for 1 hour"],
    ["8h", "for 8 hours"], ["24h", "for a day"]].map(([value, text]) => el("option", {value}, text)));
  show("settings", ...settings.map(settingField),
       el("div", {class: "field"}, el("label", {for: "set-for"}, "changes hold"), lasts),
       el("div", {class: "buttons"}, el("button", {type: "submit"}, "Save changes"),
          el("small", {}, "“default” takes a value from the settings file again")));
  $("settings-box").hidden = $("pauses").hidden = false;
}
async function loadSettings() {
  if (!token) return;
  const answer = await order("settings");
  if (answer.good) return showSettings(list(answer.json.settings));
  if (answer.code === 403) forgetToken();
  $("settings-box").hidden = answer.code === 0;
  $("pauses").hidden = true;
  show("settings");
  told(answer);
}
async function saveSettings(event) {
  event.preventDefault();
  const inputs = [...$("settings").querySelectorAll("input")];
  const changed = inputs.filter(input => input.value.trim() !== input.defaultValue);
  for (const input of inputs) input.removeAttribute("aria-invalid");
  if (!changed.length) return told({good: true, text: "nothing was changed"});
  const values = Object.fromEntries(changed.map(input => [input.name, input.value.trim()]));
  if ($("set-for").value) values.for = $("set-for").value;
  const answer = await order("set", values);
  if (answer.good) {
    await loadSettings();
  } else {
    const wrong = changed.find(input => answer.text.startsWith(input.name + ":"));
    if (wrong) {
      wrong.setAttribute("aria-invalid", "true");
      wrong.focus();
    }
  }
  told(answer);
}
async function command(name, values) {
  told(await order(name, values));
  refresh();
}

// ---- a picture to share: figures and the run's name, no address, no key, no link ----

let cardTold = "";
function cardFigures(v) {
  const usage = v.peers[0].status.usage || {};
  const hours = num(usage.trainedMs) / 3.6e6;
  return [[hours < 10 ? hours.toFixed(1) : hours.toFixed(0), "hours trained"],
          [num(usage.microBatches).toLocaleString("en"), "micro-batches"],
          [bytes(num(usage.sentBytes) + num(usage.receivedBytes)), "sent and received"]];
}
function fitted(draw, text, size, weight, width) {
  do {
    draw.font = `${weight} ${size}px system-ui, sans-serif`;
    size -= 2;
  } while (draw.measureText(text).width > width && size > 20);
  return text;
}
function showCard(v) {
  const run = String(v.run || "").slice(0, 80), figures = cardFigures(v);
  const date = new Date().toLocaleDateString("en", {day: "numeric", month: "long", year: "numeric"});
  const lead = "My computer trains a language model together with others";
  const text = [lead, run && `run: ${run}`, ...figures.map(f => f.join(" ")), date].filter(t => t).join(", ");
  $("card-box").hidden = false;
  if (text === cardTold) return;
  cardTold = text;
  const canvas = $("card"), draw = canvas.getContext("2d");
  canvas.setAttribute("aria-label", text);
  draw.fillStyle = "#10202f";
  draw.fillRect(0, 0, 1200, 630);
  draw.fillStyle = "#6aa2f7";
  draw.fillRect(0, 0, 1200, 12);
  draw.fillText(fitted(draw, "shoal", 44, 700, 600), 72, 104);
  draw.fillStyle = "#e6eaf0";
  draw.fillText(fitted(draw, lead, 42, 600, 1056), 72, 196);
  draw.fillStyle = "#93a0b0";
  if (run) draw.fillText(fitted(draw, `run: ${run}`, 34, 400, 1056), 72, 254);
  figures.forEach(([figure, what], i) => {
    const left = 72 + i * 356;
    draw.fillStyle = "#1b3147";
    draw.fillRect(left, 318, 332, 176);
    draw.fillStyle = "#e6eaf0";
    draw.fillText(fitted(draw, figure, 66, 700, 284), left + 24, 410);
    draw.fillStyle = "#93a0b0";
    draw.fillText(fitted(draw, what, 28, 400, 284), left + 24, 462);
  });
  draw.fillText(fitted(draw, date, 28, 400, 600), 72, 570);
}
function saveCard() {
  $("card").toBlob(picture => {
    const link = el("a", {href: URL.createObjectURL(picture), download: "shoal.png"});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }, "image/png");
}

// Called with every status of a peer.
let begun = false;
function showPeer(v) {
  showCard(v);
  if (begun) return;
  begun = true;
  loadSettings();
}
takeToken();
addEventListener("hashchange", () => {
  takeToken();
  loadSettings();
});
$("settings").addEventListener("submit", saveSettings);
$("pause-hour").addEventListener("click", () => command("pause", {for: "1h"}));
$("pause").addEventListener("click", () => command("pause"));
$("resume").addEventListener("click", () => command("resume"));
$("card-save").addEventListener("click", saveCard);
