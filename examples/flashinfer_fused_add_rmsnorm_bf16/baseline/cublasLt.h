// Empty on purpose: norm.cuh includes this header and needs nothing of it here.
