// Shared by all kernels. Tensors are row-major with the item (one view of one sample) as the outermost axis. No tensor of a microbatch
// has 2^31 values, so that an index divides as 32 bits; addresses are 64.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

#define INFINITY __int_as_float(0x7f800000)
#define KERNEL extern "C" __global__ void

__device__ __forceinline__ i64 global_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
    for (int offset = 16; offset > 0; offset >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// The sum over a block, for every thread. `scratch` holds one value per warp.
template <typename T>
__device__ T block_sum(T value, T* scratch) {
    value = warp_sum(value);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = value;
    __syncthreads();
    T total = 0;
    for (int warp = 0; warp < (int)((blockDim.x + 31) >> 5); ++warp) total += scratch[warp];
    return total;
}

__device__ __forceinline__ void put(float* target, float value, int accumulate) {
    *target = accumulate ? *target + value : value;
}
