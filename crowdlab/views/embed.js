// What every page of ours begins with: Bokeh out of the page itself, and colours that follow the reader's theme.

async function unpacked(id) {
  const text = document.getElementById(id).textContent.trim();
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function loadBokeh() {
  const url = URL.createObjectURL(new Blob([await unpacked("bokeh")], { type: "text/javascript" }));
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = reject;
    document.head.appendChild(script);
  });
  URL.revokeObjectURL(url);
}

function repaint(doc, theme) {
  const colours = matchMedia("(prefers-color-scheme: dark)").matches ? theme.dark : theme.light;
  for (const [id, name, role] of theme.paints) doc.get_model_by_id(id)[name] = colours[role];
}
