// Matrix products whose factors are halves.
//
// A half has the 11 bits to which TF32 rounds factors, and the tensor cores multiply halves twice as fast, but its range is small. So all
// numbers of a sample, or of a weight, are multiplied by the power of two that brings the largest of them to 2^14 or more but below 2^15.
// A number that is 2^-28 of the largest then still has all of its bits. The power of a sample follows from that sample alone.
//
// If products round to 8 bits (BF16), a half is a bf16 instead. Its range is that of single precision, so there are no powers, and
// `largest` is missing.

// How many columns a block of threads reads, four to a thread, and how many rows it reads at a time.
#define STRIP 64
#define STRIP_ROWS 16

// Finds the size of each sample's largest number, as bits. By its bits, NaN is larger than any number. If d is given, it becomes the sum over
// all rows, which is the gradient of a bias. Grid: strips of columns; samples.
extern "C" __global__ void __launch_bounds__(256)
    sizes_of_samples(const float4* x, int columns, int rows, float* d, i64 stride, u32* largest) {
    __shared__ Four parts[STRIP_ROWS][STRIP / 4];
    int lane = threadIdx.x & 15, line = threadIdx.x >> 4, column = blockIdx.x * STRIP + 4 * lane;
    u32 size = 0;
    Four sum = {};
    if (column < columns) {
        const float* from = (const float*)x + (i64)blockIdx.y * rows * columns + column;
#pragma unroll 4
        for (int row = line; row < rows; row += STRIP_ROWS) {
            Four four = *(const Four*)(from + (i64)row * columns);
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                size = max(size, __float_as_uint(four.of[v]) & 0x7fffffffu);
                sum.of[v] += four.of[v];
            }
        }
    }
    size = __reduce_max_sync(0xffffffffu, size);
    if ((threadIdx.x & 31) == 0) atomicMax(largest + blockIdx.y, size);
    if (!d) return;
    parts[line][lane] = sum;
    __syncthreads();
    if (line > 0 || column >= columns) return;
    for (int other = 1; other < STRIP_ROWS; ++other)
#pragma unroll
        for (int v = 0; v < 4; ++v) sum.of[v] += parts[other][lane].of[v];
    float* to = d + blockIdx.y * stride + column;
#pragma unroll
    for (int v = 0; v < 4; ++v) to[v] = sum.of[v];
}

// The size of a part's largest number. If it is missing, this is a size whose power is one.
__device__ __forceinline__ u32 largest_of(const u32* largest, i64 part) { return largest ? largest[part] : 141u << 23; }

// The power of two by which numbers are multiplied, or one over it. It is NaN if one of the numbers is not finite.
__device__ __forceinline__ float power_of(u32 largest, bool back) {
    int exponent = (int)(largest >> 23);
    if (exponent == 255) return __uint_as_float(0x7fffffffu);
    int power = min(141 - exponent, 126);
    return __uint_as_float((u32)(127 + (back ? -power : power)) << 23);
}

// Takes a power of two on or off. A bf16 has none.
__device__ __forceinline__ float scaled(float value, float power) { return PRECISION == BF16 ? value : __fmul_rn(value, power); }

// Rounds two numbers to halves, which share a register.
__device__ __forceinline__ u32 two_halves(float low, float high) {
    u32 pair;
#if PRECISION == BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
    return pair;
}

// Turns two halves back into numbers.
__device__ __forceinline__ void from_halves(u32 pair, float* low, float* high) {
#if PRECISION == BF16
    *low = __uint_as_float(pair << 16);
    *high = __uint_as_float(pair & 0xffff0000u);
#else
    asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(*low), "=f"(*high) : "r"(pair));
#endif
}

// Rounds numbers to halves. Each run of `len` numbers, which eight divides, shares one power. Each thread rounds eight.
KERNEL to_halves(const float4* x, uint4* halves, const u32* largest, i64 len, i64 n) {
    i64 i = global_index();
    if (8 * i >= n) return;
    float power = power_of(largest_of(largest, 8 * (u32)i / (u32)len), false);
    float4 low = x[2 * i], high = x[2 * i + 1];
    halves[i] = make_uint4(two_halves(low.x * power, low.y * power), two_halves(low.z * power, low.w * power),
                           two_halves(high.x * power, high.y * power), two_halves(high.z * power, high.w * power));
}

// Takes the powers of both factors off a product, and adds a bias if there is one. A sample has `len` values. Each thread takes four.
KERNEL take_powers_off(float4* y, const u32* largest, const u32* weight_largest, const float4* bias, int channels, i64 len, i64 n) {
    i64 i = 4 * global_index();
    if (i >= n) return;
    float power = __fmul_rn(power_of(largest[(u32)i / (u32)len], true), power_of(*weight_largest, true));
    float4 own = y[i / 4], shift = bias ? bias[(u32)i % (u32)channels / 4] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    y[i / 4] = make_float4(__fmaf_rn(own.x, power, shift.x), __fmaf_rn(own.y, power, shift.y), __fmaf_rn(own.z, power, shift.z),
                           __fmaf_rn(own.w, power, shift.w));
}

// A run of a weight that a block of `sum_halves` adds up: how many pairs of a sample come before the weight, how many the weight has, which
// of its numbers the run begins with, the run's length, where it begins in the sum, its parameter, and the number of its scale.
struct HalvedBlock {
    int start, stride, first, len, target, entry, number;
};
static_assert(sizeof(HalvedBlock) == 28, "as on the host");

// How many samples' factors a block holds at a time, and how many samples' halves a thread fetches before it adds them.
#define HALVED_SAMPLES 64
#define HALVED_TOGETHER 8

// Eight neighbours of a sum, of which four are read and written at once if they are aligned.
__device__ __forceinline__ void load_sum(u32* total, const u32* sum) {
    if (((u64)sum & 15) == 0) {
        *(uint4*)total = *(const uint4*)sum;
        *(uint4*)(total + 4) = *(const uint4*)(sum + 4);
    } else {
#pragma unroll
        for (int v = 0; v < 8; ++v) total[v] = sum[v];
    }
}

__device__ __forceinline__ void store_sum(u32* sum, const u32* total) {
    if (((u64)sum & 15) == 0) {
        *(uint4*)sum = *(const uint4*)total;
        *(uint4*)(sum + 4) = *(const uint4*)(total + 4);
    } else {
#pragma unroll
        for (int v = 0; v < 8; ++v) sum[v] = total[v];
    }
}

// Adds all samples' gradients of weights that are in halves to the sum, sample after sample. Each thread has eight weights of its own. Memory
// holds `held` samples, of which the first `samples` count. Grid: blocks.
extern "C" __global__ void __launch_bounds__(256)
    sum_halves(const uint4* d, const HalvedBlock* blocks, int held, const float* scales, int scale_stride, const float* factors, int entries,
               u32* sum, int samples, int whole) {
    __shared__ float2 shares[HALVED_SAMPLES];
    const HalvedBlock block = blocks[blockIdx.x];
    int i = 8 * threadIdx.x;
    bool own = i < block.len;
    i64 stride = block.stride / 4;
    d += (i64)(block.start / 4) * held + (own ? (block.first + i) / 8 : 0);
    sum += block.target + i;
    __align__(16) u32 total[8] = {};
    if (own) load_sum(total, sum);
    for (int start = 0; start < samples; start += HALVED_SAMPLES) {
        int count = min(HALVED_SAMPLES, samples - start);
        __syncthreads();
        // Places after the last sample add nothing.
        for (int sample = threadIdx.x; sample < HALVED_SAMPLES; sample += blockDim.x)
            shares[sample] = sample < count ? make_float2(scales[(i64)(start + sample) * scale_stride + block.number],
                                                          factors[(i64)(start + sample) * entries + block.entry])
                                            : make_float2(0.0f, 0.0f);
        __syncthreads();
        for (int first = 0; first < count; first += HALVED_TOGETHER) {
            uint4 eights[HALVED_TOGETHER];
#pragma unroll
            for (int v = 0; v < HALVED_TOGETHER; ++v) eights[v] = d[(start + min(first + v, count - 1)) * stride];
#pragma unroll
            for (int v = 0; v < HALVED_TOGETHER; ++v) {
                float2 share = shares[first + v];
                if (share.y == 0.0f) continue;
                u32 pairs[4] = {eights[v].x, eights[v].y, eights[v].z, eights[v].w};
#pragma unroll
                for (int pair = 0; pair < 4; ++pair) {
                    float low, high;
                    from_halves(pairs[pair], &low, &high);
                    total[2 * pair] = added(total[2 * pair], scaled(low, share.x), 0.0f, share.y, whole);
                    total[2 * pair + 1] = added(total[2 * pair + 1], scaled(high, share.x), 0.0f, share.y, whole);
                }
            }
        }
    }
    if (own) store_sum(sum, total);
}
