/* A group's history on one time axis: a row per member, generations, triggers, episodes.
 *
 * timeline(element, data) draws into the element and redraws on zoom. Times are milliseconds since 1970.
 *   data.from_ms, data.to_ms, data.dated (whether the times have a date)
 *   data.episodes    [{from_ms, to_ms, kind, title}]
 *   data.rebalances  [{from_ms, to_ms, generation, tone, failed, title}], tone is a class of page.css
 *   data.timelines   [{name, note, culprit, spans: [{from_ms, to_ms, kind, title}], marks: [{time_ms, kind, title}]}]
 *   data.frequency   [[from_ms, to_ms, rebalances]]                 optional
 *   data.lag         [[time_ms, records, of them by rebalances]]    optional
 * Wheel zooms at the pointer, dragging moves, a double click shows everything again; + - 0 and the arrow keys do the same.
 */
"use strict";

function timeline(element, data) {
  const NS = "http://www.w3.org/2000/svg";
  const RIGHT = 16, ROW = 24, AXIS = 26, BAND = 20, GENERATIONS = 22;
  const minutes = (data.frequency || []).filter(minute => minute[2] > 0);
  const hasLag = data.lag && data.lag.length > 1;
  const FREQUENCY = minutes.length ? 40 : 0, LAG = hasLag ? 84 : 0;
  const top = AXIS + (data.episodes.length ? BAND : 0) + GENERATIONS;
  const height = top + Math.max(1, data.timelines.length) * ROW + FREQUENCY + LAG + 10;
  const fullRange = [data.from_ms, Math.max(data.to_ms, data.from_ms + 1000)];
  let [from, to] = fullRange;
  let LEFT = 190;

  element.classList.add("timeline");
  element.innerHTML = "";
  const svg = node("svg", { height, role: "img", tabindex: 0, "aria-label": data.label || "Timeline of the group" });
  const hint = document.createElement("div");
  hint.className = "hint";
  hint.hidden = true;
  element.append(svg, hint);

  function node(name, attributes, ...children) {
    const created = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined) created.setAttribute(key, value);
    created.append(...children);
    return created;
  }

  function width() { return Math.max(280, element.clientWidth); }
  function x(time) { return LEFT + (time - from) / (to - from) * (width() - LEFT - RIGHT); }
  function clamp(time) { return Math.min(Math.max(time, from), to); }
  function isVisible(span) { return span.to_ms >= from && span.from_ms <= to; }

  function bar(span, y, h, attributes) {
    const left = x(clamp(span.from_ms)), right = x(clamp(span.to_ms));
    return withTitle(node("rect", { x: left, y, width: Math.max(2, right - left), height: h, rx: 3, ...attributes }), span.title);
  }

  function withTitle(created, title) {
    if (title) { created.dataset.title = title; created.append(node("title", {}, title)); }
    return created;
  }

  function ticks() {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].map(v => v)
      .concat([1, 2, 5, 10, 15, 30].map(v => v * 1e3), [1, 2, 5, 10, 15, 30].map(v => v * 6e4),
        [1, 2, 3, 6, 12].map(v => v * 36e5), [1, 2, 7, 14, 30].map(v => v * 864e5));
    const room = (width() - LEFT - RIGHT) / 90;
    const step = steps.find(s => (to - from) / s <= room) || steps[steps.length - 1];
    const times = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) times.push(at);
    return [times, step];
  }

  function clock(ms, step) {
    const text = new Date(ms).toISOString();
    if (step >= 864e5) return text.slice(0, 10);
    if (step >= 6e4) return text.slice(11, 16);
    return step >= 1e3 ? text.slice(11, 19) : text.slice(11, 23);
  }

  function draw() {
    svg.setAttribute("width", width());
    LEFT = Math.min(190, Math.round(width() * .34));
    const letters = Math.floor((LEFT - 12) / 6.8);
    svg.replaceChildren();
    const [times, step] = ticks();
    for (const at of times) {
      svg.append(node("line", { x1: x(at), x2: x(at), y1: AXIS - 6, y2: height - 8, class: "grid" }));
      svg.append(node("text", { x: x(at), y: AXIS - 10, class: "tick" }, clock(at, step)));
    }
    if (data.dated) svg.append(node("text", { x: LEFT - 34, y: AXIS - 10, class: "day" }, new Date(from).toISOString().slice(0, 10) + (LEFT < 150 ? "" : " UTC")));
    let y = AXIS;
    if (data.episodes.length) {
      for (const episode of data.episodes.filter(isVisible)) {
        svg.append(bar(episode, y, BAND - 5, { class: "episode " + episode.kind }));
        const room = x(clamp(episode.to_ms)) - x(clamp(episode.from_ms));
        if (room > 54) svg.append(node("text", { x: x(clamp(episode.from_ms)) + 6, y: y + 11, class: "episode-name" }, episode.kind));
      }
      y += BAND;
    }
    let last = -1e9;
    for (const rebalance of data.rebalances.filter(isVisible)) {
      const hue = rebalance.tone;
      svg.append(bar(rebalance, y + 14, height - y - 24, { class: "rebalance " + hue + (rebalance.failed ? " failed" : ""), rx: 0 }));
      const at = x(clamp(rebalance.from_ms));
      if (at - last > 26) {
        svg.append(withTitle(node("text", { x: at, y: y + 10, class: "generation " + hue }, String(rebalance.generation ?? "·")), rebalance.title));
        last = at;
      }
    }
    svg.append(node("text", { x: LEFT - 12, y: y + 10, class: "name faint" }, "generation"));
    data.timelines.forEach((member, index) => {
      const middle = top + index * ROW + ROW / 2;
      svg.append(node("line", { x1: LEFT, x2: width() - RIGHT, y1: middle, y2: middle, class: "row-line" }));
      const name = member.name.length > letters ? "…" + member.name.slice(1 - letters) : member.name;
      svg.append(withTitle(node("text", { x: LEFT - 12, y: middle + 4, class: "name" + (member.culprit ? " culprit" : "") }, name),
        member.note ? member.name + "\n" + member.note : member.name));
      for (const span of member.spans.filter(isVisible)) svg.append(bar(span, middle - 5, 10, { class: "span " + span.kind }));
      for (const mark of member.marks) if (mark.time_ms >= from && mark.time_ms <= to)
        svg.append(withTitle(node("circle", { cx: x(mark.time_ms), cy: middle, r: 4.5, class: "mark " + mark.kind }), mark.title));
    });
    const below = top + Math.max(1, data.timelines.length) * ROW + 8;
    if (FREQUENCY) frequency(below);
    if (hasLag) lag(below + FREQUENCY);
  }

  function frequency(y) {
    const max = Math.max(...minutes.map(minute => minute[2])), floor = y + FREQUENCY - 8;
    svg.append(node("line", { x1: LEFT, x2: width() - RIGHT, y1: floor, y2: floor, class: "floor" }));
    for (const [from_ms, to_ms, count] of minutes) {
      const span = { from_ms, to_ms, title: `${clock(from_ms, 6e4)}: ${count} rebalance${count === 1 ? "" : "s"} in this minute` };
      const h = Math.max(2, count / max * (FREQUENCY - 12));
      if (isVisible(span)) svg.append(bar(span, floor - h, h, { class: "frequency", rx: 1 }));
    }
    const name = (LEFT > 160 ? "rebalances, up to " : "up to ") + max + "/min";
    svg.append(withTitle(node("text", { x: LEFT - 12, y: y + FREQUENCY / 2 + 4, class: "name faint" }, name), "rebalances per minute"));
  }

  function lag(y) {
    const max = Math.max(1, ...data.lag.map(point => point[1])), floor = y + LAG - 10;
    const at = (time, value) => x(time).toFixed(1) + " " + (floor - value / max * (LAG - 18)).toFixed(1);
    const line = index => data.lag.map((point, i) => (i ? "L" : "M") + at(point[0], point[index])).join("");
    const area = index => line(index) + `L${x(data.lag[data.lag.length - 1][0]).toFixed(1)} ${floor}L${x(data.lag[0][0]).toFixed(1)} ${floor}Z`;
    const id = "clip" + Math.random().toString(36).slice(2), clip = { "clip-path": `url(#${id})` };
    svg.append(node("clipPath", { id }, node("rect", { x: LEFT, y, width: width() - LEFT - RIGHT, height: LAG })));
    svg.append(node("line", { x1: LEFT, x2: width() - RIGHT, y1: floor, y2: floor, class: "floor" }));
    svg.append(node("path", { d: area(1), class: "lag-all", ...clip }), node("path", { d: area(2), class: "lag-from-rebalances", ...clip }));
    svg.append(node("path", { d: line(1), class: "lag", ...clip }));
    for (let i = 1; i < data.lag.length; i++) {
      const [to_ms, all, fromRebalances] = data.lag[i], span = { from_ms: data.lag[i - 1][0], to_ms };
      const title = `${clock(to_ms, 6e4)}: ${all.toLocaleString("en")} records of lag, ${fromRebalances.toLocaleString("en")} of them caused by rebalances`;
      if (isVisible(span)) svg.append(bar({ ...span, title }, y, LAG - 10, { class: "lag-hover", rx: 0 }));
    }
    svg.append(node("text", { x: LEFT - 12, y: y + LAG / 2, class: "name faint" }, "lag, up to " + max.toLocaleString("en")));
    svg.append(node("text", { x: LEFT - 12, y: y + LAG / 2 + 14, class: "name lag-key" }, "because of rebalances"));
  }

  function showRange(nextFrom, nextTo) {
    const span = Math.min(Math.max(nextTo - nextFrom, 50), fullRange[1] - fullRange[0]);
    from = Math.min(Math.max(nextFrom, fullRange[0]), fullRange[1] - span);
    to = from + span;
    draw();
  }
  function zoom(factor, at) { showRange(at - (at - from) * factor, at + (to - at) * factor); }
  function timeAt(event) {
    const box = svg.getBoundingClientRect();
    return from + (event.clientX - box.left - LEFT) / (width() - LEFT - RIGHT) * (to - from);
  }

  svg.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && from === fullRange[0] && to === fullRange[1] && event.deltaY > 0) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
  }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", event => { drag = [event.clientX, from, to]; svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", () => { drag = null; });
  svg.addEventListener("pointermove", event => {
    if (drag) {
      const moved = (drag[0] - event.clientX) / (width() - LEFT - RIGHT) * (drag[2] - drag[1]);
      showRange(drag[1] + moved, drag[2] + moved);
      return;
    }
    const title = event.target.dataset && event.target.dataset.title;
    hint.hidden = !title;
    if (!title) return;
    hint.textContent = title;
    const box = element.getBoundingClientRect();
    hint.style.left = Math.min(event.clientX - box.left + 12, box.width - hint.offsetWidth - 8) + "px";
    hint.style.top = event.clientY - box.top + 14 + "px";
  });
  svg.addEventListener("pointerleave", () => { hint.hidden = true; });
  svg.addEventListener("dblclick", () => showRange(...fullRange));
  svg.addEventListener("keydown", event => {
    const middle = (from + to) / 2, step = (to - from) / 5;
    const act = {
      "+": () => zoom(0.7, middle), "-": () => zoom(1.4, middle), "0": () => showRange(...fullRange),
      ArrowLeft: () => showRange(from - step, to - step), ArrowRight: () => showRange(from + step, to + step),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  new ResizeObserver(draw).observe(element);
  draw();
}
