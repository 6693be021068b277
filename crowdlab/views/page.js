// Plays a recorded run inside one page, from disk, with no network.
// The film is packed as unsigned integers, each frame as its difference from the one before, compressed.

function summed(values, width) {
  for (let i = width; i < values.length; i++) values[i] += values[i - width]; // wraps round like the differences did
  return values;
}

function filmOf(buffer, frames, people) {
  const many = frames * people;
  return {
    x: summed(new Uint16Array(buffer, 0, many), people),
    y: summed(new Uint16Array(buffer, 2 * many, many), people),
    heading: summed(new Uint8Array(buffer, 4 * many, many), people),
    speed: summed(new Uint8Array(buffer, 5 * many, many), people),
  };
}

const ABSENT = 255;

function picture(film, facts, time) {
  const { times, radius, lower, size, top_speed, people } = facts;
  let k = facts.now ?? 0;
  while (k > 0 && times[k] > time) k--;
  while (k < times.length - 1 && times[k + 1] <= time) k++;
  facts.now = k;
  const after = Math.min(k + 1, times.length - 1);
  const part = after > k ? Math.min(1, (time - times[k]) / (times[after] - times[k])) : 0;
  const x = [], y = [], r = [], x1 = [], y1 = [], speed = [], id = [];
  for (let i = 0; i < people; i++) {
    const a = k * people + i, b = after * people + i;
    if (film.speed[a] === ABSENT) continue;
    const jumped = Math.abs(film.x[b] - film.x[a]) > 32768 || Math.abs(film.y[b] - film.y[a]) > 32768; // round a periodic box
    const share = film.speed[b] === ABSENT || jumped ? 0 : part;
    const px = lower[0] + ((film.x[a] + share * (film.x[b] - film.x[a])) * size[0]) / 65535;
    const py = lower[1] + ((film.y[a] + share * (film.y[b] - film.y[a])) * size[1]) / 65535;
    const angle = (film.heading[a] * 2 * Math.PI) / 256;
    x.push(px);
    y.push(py);
    r.push(radius[i]);
    x1.push(px + radius[i] * Math.cos(angle));
    y1.push(py + radius[i] * Math.sin(angle));
    speed.push((film.speed[a] * top_speed) / 254);
    id.push(facts.ids[i]);
  }
  return { frame: k, data: { x, y, r, x1, y1, speed, id } };
}

async function start() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  await loadBokeh();
  const film = filmOf(await unpacked("film"), facts.times.length, facts.people);
  const scene = document.getElementById("scene");
  scene.textContent = "";
  const views = await Bokeh.embed.embed_item(facts.item, scene);
  const doc = (views.roots ?? [...views])[0].model.document;
  const people = doc.get_model_by_name("agents");
  const title = doc.get_model_by_id(facts.title);
  const doors = doc.get_model_by_name("doors");
  const mark = doc.get_model_by_name("mark"); // none where nothing was observed
  const [play, speed, slider, clock] = ["play", "speed", "time", "clock"].map((id) => document.getElementById(id));
  const end = facts.times[facts.times.length - 1];
  slider.max = end;
  slider.step = end / (facts.times.length - 1) || 1;

  const show = (time) => {
    const { frame, data } = picture(film, facts, time);
    people.data = data;
    const closed = Array.from(doors.data.door, (door) => (facts.closed[frame] >> door) & 1);
    doors.data = { ...doors.data, closed, open: closed.map((shut) => 1 - shut) };
    title.text = `${facts.name}    t = ${time.toFixed(1)} s    ${facts.headlines[frame]}`;
    if (mark) mark.data = { t: [time] };
    clock.textContent = `${time.toFixed(1)} of ${end.toFixed(1)} s`;
    slider.setAttribute("aria-valuetext", clock.textContent);
  };

  let playing = false, time = 0, last = 0;
  const set = (on) => {
    playing = on;
    play.textContent = on ? "❚❚ Pause" : "▶ Play";
    if (on) {
      if (time >= end) time = 0;
      last = performance.now();
      requestAnimationFrame(tick);
    }
  };
  const tick = (now) => {
    if (!playing) return;
    time = Math.min(end, time + (Math.max(0, now - last) / 1000) * Number(speed.value));
    last = now;
    slider.value = time;
    show(time);
    if (time >= end) set(false);
    else requestAnimationFrame(tick);
  };
  play.addEventListener("click", () => set(!playing));
  slider.addEventListener("input", () => {
    time = Number(slider.value);
    show(time);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== " " || ["BUTTON", "SELECT"].includes(event.target.tagName)) return;
    event.preventDefault();
    set(!playing);
  });
  const theme = matchMedia("(prefers-color-scheme: dark)");
  theme.addEventListener("change", () => repaint(doc, facts.theme));
  repaint(doc, facts.theme);
  show(0);
}

start().catch((error) => {
  document.getElementById("scene").textContent = `This page could not start: ${error.message ?? error}`;
});
