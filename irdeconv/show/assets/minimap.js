// The whole graph, small, in a corner of its pane; the frame is what the pane shows.

const MAP_MOST = [150, 190]; // its largest width and height in pixels
const MAP_EDGE = 18; // between it and what stands beside it, the edge of the pane included

class Minimap {
  constructor(pane) {
    this.pane = pane;
    this.canvas = make("canvas", "minimap");
    this.canvas.setAttribute("aria-hidden", "true");
    this.context = this.canvas.getContext("2d");
    this.picture = null;
    pane.stage.append(this.canvas);
    const go = (event) => { if (event.buttons) this.go(event.offsetX, event.offsetY); };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", go);
  }

  // The picture of the boxes is drawn once for a view, a theme and an overlay.
  forget() {
    this.picture = null;
  }

  go(x, y) {
    const { camera } = this.pane;
    camera.stop();
    camera.x = x / this.scale - camera.width / 2 / camera.zoom;
    camera.y = y / this.scale - camera.height / 2 / camera.zoom;
    camera.moved();
    page.repaint();
  }

  paint(palette) {
    const { camera, view } = this.pane;
    const [left, top, right, bottom] = camera.visible;
    const whole = left <= 0 && top <= 0 && right >= view.width && bottom >= view.height;
    const small = camera.height < 240 || camera.width < 260;
    this.canvas.hidden = whole || small;
    if (whole || small) return;
    const look = `${palette.ground} ${overlayState()}`;
    if (!this.picture || this.drawn !== look) this.draw(palette);
    this.drawn = look;
    this.stepAside();
    const { context, scale } = this;
    const pixels = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(pixels, 0, 0, pixels, 0, 0);
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left * scale, top * scale, (right - left) * scale, (bottom - top) * scale);
  }

  // Goes to the left corner if it covers less there: first of the selected layer and its neighbours.
  stepAside() {
    const { pane } = this;
    const { camera, view } = pane;
    const node = page.node(page.selected);
    const links = node ? [...node.inputs, ...node.users].slice(0, MOST_LINKS) : [];
    const keys = links.map(([id]) => `${node.graph}/${id}`);
    const near = new Set([page.selected, ...keys, ...relatedKeys(page.selected)]
      .map((key) => (key === null ? null : pane.place(key))).filter(Boolean));
    const [width, height] = this.size.map((length) => length + MAP_EDGE);
    const covered = (from) => {
      const [left, top] = camera.toPlane(from, camera.height - height);
      const [right, bottom] = camera.toPlane(from + width, camera.height);
      const count = (boxes) => boxes.filter((box) => inside(box, [left, top, right, bottom])).length;
      return count([...near]) * view.boxes.length + count(view.boxes);
    };
    this.canvas.classList.toggle("left", covered(camera.width - width) > covered(0));
  }

  draw(palette) {
    const { view } = this.pane;
    const [most, high] = MAP_MOST;
    this.scale = Math.min(most / view.width, high / view.height);
    const pixels = window.devicePixelRatio || 1;
    this.size = [view.width, view.height].map((length) => Math.max(12, length * this.scale));
    for (const [name, length] of [["width", this.size[0]], ["height", this.size[1]]]) {
      this.canvas[name] = Math.ceil(length * pixels);
      this.canvas.style[name] = `${length}px`;
    }
    this.picture = make("canvas");
    Object.assign(this.picture, { width: this.canvas.width, height: this.canvas.height });
    const context = this.picture.getContext("2d");
    context.fillStyle = palette.ground;
    context.fillRect(0, 0, this.picture.width, this.picture.height);
    context.scale(this.scale * pixels, this.scale * pixels);
    this.drawBoxes(context, palette);
  }

  // A layer that changed is drawn last and larger, or nobody would see it among thousands.
  drawBoxes(context, palette) {
    const least = 1.5 / this.scale;
    const look = { palette, colour: overlayColour };
    const { boxes } = this.pane.view;
    const marked = (box) => box.change !== "same" || box.kind === "deconvolution";
    for (const box of [...boxes].sort((a, b) => marked(a) - marked(b))) {
      const grown = marked(box) ? 2 * least : least;
      context.fillStyle = farColour(box, look);
      context.fillRect(box.x, box.y, Math.max(box.width, grown), Math.max(box.height, grown));
    }
  }
}
