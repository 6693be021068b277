// A Bokeh layout inside an anywidget. One message per frame with raw buffers in, one small acknowledgement out; data are never
// echoed back to the kernel. Nothing is fetched from outside: a page without the right BokehJS gets it from the kernel, once.

const PATIENCE = 30000; // ms for BokehJS to arrive

function present(version) {
  const Bokeh = window.Bokeh;
  if (!Bokeh) return null;
  return Bokeh.version === version ? Bokeh : Bokeh[version] || null; // a second BokehJS files itself under its version
}

function run(buffer) {
  const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  const script = document.createElement("script");
  script.src = url;
  script.onload = () => URL.revokeObjectURL(url);
  document.head.appendChild(script);
}

async function library(model, version) {
  if (present(version)) return present(version);
  const arrived = (message, buffers) => {
    if (message.t === "library" && !present(version)) run(buffers[0]);
  };
  model.on("msg:custom", arrived);
  model.send({ t: "library" });
  const late = performance.now() + PATIENCE;
  try {
    while (performance.now() < late) {
      if (present(version)) return present(version);
      await new Promise((resume) => setTimeout(resume, 50));
    }
  } finally {
    model.off("msg:custom", arrived);
  }
  throw new Error(`BokehJS ${version} did not arrive from the kernel. Run the cell again.`);
}

const KINDS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };

function numbers(view, kind) {
  const Kind = KINDS[kind];
  const aligned = view.byteOffset % Kind.BYTES_PER_ELEMENT === 0;
  const buffer = aligned ? view.buffer : view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  return new Kind(buffer, aligned ? view.byteOffset : 0, view.byteLength / Kind.BYTES_PER_ELEMENT);
}

const dark = () => {
  const jupyter = document.body.dataset.jpThemeLight;
  return jupyter === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : jupyter === "false";
};

function repaint(doc, theme) {
  const colours = dark() ? theme.dark : theme.light;
  for (const [id, name, role] of theme.paints) {
    const target = doc.get_model_by_id(id);
    if (target) target[name] = colours[role];
  }
}

export default {
  async render({ model, el }) {
    const host = document.createElement("div");
    host.className = "crowdlab-live";
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", model.get("label"));
    host.textContent = "loading the picture ...";
    el.appendChild(host);
    let Bokeh;
    try {
      Bokeh = await library(model, model.get("_version"));
    } catch (error) {
      host.textContent = error.message;
      return;
    }
    host.textContent = "";
    const views = await Bokeh.embed.embed_item(JSON.parse(model.get("_item")), host);
    const doc = (views.roots ?? [...views])[0].model.document;
    const theme = JSON.parse(model.get("_theme"));
    repaint(doc, theme);

    const show = (message, buffers) => {
      if (message.t !== "frame") return;
      let next = 0;
      for (const [name, mode, columns] of message.sources) {
        const data = {};
        for (const [column, kind] of columns) data[column] = numbers(buffers[next++], kind);
        const source = doc.get_model_by_name(name);
        if (mode === 0) source.data = data;
        else source.stream(data, mode); // mode is the number of rows kept
      }
      for (const [id, name, value] of message.properties) {
        const target = doc.get_model_by_id(id);
        if (target) target[name] = value;
      }
      // Acknowledge on apply, not on paint: while the page paints, later messages wait in its own queue, which is the back-pressure wanted.
      model.send({ t: "shown", k: message.k });
    };
    model.on("msg:custom", show);

    const people = doc.get_model_by_name("agents");
    if (people) {
      people.selected.properties.indices.change.connect(() => {
        const rows = [...people.selected.indices];
        if (!rows.length) return;
        model.send({ t: "picked", ids: rows.map((row) => people.data.id[row]) });
        setTimeout(() => (people.selected.indices = []), 0); // rows move up when somebody leaves: the kernel keeps who it was
      });
    }
    const watch = new MutationObserver(() => repaint(doc, theme));
    watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
    model.send({ t: "ready" });
    return () => {
      watch.disconnect();
      model.off("msg:custom", show);
      if (doc.clear) doc.clear();
    };
  },
};
