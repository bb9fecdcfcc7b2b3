"""Block sizes for tests: so small that every kernel works in several blocks."""

from __future__ import annotations

from irdeconv.kernels.scratch import BlockSizes

SMALL = BlockSizes(
    epilogue_bytes=100,
    small_macs=600,
    im2col_bytes=600,
    pointwise_bytes=600,
    least_columns=3,
    shared_columns=8,
    winograd_bytes=600,
    depthwise_bytes=200,
    direct_bytes=600,
    direct_macs=600,
    decimated_elements=20,
    terms_bytes=2000,
    terms_columns=8,
    terms_macs=2000,
    phases_bytes=2000,
    phases_sums_bytes=2000,
    phases_columns=4,
    residues_columns=40,
    residues_bytes=2000,
    doubled_elements=4,
    wide_bytes=2000,
    separable_bytes=600,
    evaluated_bytes=2000,
    tile_products_bytes=2000,
    tile_columns=4,
    single_elements=40,
    chain_elements=300,
    pooling_bytes=3000,
    row_elements=300,
    copied_elements=300,
    attention_elements=12,
)
