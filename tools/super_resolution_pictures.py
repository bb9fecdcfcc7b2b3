"""The pictures that tools/train_super_resolution.py learns from and measures on.

All are in the public domain, CC0 or CC BY; ir_samples/super_resolution/README.md names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

SKIMAGE = "skimage/data"
SKLEARN = "sklearn/datasets/images"
LOMIRI = "usr/share/backgrounds"


@dataclass(frozen=True)
class Picture:
    """One picture of a package: where it is, whose it is, and its SHA-256 from the left."""

    name: str
    path: str
    author: str
    licence: str
    digest: str
    reduced: int = 1  # each pixel is the mean of so many by so many

    def find(self, folder: Path) -> Path:
        """Return the file below a folder; ValueError where its bytes are others."""
        found = sorted(folder.rglob(self.path))
        if not found:
            raise FileNotFoundError(f"{folder} has no {self.path}")
        if sha256(found[0].read_bytes()).hexdigest()[:16] != self.digest:
            raise ValueError(f"{found[0]} is another picture than the one that is meant")
        return found[0]


CC0, CC_BY_2, CC_BY_4, PUBLIC = "CC0 1.0", "CC BY 2.0", "CC BY 4.0", "public domain"
AITZOL = "Aitzol Berasategi"

TRAINING = (
    Picture("fig", f"{LOMIRI}/Picture_0B_by_freespace.jpg", 'Trevor "Freespace"', CC_BY_4,
            "c8c0ab18e48d9e04", 3),
    Picture("brushes", f"{LOMIRI}/Picture_1A_by_freespace.jpg", 'Trevor "Freespace"', CC_BY_4,
            "89e86af38d04daae", 2),
    Picture("wine", f"{LOMIRI}/Wine_by_Jakkub_Mede.jpg", "Jakub Mede", CC_BY_4,
            "d2e96e6d4da40dd8", 3),
    Picture("aitzgorri", f"{LOMIRI}/aitzgorri_by_Aitzol_Berasategi.jpg", AITZOL, CC_BY_4,
            "66268e7b48f8854d", 3),
    Picture("friends", f"{LOMIRI}/friends_by_Aitzol_Berasategi.jpg", AITZOL, CC_BY_4,
            "cc40e313c74e421e", 3),
    Picture("life", f"{LOMIRI}/life_by_Aitzol_Berasategi.jpg", AITZOL, CC_BY_4,
            "4c119350ead80201", 3),
    Picture("picos de europa", f"{LOMIRI}/picosdeeuropa_by_Aitzol_Berasategi.jpg", AITZOL, CC_BY_4,
            "414d0072b2f6f2c5", 3),
    Picture("sunset", f"{LOMIRI}/sunset_by_Aitzol_Berasategi.jpg", AITZOL, CC_BY_4,
            "474dab6a4b9f94dc", 4),
    Picture("seeding", f"{LOMIRI}/seeding_by_Clements_Engelhardt.jpg", "Clemens Engelhardt", CC0,
            "a5634d1ab5e41a35", 4),
    Picture("brick", f"{SKIMAGE}/brick.png", "CC0Textures", CC0, "7966caf324f6ba84"),
    Picture("grass", f"{SKIMAGE}/grass.png", "linolafett", CC0, "b6b6022426b38936"),
    Picture("gravel", f"{SKIMAGE}/gravel.png", "CC0Textures", CC0, "c48615b451bf1e60"),
    Picture("rocket", f"{SKIMAGE}/rocket.jpg", "SpaceX", PUBLIC, "c2dd0de7c538df8d"),
    Picture("text", f"{SKIMAGE}/text.png", "Wikipedia", PUBLIC, "bd84aa3a6e3c9887"),
    Picture("flower", f"{SKLEARN}/flower.jpg", "vultilion", CC_BY_2, "a77f6ec41e353afd"),
)  # fmt: skip
TEST = (
    Picture("chelsea", f"{SKIMAGE}/chelsea.png", "Stefan van der Walt", CC0, "596aa1e7cb875eb7"),
    Picture("coffee", f"{SKIMAGE}/coffee.png", "Rachel Michetti", CC0, "cc02f8ca188b167c"),
    Picture("camera", f"{SKIMAGE}/camera.png", "Lav Varshney", CC0, "b0793d2adda0fa6a"),
    Picture("astronaut", f"{SKIMAGE}/astronaut.png", "NASA", PUBLIC, "88431cd9653ccd53"),
    Picture("china", f"{SKLEARN}/china.jpg", "danielbuechele", CC_BY_2, "8378025ad2519d64"),
)  # fmt: skip
