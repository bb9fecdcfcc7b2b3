"""Picture files: opened within limits, as planes of numbers for a network and back, their likeness.

A plane is [3, H, W] of 0 to 1: the colours, and one more for the opacity.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EISDIR
from pathlib import Path

import numpy as np
from PIL import Image as pillow
from PIL import ImageOps, UnidentifiedImageError
from PIL.Image import Image
from PIL.ImageFile import ImageFile

from irdeconv.base.errors import Diagnostic, IrdeconvError, LimitError, misused, no_access
from irdeconv.base.opening import NotRegularError, first_bytes, open_file, unreadable
from irdeconv.ir.spec import Array

# Others are left out: to read an EPS Pillow runs a program.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM")
BRIGHTEST = {"L": 255, "I;16": 65535, "RGB": 255, "RGBA": 255}  # the brightest value, by mode
GREY_MODES = ("1", "L", "I;16")
DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")


@contextmanager
def opened(
    path: str, most: int | None = None, hint: str = "name a PNG or a JPEG"
) -> Iterator[ImageFile]:
    """Open a picture whose header names at most `most` pixels; nothing is allocated before.

    Raises FileAccessError, UsageError if it is none or damaged, LimitError if it is larger than
    `most` or than Pillow trusts a file to be. Exceptions while it is read count, too. `hint` is the
    advice for a file that is no picture.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with open_file(path) as file, pillow.open(file, formats=FORMATS) as image:
                if most is not None and image.width * image.height > most:
                    raise _too_large(path, image.size, most)
                yield image
    except (IrdeconvError, MemoryError):
        raise
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError):
        raise _too_large(path, None, pillow.MAX_IMAGE_PIXELS or 0) from None
    except UnidentifiedImageError:
        raise _no_picture(path, hint) from None
    except Exception as e:  # each format of Pillow has its own ways to refuse a damaged file
        if isinstance(e, NotRegularError) or (isinstance(e, OSError) and e.errno is not None):
            raise unreadable(path, e) from None
        message = f"{path}: the picture cannot be read: {e}"
        raise misused(message, "it is cut off or damaged") from e


def _too_large(path: str, size: tuple[int, int] | None, most: int) -> LimitError:
    has = f"{size[0]} x {size[1]} = {size[0] * size[1]:,}" if size else "more"
    message = f"{path}: a picture may have at most {most:,} pixels; this one has {has}"
    hint = "make it smaller, or cut a piece out of it"
    return LimitError(Diagnostic("E602", "error", message, hint=hint))


def _no_picture(path: str, hint: str) -> IrdeconvError:
    from irdeconv.formats.kinds import BEGIN, kind_of

    kind = kind_of(first_bytes(path, BEGIN), path).name
    kind = "damaged or without pixels" if kind.endswith("image") else kind
    return misused(f"{path} is no picture that can be read: it is {kind}", hint)


@dataclass(frozen=True)
class Picture:
    """A picture as it was read: `image` in L, I;16, RGB or RGBA, upright, and the changes made.

    `profile` is the colour profile that an enlarged one keeps.
    """

    image: Image
    profile: bytes | None = None
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.image.size


def read(path: str, most: int) -> Picture:
    """Read a picture in any mode; raises the errors of `opened`."""
    if Path(path).is_dir():
        found = Diagnostic("E100", "error", f"{path} is a folder", hint="name a picture")
        raise no_access(found, EISDIR, path)
    with opened(path, most) as image:
        notes = []
        if getattr(image, "n_frames", 1) > 1:
            notes.append(f"the first of {image.n_frames} frames")  # type: ignore[attr-defined]
        if image.mode == "RGB" and "16" in str([t.args for t in image.tile]):
            notes.append("16 bits per colour read as 8")
        profile = image.info.get("icc_profile") if image.mode != "CMYK" else None
        image.load()
        return Picture(_plain(ImageOps.exif_transpose(image)), profile, tuple(notes))


def _plain(image: Image) -> Image:
    """Return the picture in one of the modes of BRIGHTEST, grey of many bits in 16."""
    if image.mode in DEEP_MODES:
        values = np.asarray(image).astype(np.float64)
        if image.mode == "F":  # from dark to bright; integers stay as they are
            finite = values[np.isfinite(values)]
            low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
            values = np.nan_to_num((values - low) / ((high - low) or 1.0)) * 65535
        return pillow.fromarray(np.clip(np.rint(values), 0, 65535).astype(np.uint16))
    if image.mode in BRIGHTEST:
        return image.convert("RGBA") if "transparency" in image.info else image
    transparent = "A" in image.mode.upper() and image.mode != "LAB"
    if transparent or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in GREY_MODES else "RGB")


def planes(image: Image) -> Array:
    """Return a picture as [N, 3, H, W] of 0 to 1: grey three times, colours, opacity as second.

    Colours are multiplied by the opacity, so that invisible ones do not shine through at edges.
    """
    values: Array = np.asarray(image) / np.float32(BRIGHTEST[image.mode])
    if values.ndim == 2:
        return np.broadcast_to(values, (1, 3, *values.shape))
    channels = values.transpose(2, 0, 1)
    if image.mode != "RGBA":
        return channels[None]
    opacity = np.broadcast_to(channels[3], channels[:3].shape)
    return np.stack([channels[:3] * opacity, opacity])


def image_of(values: Array, mode: str) -> Image:
    """Return planes as a picture of a mode; values outside of 0 to 1 become black or full."""
    x = np.clip(values, 0, 1)
    if mode in ("L", "I;16"):
        channels = x[0].mean(0)
    elif mode == "RGB":
        channels = x[0].transpose(1, 2, 0)
    else:
        opacity = x[1].mean(0)
        colours = np.clip(x[0] / np.maximum(opacity, 1 / 255), 0, 1)
        channels = np.concatenate([colours, opacity[None]]).transpose(1, 2, 0)
    dtype = np.uint16 if mode == "I;16" else np.uint8
    return pillow.fromarray(np.rint(channels * BRIGHTEST[mode]).astype(dtype))


def png(image: Image, profile: bytes | None = None) -> bytes:
    """Return a picture as the bytes of a PNG."""
    file = io.BytesIO()
    image.save(file, "PNG", icc_profile=profile)
    return file.getvalue()


def resized(image: Image, size: tuple[int, int]) -> Image:
    """Return a picture in another size by bicubic interpolation; it averages to shrink."""
    return image.resize(size, pillow.Resampling.BICUBIC)


def psnr(a: Image, b: Image) -> float:
    """Return the peak signal-to-noise ratio in dB, over all pixels and channels of 8 bits."""
    difference = np.asarray(a).astype(np.float64) - np.asarray(b)
    error = float(np.mean(difference**2))
    return float(10 * np.log10(255**2 / error)) if error else float("inf")
