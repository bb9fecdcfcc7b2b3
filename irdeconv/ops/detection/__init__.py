"""Operations that find objects: boxes, and the suppression of those that overlap."""

from irdeconv.ops.detection import (
    color,
    detection_output,
    detectron,
    multiclass,
    prior_box,
    proposals,
    region_proposal,
    roi_align,
    roi_pooling,
    suppression,
    yolo,
)
