"""Rows chosen by lists of indices: embeddings, segments, sparse tensors."""

from irdeconv.ops.sparse import embedding, rows, segments
