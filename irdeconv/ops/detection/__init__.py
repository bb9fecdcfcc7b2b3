"""Operations that find objects: boxes, and the suppression of those that overlap."""

from irdeconv.ops.detection import suppression
