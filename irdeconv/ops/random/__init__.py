"""Random numbers: RandomUniform and Multinomial."""

from irdeconv.ops.random import multinomial, uniform
