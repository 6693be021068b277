// Shows figures inside one page, from disk, with no network.

async function start() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  await loadBokeh();
  const scene = document.getElementById("scene");
  scene.textContent = "";
  const views = await Bokeh.embed.embed_item(facts.item, scene);
  const doc = (views.roots ?? [...views])[0].model.document;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint(doc, facts.theme));
  repaint(doc, facts.theme);
}

start().catch((error) => {
  document.getElementById("scene").textContent = `This page could not start: ${error.message ?? error}`;
});
