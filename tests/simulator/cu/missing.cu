// Uses a function that the simulated runtime does not have.
#include <cuda_runtime.h>
extern "C" int graph() {
  cudaGraph_t graph;
  return cudaGraphCreate(&graph, 0);
}
