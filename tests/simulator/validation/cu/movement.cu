// Data movement: transposition, gathering, scattering, rotation, stencils, histograms, scans, shared memory.
#include "common.cuh"

__global__ void transpose_naive(float* y, const float* x, int rows, int columns) {
  int c = blockIdx.x * 32 + threadIdx.x, r0 = blockIdx.y * 32;
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (c < columns && r0 + k < rows) y[(long long)c * rows + r0 + k] = x[(long long)(r0 + k) * columns + c];
}
template <int kPad>
__global__ void transpose_tile(float* y, const float* x, int rows, int columns) {
  __shared__ float tile[32][32 + kPad];
  int c0 = blockIdx.x * 32, r0 = blockIdx.y * 32;
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (c0 + threadIdx.x < columns && r0 + k < rows)
      tile[k][threadIdx.x] = x[(long long)(r0 + k) * columns + c0 + threadIdx.x];
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (r0 + threadIdx.x < rows && c0 + k < columns)
      y[(long long)(c0 + k) * rows + r0 + threadIdx.x] = tile[threadIdx.x][k];
}
extern "C" int transpose_f32(float* y, const float* x, int rows, int columns, int block, int way, cudaStream_t s) {
  dim3 grid(blocks_for(columns, 32), blocks_for(rows, 32)), threads(32, block / 32);
  if (way == 0) transpose_naive<<<grid, threads, 0, s>>>(y, x, rows, columns);
  if (way == 1) transpose_tile<0><<<grid, threads, 0, s>>>(y, x, rows, columns);
  if (way == 2) transpose_tile<1><<<grid, threads, 0, s>>>(y, x, rows, columns);
  return cudaGetLastError();
}

__global__ void gather_scalar(float* y, const float* table, const int* index, int width) {
  const float* from = table + (long long)index[blockIdx.x] * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[(long long)blockIdx.x * width + i] = from[i];
}
__global__ void gather_vector(float* y, const float* table, const int* index, int width) {
  const float4* from = reinterpret_cast<const float4*>(table + (long long)index[blockIdx.x] * width);
  float4* to = reinterpret_cast<float4*>(y + (long long)blockIdx.x * width);
  for (int i = threadIdx.x; i < width / 4; i += blockDim.x) to[i] = from[i];
}
extern "C" int gather_rows(float* y, const float* table, const int* index, int rows, int width, int block, int way,
                           cudaStream_t s) {
  if (way == 0) gather_scalar<<<rows, block, 0, s>>>(y, table, index, width);
  if (way == 1) gather_vector<<<rows, block, 0, s>>>(y, table, index, width);
  return cudaGetLastError();
}
__global__ void scatter_kernel(int* y, const int* x, const int* index, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[index[i]] = x[i];
}
__global__ void gather_kernel(int* y, const int* x, const int* index, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[index[i]];
}
extern "C" int permute_i32(int* y, const int* x, const int* index, int n, int block, int way, cudaStream_t s) {
  if (way == 0) scatter_kernel<<<blocks_for(n, block), block, 0, s>>>(y, x, index, n);
  if (way == 1) gather_kernel<<<blocks_for(n, block), block, 0, s>>>(y, x, index, n);
  return cudaGetLastError();
}

// Rotary embedding: pairs of neighbours (0) or of halves (1), with tables of sines and cosines.
template <bool kHalves>
__global__ void rope_kernel(half* x, const float* cosine, const float* sine, int heads, int dim) {
  half* row = x + (long long)blockIdx.x * heads * dim;
  for (int i = threadIdx.x; i < heads * dim / 2; i += blockDim.x) {
    int head = i / (dim / 2), pair = i % (dim / 2);
    half* p = row + head * dim + (kHalves ? pair : 2 * pair);
    half* q = p + (kHalves ? dim / 2 : 1);
    float c = cosine[blockIdx.x * (dim / 2) + pair], s = sine[blockIdx.x * (dim / 2) + pair];
    float a = __half2float(*p), b = __half2float(*q);
    *p = __float2half(a * c - b * s);
    *q = __float2half(a * s + b * c);
  }
}
extern "C" int rope_f16(half* x, const float* c, const float* sn, int tokens, int heads, int dim, int block, int way,
                        cudaStream_t s) {
  if (way == 0) rope_kernel<false><<<tokens, block, 0, s>>>(x, c, sn, heads, dim);
  if (way == 1) rope_kernel<true><<<tokens, block, 0, s>>>(x, c, sn, heads, dim);
  return cudaGetLastError();
}

__global__ void stencil_global(float* y, const float* x, int rows, int columns) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c < 1 || c >= columns - 1 || r < 1 || r >= rows - 1) return;
  const float* p = x + (long long)r * columns + c;
  y[(long long)r * columns + c] = 0.5f * p[0] + 0.125f * (p[-1] + p[1] + p[-columns] + p[columns]);
}
__global__ void stencil_shared(float* y, const float* x, int rows, int columns) {
  extern __shared__ float tile[];  // three rows of blockDim + 2
  int width = blockDim.x + 2, c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  for (int k = 0; k < 3; ++k)
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
      int cc = blockIdx.x * blockDim.x + i - 1, rr = r + k - 1;
      tile[k * width + i] =
          cc >= 0 && cc < columns && rr >= 0 && rr < rows ? x[(long long)rr * columns + cc] : 0.0f;
    }
  __syncthreads();
  if (c < 1 || c >= columns - 1 || r < 1 || r >= rows - 1) return;
  const float* p = tile + width + threadIdx.x + 1;
  y[(long long)r * columns + c] = 0.5f * p[0] + 0.125f * (p[-1] + p[1] + p[-width] + p[width]);
}
extern "C" int stencil_f32(float* y, const float* x, int rows, int columns, int block, int way, cudaStream_t s) {
  dim3 grid(blocks_for(columns, block), rows);
  if (way == 0) stencil_global<<<grid, block, 0, s>>>(y, x, rows, columns);
  if (way == 1) stencil_shared<<<grid, block, 3 * (block + 2) * 4, s>>>(y, x, rows, columns);
  return cudaGetLastError();
}

__global__ void histogram_shared(int* h, const unsigned char* x, int n) {
  __shared__ int local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&h[i], local[i]);
}
__global__ void histogram_global(int* h, const unsigned char* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[x[i]], 1);
}
extern "C" int histogram_u8(int* h, const unsigned char* x, int n, int block, int way, cudaStream_t s) {
  int grid = min(blocks_for(n, block * 4), 264);
  if (way == 0) histogram_shared<<<grid, block, 0, s>>>(h, x, n);
  if (way == 1) histogram_global<<<grid, block, 0, s>>>(h, x, n);
  return cudaGetLastError();
}

// Inclusive sums of segments of blockDim elements.
__global__ void scan_shared(int* y, const int* x, int n) {
  extern __shared__ int sums[];
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  sums[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int o = 1; o < blockDim.x; o <<= 1) {
    int v = t >= o ? sums[t - o] : 0;
    __syncthreads();
    sums[t] += v;
    __syncthreads();
  }
  if (i < n) y[i] = sums[t];
}
__global__ void scan_shuffle(int* y, const int* x, int n) {
  __shared__ int parts[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int v = i < n ? x[i] : 0;
  for (int o = 1; o < 32; o <<= 1) {
    int u = __shfl_up_sync(~0u, v, o);
    if (lane >= o) v += u;
  }
  if (lane == 31) parts[warp] = v;
  __syncthreads();
  for (int k = 0; k < warp; ++k) v += parts[k];
  if (i < n) y[i] = v;
}
extern "C" int scan_i32(int* y, const int* x, int n, int block, int way, cudaStream_t s) {
  if (way == 0) scan_shared<<<blocks_for(n, block), block, block * 4, s>>>(y, x, n);
  if (way == 1) scan_shuffle<<<blocks_for(n, block), block, 0, s>>>(y, x, n);
  return cudaGetLastError();
}

// A warp writes and reads its own 1024 words of shared memory by a stride, again and again.
__global__ void shared_words(int* y, const int* x, int stride, int rounds) {
  extern __shared__ int words[];
  int* own = words + threadIdx.x / 32 * 1024;
  int lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  for (int k = 0; k < rounds; ++k) {
    own[(lane * stride + k) & 1023] = v + k;
    __syncwarp();
    v += own[(((lane + 1) & 31) * stride + k) & 1023] & 0xff;
    __syncwarp();
  }
  y[i] = v;
}
extern "C" int shared_stride(int* y, const int* x, int n, int block, int way, cudaStream_t s) {
  const int strides[] = {1, 2, 4, 32};
  shared_words<<<n / block, block, block * 128, s>>>(y, x, strides[way], 8);
  return cudaGetLastError();
}
// Vectors in shared memory: neighbours (0: 8 bytes, 1: 16 bytes) or every second one (2: 16 bytes).
template <class V, int kStep>
__global__ void shared_vectors(int* y, const int* x, int rounds) {
  extern __shared__ uint4 raw[];
  V* own = reinterpret_cast<V*>(raw) + threadIdx.x / 32 * 32 * kStep;
  int lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  for (int k = 0; k < rounds; ++k) {
    V pack;
    int* part = reinterpret_cast<int*>(&pack);
    for (int j = 0; j < sizeof(V) / 4; ++j) part[j] = v + j * k;
    own[lane * kStep] = pack;
    __syncwarp();
    pack = own[((lane + 1 + k) & 31) * kStep];
    for (int j = 0; j < sizeof(V) / 4; ++j) v ^= part[j] >> j;
    __syncwarp();
  }
  y[i] = v;
}
extern "C" int shared_wide(int* y, const int* x, int n, int block, int way, cudaStream_t s) {
  if (way == 0) shared_vectors<uint2, 1><<<n / block, block, block * 8, s>>>(y, x, 8);
  if (way == 1) shared_vectors<uint4, 1><<<n / block, block, block * 16, s>>>(y, x, 8);
  if (way == 2) shared_vectors<uint4, 2><<<n / block, block, block * 32, s>>>(y, x, 8);
  return cudaGetLastError();
}
