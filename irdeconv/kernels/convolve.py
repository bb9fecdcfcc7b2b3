from irdeconv.kernels.prepared import Candidate, finish
from irdeconv.kernels.convolution import convolve


def convolution_candidates(w):
    def prepare(f):
        def run(x, out, ep, team):
            convolve(x, f, w.strides, w.dilations, w.begin, out)
            finish(out, ep, team)

        return run

    return [Candidate("old", 1.0, 0, prepare)]
