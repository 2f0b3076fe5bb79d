/* A group's history on one time axis: a lane per member, generations, triggers, episodes.
 *
 * timeline(element, data) draws into the element and redraws on zoom. Times are milliseconds since 1970.
 *   data.from_ms, data.to_ms
 *   data.episodes    [{from_ms, to_ms, kind, title}]
 *   data.rebalances  [{from_ms, to_ms, generation, trigger, culprit, failed, title}]
 *   data.lanes       [{name, note, culprit, spans: [{from_ms, to_ms, kind, title}], marks: [{time_ms, kind, title}]}]
 *   data.frequency   [[from_ms, to_ms, rebalances]]                 optional
 *   data.lag         [[time_ms, records, of them by rebalances]]    optional
 * Wheel zooms at the pointer, dragging moves, a double click shows everything again; + - 0 and the arrow keys do the same.
 */
"use strict";

const TRIGGER_HUES = {
  poll_timeout: "slow", rebalance_timeout: "slow", sync_timeout: "slow",
  session_timeout: "dead",
  member_join: "come", member_leave: "go", admin_removal: "go",
  instance_conflict: "fight", static_changed: "fight", protocol_change: "fight",
  subscription_change: "data", pattern_matched: "data", partitions_added: "data", topic_deleted: "data",
  leader_rejoin: "data", cooperative_followup: "follow", coordinator_failover: "broker",
};

function timeline(element, data) {
  const NS = "http://www.w3.org/2000/svg";
  const RIGHT = 16, LANE = 24, AXIS = 26, BAND = 20, GENERATIONS = 22;
  const often = (data.frequency || []).filter(one => one[2] > 0);
  const hasLag = data.lag && data.lag.length > 1;
  const OFTEN = often.length ? 40 : 0, LAG = hasLag ? 84 : 0;
  const top = AXIS + (data.episodes.length ? BAND : 0) + GENERATIONS;
  const height = top + Math.max(1, data.lanes.length) * LANE + OFTEN + LAG + 10;
  const whole = [data.from_ms, Math.max(data.to_ms, data.from_ms + 1000)];
  let [from, to] = whole;
  let LEFT = 190;

  element.classList.add("timeline");
  element.innerHTML = "";
  const svg = node("svg", { height, role: "img", tabindex: 0, "aria-label": data.label || "Timeline of the group" });
  const hint = document.createElement("div");
  hint.className = "hint";
  hint.hidden = true;
  element.append(svg, hint);

  function node(name, attributes, ...children) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function width() { return Math.max(280, element.clientWidth); }
  function x(time) { return LEFT + (time - from) / (to - from) * (width() - LEFT - RIGHT); }
  function clamp(time) { return Math.min(Math.max(time, from), to); }
  function seen(one) { return one.to_ms >= from && one.from_ms <= to; }

  function bar(one, y, h, attributes) {
    const left = x(clamp(one.from_ms)), right = x(clamp(one.to_ms));
    return withTitle(node("rect", { x: left, y, width: Math.max(2, right - left), height: h, rx: 3, ...attributes }), one.title);
  }

  function withTitle(made, title) {
    if (title) { made.dataset.title = title; made.append(node("title", {}, title)); }
    return made;
  }

  function ticks() {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].map(v => v)
      .concat([1, 2, 5, 10, 15, 30].map(v => v * 1e3), [1, 2, 5, 10, 15, 30].map(v => v * 6e4),
        [1, 2, 3, 6, 12].map(v => v * 36e5), [1, 2, 7, 14, 30].map(v => v * 864e5));
    const room = (width() - LEFT - RIGHT) / 90;
    const step = steps.find(s => (to - from) / s <= room) || steps[steps.length - 1];
    const found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
    return [found, step];
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
    const [found, step] = ticks();
    for (const at of found) {
      svg.append(node("line", { x1: x(at), x2: x(at), y1: AXIS - 6, y2: height - 8, class: "grid" }));
      svg.append(node("text", { x: x(at), y: AXIS - 10, class: "tick" }, clock(at, step)));
    }
    svg.append(node("text", { x: LEFT - 34, y: AXIS - 10, class: "day" }, new Date(from).toISOString().slice(0, 10) + (LEFT < 150 ? "" : " UTC")));
    let y = AXIS;
    if (data.episodes.length) {
      for (const one of data.episodes.filter(seen)) {
        svg.append(bar(one, y, BAND - 5, { class: "episode " + one.kind }));
        const room = x(clamp(one.to_ms)) - x(clamp(one.from_ms));
        if (room > 54) svg.append(node("text", { x: x(clamp(one.from_ms)) + 6, y: y + 11, class: "episode-name" }, one.kind));
      }
      y += BAND;
    }
    let last = -1e9;
    for (const one of data.rebalances.filter(seen)) {
      const hue = TRIGGER_HUES[one.trigger] || "other";
      svg.append(bar(one, y + 14, height - y - 24, { class: "round " + hue + (one.failed ? " failed" : ""), rx: 0 }));
      const at = x(clamp(one.from_ms));
      if (at - last > 26) {
        svg.append(withTitle(node("text", { x: at, y: y + 10, class: "generation " + hue }, String(one.generation ?? "·")), one.title));
        last = at;
      }
    }
    svg.append(node("text", { x: LEFT - 12, y: y + 10, class: "name faint" }, "generation"));
    data.lanes.forEach((lane, index) => {
      const middle = top + index * LANE + LANE / 2;
      svg.append(node("line", { x1: LEFT, x2: width() - RIGHT, y1: middle, y2: middle, class: "lane" }));
      const name = lane.name.length > letters ? "…" + lane.name.slice(1 - letters) : lane.name;
      svg.append(withTitle(node("text", { x: LEFT - 12, y: middle + 4, class: "name" + (lane.culprit ? " culprit" : "") }, name),
        lane.note ? lane.name + "\n" + lane.note : lane.name));
      for (const one of lane.spans.filter(seen)) svg.append(bar(one, middle - 5, 10, { class: "span " + one.kind }));
      for (const one of lane.marks) if (one.time_ms >= from && one.time_ms <= to)
        svg.append(withTitle(node("circle", { cx: x(one.time_ms), cy: middle, r: 4.5, class: "mark " + one.kind }), one.title));
    });
    const below = top + Math.max(1, data.lanes.length) * LANE + 8;
    if (OFTEN) frequency(below);
    if (hasLag) lag(below + OFTEN);
  }

  function frequency(y) {
    const most = Math.max(...often.map(one => one[2])), floor = y + OFTEN - 8;
    svg.append(node("line", { x1: LEFT, x2: width() - RIGHT, y1: floor, y2: floor, class: "floor" }));
    for (const [from_ms, to_ms, count] of often) {
      const one = { from_ms, to_ms, title: `${clock(from_ms, 6e4)}: ${count} rebalance${count === 1 ? "" : "s"} in this minute` };
      const h = Math.max(2, count / most * (OFTEN - 12));
      if (seen(one)) svg.append(bar(one, floor - h, h, { class: "often", rx: 1 }));
    }
    svg.append(node("text", { x: LEFT - 12, y: y + OFTEN / 2 + 4, class: "name faint" }, (LEFT < 190 ? "a minute, ≤ " : "rebalances a minute, up to ") + most));
  }

  function lag(y) {
    const most = Math.max(1, ...data.lag.map(one => one[1])), floor = y + LAG - 10;
    const at = (time, value) => x(time).toFixed(1) + " " + (floor - value / most * (LAG - 18)).toFixed(1);
    const line = index => data.lag.map((one, i) => (i ? "L" : "M") + at(one[0], one[index])).join("");
    const area = index => line(index) + `L${x(data.lag[data.lag.length - 1][0]).toFixed(1)} ${floor}L${x(data.lag[0][0]).toFixed(1)} ${floor}Z`;
    const id = "clip" + Math.random().toString(36).slice(2), clip = { "clip-path": `url(#${id})` };
    svg.append(node("clipPath", { id }, node("rect", { x: LEFT, y, width: width() - LEFT - RIGHT, height: LAG })));
    svg.append(node("line", { x1: LEFT, x2: width() - RIGHT, y1: floor, y2: floor, class: "floor" }));
    svg.append(node("path", { d: area(1), class: "lag-all", ...clip }), node("path", { d: area(2), class: "lag-rounds", ...clip }));
    svg.append(node("path", { d: line(1), class: "lag", ...clip }));
    for (let i = 1; i < data.lag.length; i++) {
      const [to_ms, all, rounds] = data.lag[i], one = { from_ms: data.lag[i - 1][0], to_ms };
      const title = `${clock(to_ms, 6e4)}: ${all.toLocaleString("en")} records of lag, ${rounds.toLocaleString("en")} of them caused by rebalances`;
      if (seen(one)) svg.append(bar({ ...one, title }, y, LAG - 10, { class: "feel", rx: 0 }));
    }
    svg.append(node("text", { x: LEFT - 12, y: y + LAG / 2, class: "name faint" }, "behind, up to " + most.toLocaleString("en")));
    svg.append(node("text", { x: LEFT - 12, y: y + LAG / 2 + 14, class: "name lag-key" }, "because of rebalances"));
  }

  function look(nextFrom, nextTo) {
    const span = Math.min(Math.max(nextTo - nextFrom, 50), whole[1] - whole[0]);
    from = Math.min(Math.max(nextFrom, whole[0]), whole[1] - span);
    to = from + span;
    draw();
  }
  function zoom(factor, at) { look(at - (at - from) * factor, at + (to - at) * factor); }
  function timeAt(event) {
    const box = svg.getBoundingClientRect();
    return from + (event.clientX - box.left - LEFT) / (width() - LEFT - RIGHT) * (to - from);
  }

  svg.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && from === whole[0] && to === whole[1] && event.deltaY > 0) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", event => { held = [event.clientX, from, to]; svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", () => { held = null; });
  svg.addEventListener("pointermove", event => {
    if (held) {
      const moved = (held[0] - event.clientX) / (width() - LEFT - RIGHT) * (held[2] - held[1]);
      look(held[1] + moved, held[2] + moved);
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
  svg.addEventListener("dblclick", () => look(...whole));
  svg.addEventListener("keydown", event => {
    const middle = (from + to) / 2, step = (to - from) / 5;
    const act = {
      "+": () => zoom(0.7, middle), "-": () => zoom(1.4, middle), "0": () => look(...whole),
      ArrowLeft: () => look(from - step, to - step), ArrowRight: () => look(from + step, to + step),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  new ResizeObserver(draw).observe(element);
  draw();
}
