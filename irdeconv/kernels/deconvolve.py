from irdeconv.kernels.prepared import Candidate, finish
from irdeconv.kernels.deconvolution import deconvolve


def deconvolution_candidates(w):
    def prepare(f):
        def run(x, out, ep, team):
            deconvolve(x, f, w.strides, w.dilations, w.begin, out)
            finish(out, ep, team)

        return run

    return [Candidate("old", 1.0, 0, prepare)]
