"""Train the network of `irdeconv demo` and write it into ir_samples/super_resolution/.

Development only; needs PyTorch and the pictures, which packages carry:

    pip install torch==2.13.0
    pip download --no-deps scikit-image==0.26.0 scikit-learn==1.9.1
    apt-get download lomiri-wallpapers-16.04
    unzip and dpkg-deb -x them into one folder
    python tools/train_super_resolution.py FOLDER

The network enlarges twofold. It adds what it has learned, by way of a deconvolution, to a bicubic
enlargement, which is a grouped deconvolution with known weights. Pictures that are measured are
never trained on. The seed is fixed; another number of threads or another processor sums in another
order, and the weights then differ slightly.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np
import torch
from make_samples import SAMPLES, Net
from PIL import Image
from super_resolution_pictures import TEST, TRAINING, Picture
from torch import nn
from torch.nn import functional

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value

FEATURES, MAPPED, MAPPINGS = 48, 16, 5
PATCH = 32  # pixels of the small picture
BATCH = 12
SEED = 20
# The test pictures that come with the network, cut out: left, top, right, bottom.
SHOWN = {"coffee": (160, 40, 560, 360), "chelsea": (70, 40, 390, 280)}


def cubic(distance: float) -> float:
    """Weigh a pixel by its distance, as bicubic interpolation does with a = -1/2."""
    d, a = abs(distance), -0.5
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def bicubic_filter() -> Any:
    """Return the filter of the deconvolution that enlarges each of three channels twofold."""
    taps = np.array([cubic((i - 3.5) / 2) for i in range(8)], np.float32)
    return np.tile(np.outer(taps, taps), (3, 1, 1, 1, 1))


class Enlarger(nn.Module):
    """Features, shrink, mappings, expand and a deconvolution; and the bicubic way around."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, FEATURES, 5, padding=2)
        self.shrink = nn.Conv2d(FEATURES, MAPPED, 1)
        self.mappings = nn.ModuleList(
            nn.Conv2d(MAPPED, MAPPED, 3, padding=1) for _ in range(MAPPINGS)
        )
        self.expand = nn.Conv2d(MAPPED, FEATURES, 1)
        self.detail = nn.ConvTranspose2d(FEATURES, 3, 8, stride=2, padding=3)
        widths = [FEATURES, *[MAPPED] * (1 + MAPPINGS), FEATURES]
        self.slopes = nn.ParameterList(nn.Parameter(torch.full((n,), 0.25)) for n in widths)
        self.register_buffer("bicubic", torch.from_numpy(bicubic_filter()[:, 0]))
        nn.init.normal_(self.detail.weight, std=0.001)
        nn.init.zeros_(self.detail.bias)

    def layers(self) -> list[tuple[str, nn.Conv2d]]:
        """Return the convolutions in front of the deconvolution, by name."""
        mapped = [(f"map{i}", m) for i, m in enumerate(self.mappings, 1)]
        return [
            ("features", self.features),
            ("shrink", self.shrink),
            *mapped,
            ("expand", self.expand),
        ]

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        """Enlarge pictures [N, 3, H, W] of 0 to 1; the result may be a little outside."""
        wide = functional.pad(picture, (2, 2, 2, 2), mode="replicate")
        smooth = functional.conv_transpose2d(wide, self.bicubic, stride=2, padding=7, groups=3)
        x = picture
        for (_, layer), slope in zip(self.layers(), self.slopes, strict=True):
            x = functional.prelu(layer(x), slope)
        return smooth + self.detail(x)


def graph_of(model: Enlarger) -> Graph:
    """Return the network as an IR for pictures of any size."""
    net = Net("super_resolution")
    picture = net.input("picture", "?,3,?,?")
    edge = [net.const(f"border/{n}", np.array([0, 0, 2, 2])) for n in ("begin", "end")]
    wide = net.layer("border", "Pad", 1, picture, *edge, pad_mode="edge")
    smooth = net.deconvolution("bicubic", wide, bicubic_filter(), group="yes",
        strides="2,2", pads_begin="7,7", pads_end="7,7")  # fmt: skip
    x = picture
    for (name, layer), slope in zip(model.layers(), model.slopes, strict=True):
        x = convolution(net, name, x, layer)
        x = net.layer(f"{name}/prelu", "PRelu", 1, x, net.const(f"{name}/slope", array(slope)))
    detail = net.deconvolution("detail", x, array(model.detail.weight),
        strides="2,2", pads_begin="3,3", pads_end="3,3")  # fmt: skip
    detail = bias(net, "detail", detail, model.detail)
    both = net.layer("sum", "Add", 1, smooth, detail, auto_broadcast="numpy")
    result = net.layer("enlarged", "Clamp", 1, both, min="0", max="1")
    return net.closed(result)


def convolution(net: Net, name: str, x: Value, layer: nn.Conv2d) -> Value:
    """Add a convolution that keeps the size, and its bias."""
    pads = ",".join(map(str, layer.padding))
    filter = net.const(f"{name}/filter", array(layer.weight))
    y = net.layer(name, "Convolution", 1, x, filter, strides="1,1", dilations="1,1",
        pads_begin=pads, pads_end=pads, auto_pad="explicit")  # fmt: skip
    return bias(net, name, y, layer)


def bias(net: Net, name: str, x: Value, layer: Any) -> Value:
    """Add the bias of a layer."""
    values = net.const(f"{name}/bias", array(layer.bias).reshape(1, -1, 1, 1))
    return net.layer(f"{name}/add", "Add", 1, x, values, auto_broadcast="numpy")


def array(tensor: torch.Tensor) -> Any:
    """Return the values of a tensor."""
    return tensor.detach().numpy().astype(np.float32)


def halved(large: Image.Image) -> Image.Image:
    """Return the picture at half its size, as 8-bit pixels."""
    return large.resize((large.width // 2, large.height // 2), Image.Resampling.BICUBIC)


def load(picture: Picture, folder: Path) -> Image.Image:
    """Return a picture in RGB with even sizes, reduced as its row says."""
    image = Image.open(picture.find(folder)).convert("RGB").reduce(picture.reduced)
    return image.crop((0, 0, image.width // 2 * 2, image.height // 2 * 2))


def tensor(image: Image.Image) -> torch.Tensor:
    """Return a picture as [3, H, W] of 0 to 1."""
    return torch.from_numpy(np.array(image).transpose(2, 0, 1) / np.float32(255))


def psnr(a: Any, b: Any) -> float:
    """Return the peak signal-to-noise ratio of 8-bit pixels, in dB: all pixels, all channels."""
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


def measure(graph: Any, folder: Path) -> list[tuple[str, float, float]]:
    """Return name, PSNR of bicubic and PSNR of the network for every test picture."""
    rows = []
    for picture in TEST:
        large = load(picture, folder)
        small = halved(large)
        smooth = small.resize(large.size, Image.Resampling.BICUBIC)
        y = graph(tensor(small)[None].numpy())[0].transpose(1, 2, 0)
        ours = np.rint(np.clip(y, 0, 1) * 255).astype(np.uint8)
        reference = np.array(large)
        rows.append((picture.name, psnr(np.array(smooth), reference), psnr(ours, reference)))
    return rows


class Patches:
    """Random patches of pictures, more often where much happens."""

    def __init__(self, images: list[Image.Image], seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.pairs = [(tensor(halved(i)), tensor(i)) for i in images]
        places, weights = [], []
        for k, (small, _) in enumerate(self.pairs):
            for y in range(0, small.shape[1] - PATCH, PATCH // 4):
                for x in range(0, small.shape[2] - PATCH, PATCH // 4):
                    piece = small[:, y : y + PATCH, x : x + PATCH]
                    steps = [float(piece.diff(dim=d).abs().mean()) for d in (1, 2)]
                    places.append((k, y, x))
                    weights.append(min(sum(steps), 0.2) + 0.002)
        self.places = np.array(places)
        self.weights = np.array(weights) / sum(weights)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return small and large patches, turned and mirrored at random."""
        chosen = self.random.choice(len(self.places), BATCH, p=self.weights)
        smalls, larges = [], []
        for k, y, x in self.places[chosen]:
            small, large = self.pairs[k]
            turns, mirrored = int(self.random.integers(4)), bool(self.random.integers(2))
            pieces = (
                small[:, y : y + PATCH, x : x + PATCH],
                large[:, 2 * y : 2 * (y + PATCH), 2 * x : 2 * (x + PATCH)],
            )
            turned = [torch.rot90(p.flip(2) if mirrored else p, turns, (1, 2)) for p in pieces]
            smalls.append(turned[0])
            larges.append(turned[1])
        return torch.stack(smalls), torch.stack(larges)


def train(folder: Path, steps: int) -> Enlarger:
    """Train a network; the last weights are the result, nothing is chosen by the test pictures."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the order of sums does not depend on the machine
    patches = Patches([load(p, folder) for p in TRAINING], SEED)
    print(f"{len(TRAINING)} pictures, {len(patches.places)} places")
    model = Enlarger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    started, mean = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        small, large = patches.batch()
        loss = (model(small) - large).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        mean += float(loss.detach())
        if step % 100 == 0:
            print(f"{step} {mean:.4f} {time.monotonic() - started:.0f} s", flush=True)
            mean = 0.0
    return model.eval()


def main() -> None:
    """Train, write the IR and the test pictures that come with it, print what is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the unpacked packages")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("-o", "--output", type=Path, default=SAMPLES / "super_resolution")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    model = train(args.folder, args.steps)
    graph = graph_of(model)
    ird.write(graph, args.output / "super_resolution.xml")
    run = ird.compile(graph, None).run
    rows = measure(lambda x: next(iter(run([x]).values())), args.folder)
    for name, smooth, ours in rows:
        print(f"{name:<12} bicubic {smooth:6.2f} dB, network {ours:6.2f} dB, {ours - smooth:+.2f}")
    for picture in TEST:
        if picture.name in SHOWN:
            shown = load(picture, args.folder).crop(SHOWN[picture.name])
            shown.save(args.output / f"{picture.name}.png", optimize=True)


if __name__ == "__main__":
    main()
