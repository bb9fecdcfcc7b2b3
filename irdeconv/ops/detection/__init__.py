"""Operations that find objects: boxes, and the suppression of those that overlap."""

from irdeconv.ops.detection import (
    detection_output,
    detectron,
    multiclass,
    prior_box,
    proposals,
    suppression,
)
