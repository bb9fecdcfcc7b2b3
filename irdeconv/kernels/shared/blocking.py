"""Into how large pieces work is cut, for memory to stay in a cache and for threads to share it.

No result depends on the number of threads, since none of these sizes does.
"""

from __future__ import annotations

from dataclasses import dataclass

ITEMS = 4  # pieces of work, as many as are wanted for threads to share


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """What a kernel works on at a time: bytes or multiply-adds by name, else elements.

    Kernels read `SIZES` whenever they cut their work. A test that wants many small blocks puts
    another record there.
    """

    epilogue_bytes: int = 1 << 18  # of a whole output that is finished
    small_macs: int = 1_000_000  # of a product that OpenBLAS does not pack

    # Convolution
    im2col_bytes: int = 1 << 22  # of patches
    pointwise_bytes: int = 1 << 20  # of inputs and outputs
    least_columns: int = 256  # but never a narrower product than this, where it can be helped
    shared_columns: int = 512  # of an image that threads share
    interleaved_bytes: int = 1 << 21  # of rows
    winograd_bytes: int = 1 << 22  # of transformed inputs and outputs
    depthwise_bytes: int = 1 << 19  # of outputs, for the epilogue to find them in the cache
    direct_bytes: int = 1 << 19  # of what a block reads and writes, to stay in the cache
    direct_macs: int = 1 << 22  # from which on threads share an image
    decimated_elements: int = 1 << 16  # that are copied, at least

    # Deconvolution
    terms_bytes: int = 3 << 20  # of terms
    terms_columns: int = 1024  # from which on a product gains nothing by more
    terms_macs: int = 1 << 26  # from which on two threads share the channels of a single block
    phases_bytes: int = 1 << 20  # of shifted copies
    phases_sums_bytes: int = 1 << 22  # of sums that are rounded to a narrower type
    phases_columns: int = 128  # of copies, at least
    residues_columns: int = 256  # of padded inputs, at least
    residues_bytes: int = 1 << 20  # of sums
    doubled_elements: int = 1 << 13  # that are worth being written with the zeros between
    wide_bytes: int = 1 << 21  # of outputs
    multiples_bytes: int = 1 << 19  # of outputs
    separable_bytes: int = 1 << 20  # of outputs
    evaluated_bytes: int = 1 << 22  # of inputs that are transformed tile by tile
    tile_products_bytes: int = 1 << 21  # of the products of tiles
    tile_columns: int = 256  # tiles, at least
    placed_columns: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192, 1 << 40)  # that are tried
    spread_elements: int = 1 << 18  # of outputs
    single_elements: int = 1 << 19  # of the filter

    # Others
    # Four registers of f32 fill half of a level 2 cache of 1 MiB.
    chain_elements: int = 1 << 15
    pooling_bytes: int = 1 << 18  # of planes
    row_elements: int = 1 << 17  # of rows that are reduced
    copied_elements: int = 1 << 18
    attention_elements: int = 1 << 18  # of scores


SIZES = BlockSizes()


def pieces(size: int, step: int) -> list[slice]:
    """Split a range into pieces of `step`; the last may be smaller."""
    return [slice(i, min(i + step, size)) for i in range(0, size, step)]


def shares(size: int, count: int) -> int:
    """Return the size of the pieces where `size` things are cut into `count`, or a few more.

    Two threads share an even number of pieces well, so it is even where that is near.
    """
    count = max(1, min(size, count))
    for wanted in range(count, count + 3):
        step = -(-size // wanted)
        made = -(-size // step)
        if made == 1 or made % 2 == 0:
            return step
    return -(-size // count)
