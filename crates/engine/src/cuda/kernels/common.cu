// What all kernels share. Tensors are row-major, with the item (one view of one sample) as the outermost axis. No tensor of a microbatch has
// 2^31 values, so indices can be divided in 32 bits; addresses are computed in 64.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

// The precisions of products, of which the program is compiled for one; product.cu explains them.
#define SPLIT 0
#define TF32 1
#define BF16 2
#ifndef PRECISION
#define PRECISION SPLIT
#endif

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

// The sum over a block, which every thread receives. `scratch` holds one value for each warp.
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

// Does the same as `put` for two neighbours, the first of which has an even index.
__device__ __forceinline__ void put_two(float* target, float first, float second, int accumulate) {
    float2 there = accumulate ? *(float2*)target : make_float2(0.0f, 0.0f);
    *(float2*)target = make_float2(there.x + first, there.y + second);
}

// Four floats of a row, as a vector of 16 bytes.
struct __align__(16) Four {
    float of[4];
};

// How many floats can be read or written at once in a row that starts `start` floats after an aligned address. Nothing else may depend on
// where a row lies, so that a sample's sums have the same order at every place of a microbatch.
__device__ __forceinline__ int together(i64 start) { return (start & 3) == 0 ? 4 : (start & 1) == 0 ? 2 : 1; }

// Floats i..i + 4 of a row of n floats, of which `width` are read at once. Beyond the row they are zero.
__device__ __forceinline__ Four load_four(const float* row, int i, int n, int width = 4) {
    Four four;
    if (width == 4 && i >= 0 && i + 4 <= n) {
        *(float4*)four.of = *(const float4*)(row + i);
    } else if (width == 2 && i >= 0 && i + 4 <= n) {
        *(float2*)four.of = *(const float2*)(row + i);
        *(float2*)(four.of + 2) = *(const float2*)(row + i + 2);
    } else {
#pragma unroll
        for (int v = 0; v < 4; ++v) four.of[v] = (u32)(i + v) < (u32)n ? row[i + v] : 0.0f;
    }
    return four;
}

__device__ __forceinline__ void store_four(float* row, int i, int n, const Four& four, int width = 4) {
    if (width == 4 && i >= 0 && i + 4 <= n) {
        *(float4*)(row + i) = *(const float4*)four.of;
    } else if (width == 2 && i >= 0 && i + 4 <= n) {
        *(float2*)(row + i) = *(const float2*)four.of;
        *(float2*)(row + i + 2) = *(const float2*)(four.of + 2);
    } else {
#pragma unroll
        for (int v = 0; v < 4; ++v)
            if ((u32)(i + v) < (u32)n) row[i + v] = four.of[v];
    }
}

// Splits a value into the nearest number of 11 bits, which is left in its place, and the rest, which is returned.
__device__ __forceinline__ float split(float* value) {
    float high = __uint_as_float((__float_as_uint(*value) + 0x1000u) & 0xffffe000u);
    float low = *value - high;
    *value = high;
    return low;
}

// The number 1.5 2^23. A sum with it is rounded to a whole number, which is then in its low bits. This works for numbers below 2^22 in size.
#define MAGIC 12582912.0f

// The sum after a sample was added to it: the whole number round(factor (value - mean)) in two's complement, or without clipping the value.
__device__ __forceinline__ u32 added(u32 sum, float value, float mean, float factor, int whole) {
    if (whole) return sum + __float_as_uint(__fmaf_rn(__fsub_rn(value, mean), factor, MAGIC)) - __float_as_uint(MAGIC);
    return __float_as_uint(__fadd_rn(__uint_as_float(sum), value));
}

// Adds a part of a sum to the whole sum. Whole numbers may come from several blocks in any order; plain numbers come from one block.
__device__ __forceinline__ void join_sum(u32* target, u32 part, int whole) {
    if (whole) {
        atomicAdd(target, part);
    } else {
        *target = __float_as_uint(__fadd_rn(__uint_as_float(*target), __uint_as_float(part)));
    }
}
