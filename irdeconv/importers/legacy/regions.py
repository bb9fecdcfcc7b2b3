"""Legacy layers that pool regions of interest, and those of YOLO."""

from __future__ import annotations

from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, layer, standard


@layer("ROIPooling")
def roi_pooling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Maxima, or bilinear samples, of boxes: [boxes, C, pooled_h, pooled_w]."""
    op = standard(
        "ROIPooling",
        "opset2",
        pooled_h=n.integer("pooled_h"),
        pooled_w=n.integer("pooled_w"),
        spatial_scale=n.number("spatial_scale"),
        method=n.word("method", "max", "max bilinear"),
    )
    return b.add(op, n[0], n[1])


@layer("PSROIPooling")
def psroi_pooling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Means of boxes, each cell of channels of its own: [boxes, output_dim, *group_size]."""
    mode = n.word("mode", "average", "average bilinear bilinear_deformable")
    group = n.integer("group_size")
    terms = {
        "output_dim": n.integer("output_dim"),
        "group_size": group,
        "spatial_scale": n.number("spatial_scale"),
        "spatial_bins_x": n.integer("spatial_bins_x", 1),
        "spatial_bins_y": n.integer("spatial_bins_y", 1),
        "mode": mode,
    }
    pooled = n.integer("pooled_height", group), n.integer("pooled_width", group)
    n.ignore("no_trans")
    if mode == "bilinear_deformable":
        more = {"trans_std": n.number("trans_std", 1), "part_size": n.integer("part_size", 1)}
        return b.add(standard("DeformablePSROIPooling", "opset1", **terms, **more), *n.given)
    n.ignore("trans_std", "part_size")
    if pooled != (group, group):
        raise Refusal(f"pooled to {list(pooled)}, in groups of {group}")
    return b.add(standard("PSROIPooling", "opset2", **terms), n[0], n[1])


@layer("RegionYolo")
def region_yolo(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Logistic coordinates and scores of the boxes of each cell, softmax of classes if asked."""
    flattens = n.flag("do_softmax", True)
    n.ignore("axis", "end_axis", "anchors", "mask_size")
    op = standard(
        "RegionYolo",
        "opset1",
        coords=n.integer("coords"),
        classes=n.integer("classes"),
        num=n.integer("num"),
        do_softmax=flattens,
        mask=n.ints("mask", ()),
        axis=1,
        end_axis=3,
    )
    y = b.add(op, n[0])
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)


@layer("ReorgYolo")
def reorg_yolo(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Squares of places as channels: [N, C * stride^2, H / stride, W / stride]."""
    return b.add(standard("ReorgYolo", "opset2", stride=(n.integer("stride"),)), n[0])
