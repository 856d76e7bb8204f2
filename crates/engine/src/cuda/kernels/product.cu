// Products on the tensor cores, which all convolutions share, in the precision that the program is compiled for.
//
// SPLIT: the tensor cores multiply in TF32 (11 bits), so each float is split into a high and a low part, and the three largest of the four
// products are added in single precision, which keeps a product's error near 2^-21. TF32: there is one product of the first 11 bits alone.
// BF16: factors are rounded to 8 bits. Sums are always in single precision, but the tensor cores cut a sum off where they should round it, so
// the errors of a long sum add up. Kernels therefore take a part of the sum at a time, and add it to the result so far.

// The stages of a convolution, in dynamic shared memory.
extern __shared__ float stages[];

__device__ __forceinline__ void async_copy_4(float* target, const float* source, bool valid) {
    u32 address = (u32)__cvta_generic_to_shared(target);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source), "r"(valid ? 4 : 0));
}

__device__ __forceinline__ void async_copy_16(float* target, const float* source, bool valid) {
    u32 address = (u32)__cvta_generic_to_shared(target);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(valid ? 16 : 0));
}

__device__ __forceinline__ void copies_started() { asm volatile("cp.async.commit_group;"); }

// Waits until no thread of the block has more than LEFT groups of copies on their way.
template <int LEFT>
__device__ __forceinline__ void copies_done() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
    __syncthreads();
}

// The factors of products that halves.cu explains.
#if PRECISION == BF16
#define HALF_FACTORS "bf16.bf16"
#else
#define HALF_FACTORS "f16.f16"
#endif

// c += a b, for 16 rows and 8 columns with 16 halves between them.
__device__ __forceinline__ void multiply_halves(float* c, const u32* a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_FACTORS ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers rounded to bf16, in one register.
__device__ __forceinline__ float pack(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return __uint_as_float(pair);
}

// c += a b, for 16 rows and 8 columns with 8 numbers between them.
__device__ __forceinline__ void multiply_add(float* c, const float* a, const float* b) {
    if (PRECISION == BF16) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(b[0])));
    } else {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
              "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
    }
}

// Loads a lane's share of 32 rows of the left factor, with their low parts if factors are split. The numbers between the factors may come in
// any order that is the same on both sides; in BF16 each register pairs numbers that are four apart.
__device__ __forceinline__ void load_left(float (*a)[4], float (*low)[4], const float* row, int pitch) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float* at = row + 16 * i * pitch;
        a[i][0] = at[0];
        a[i][1] = at[8 * pitch];
        a[i][2] = at[4];
        a[i][3] = at[8 * pitch + 4];
        if (PRECISION == SPLIT)
#pragma unroll
            for (int j = 0; j < 4; ++j) low[i][j] = split(&a[i][j]);
        if (PRECISION == BF16) {
            a[i][0] = pack(a[i][0], a[i][2]);
            a[i][1] = pack(a[i][1], a[i][3]);
        }
    }
}

// Multiplies 32 rows by columns first..first + N of TOTAL. The three passes of a split product are kept apart, so that none waits for the one
// before it.
template <int N, int TOTAL>
__device__ __forceinline__ void multiply_columns(float (*c)[TOTAL][4], int first, const float (*a)[4], const float (*a_low)[4],
                                                 float (*b)[2]) {
    if (PRECISION == SPLIT) {
        float b_low[N][2];
#pragma unroll
        for (int n = 0; n < N && first + n < TOTAL; ++n) {
            b_low[n][0] = split(&b[n][0]);
            b_low[n][1] = split(&b[n][1]);
        }
#pragma unroll
        for (int n = 0; n < N && first + n < TOTAL; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) multiply_add(c[i][first + n], a_low[i], b[n]);
#pragma unroll
        for (int n = 0; n < N && first + n < TOTAL; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) multiply_add(c[i][first + n], a[i], b_low[n]);
    }
    if (PRECISION == BF16)
#pragma unroll
        for (int n = 0; n < N && first + n < TOTAL; ++n) b[n][0] = pack(b[n][0], b[n][1]);
#pragma unroll
    for (int n = 0; n < N && first + n < TOTAL; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply_add(c[i][first + n], a[i], b[n]);
}
