// Which part of the plane a pane shows, and how large: screen = (plane - corner) * zoom.

const LEAST_ZOOM = 0.01;
const MOST_ZOOM = 4;
const COMFORTABLE = 1.0; // the zoom of a layer that somebody looks for

class Camera {
  // `moved` is called when the reader has moved the picture.
  constructor(moved) {
    Object.assign(this, { x: 0, y: 0, zoom: 1, width: 1, height: 1, moving: 0, moved });
  }

  get visible() {
    return [this.x, this.y, this.x + this.width / this.zoom, this.y + this.height / this.zoom];
  }

  toPlane(x, y) {
    return [this.x + x / this.zoom, this.y + y / this.zoom];
  }

  // What is in the middle stays there.
  resize(width, height) {
    this.x += (this.width - width) / 2 / this.zoom;
    this.y += (this.height - height) / 2 / this.zoom;
    Object.assign(this, { width, height });
  }

  pan(dx, dy) {
    this.stop();
    this.x -= dx / this.zoom;
    this.y -= dy / this.zoom;
    this.moved();
  }

  // Zooms about a point of the screen, which stays where it is.
  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    this.stop();
    const [planeX, planeY] = this.toPlane(x, y);
    this.zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, this.zoom * factor));
    this.x = planeX - x / this.zoom;
    this.y = planeY - y / this.zoom;
    this.moved();
  }

  // The middle and the zoom, those at the end of a movement.
  get aim() {
    const { x, y, zoom, width, height } = this;
    return this.moving ? this.end : { x: x + width / 2 / zoom, y: y + height / 2 / zoom, zoom };
  }

  // The zoom at which all of a plane is seen; a small one is not blown up.
  zoomOf(view) {
    const room = 24;
    const scale = (have, need) => (have - 2 * room) / Math.max(need, 1);
    const zoom = Math.min(scale(this.width, view.width), scale(this.height, view.height), 1.2);
    return Math.max(zoom, LEAST_ZOOM);
  }

  fit(view) {
    this.goTo(view.width / 2, view.height / 2, this.zoomOf(view));
  }

  // Puts a point into the middle at once.
  place(x, y, zoom) {
    this.stop();
    Object.assign(this, { zoom, x: x - this.width / 2 / zoom, y: y - this.height / 2 / zoom });
  }

  // Brings a point to the middle, step by step unless the reader wants less motion.
  goTo(x, y, zoom = this.zoom) {
    const [left, top, right, bottom] = this.visible;
    const start = { x: (left + right) / 2, y: (top + bottom) / 2, zoom: this.zoom };
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (calm || document.hidden) this.place(x, y, zoom);
    else this.glide(start, { x, y, zoom }, performance.now());
    page.repaint();
  }

  // Moves between two middles, as the pane may get another size on the way.
  glide(start, end, since) {
    this.stop();
    this.end = end;
    const step = (now) => {
      const share = Math.min(1, Math.max(0, (now - since) / 180));
      const eased = 1 - (1 - share) ** 3;
      const [x, y, zoom] = ["x", "y", "zoom"].map((key) => start[key] + (end[key] - start[key]) * eased);
      this.place(x, y, zoom);
      if (share < 1) this.moving = requestAnimationFrame(step);
      page.repaint();
    };
    this.moving = requestAnimationFrame(step);
  }

  stop() {
    if (this.moving) cancelAnimationFrame(this.moving);
    this.moving = 0;
  }

  // Moves only as far as a box needs to be seen, with the zoom at which its text can be read.
  show(box, always = false) {
    const margin = 40 / this.zoom;
    const [left, top, right, bottom] = this.visible;
    const seen = box.x >= left + margin && box.x + box.width <= right - margin
      && box.y >= top + margin && box.y + box.height <= bottom - margin;
    if (seen && this.zoom >= TEXT_FROM && !always) return;
    const zoom = this.zoom < TEXT_FROM ? COMFORTABLE : this.zoom;
    this.goTo(box.x + box.width / 2, box.y + box.height / 2, zoom);
  }
}
