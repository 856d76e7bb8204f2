// Attention in heads of 64 features, without a matrix of all scores. It works in tiles of 64 queries and 64 keys, whose scores are computed
// a second time in the backward pass. Factors are halves with one power of two for each sample, as halves.cu explains; sums are in single
// precision.
//
// The queries, keys and values of an item lie side by side in rows of 3 x 64 x heads numbers. A block has four warps, each with 16 rows of
// a tile. A row of a tile in shared memory has 128 bytes, in pieces of 16 whose order differs from row to row, so that the same piece of
// eight rows lies in different banks.

#define HEAD 64
#define HEAD_TILE 64
// How many bytes a row and a tile take.
#define HEAD_ROW (2 * HEAD)
#define HEAD_BYTES (HEAD_TILE * HEAD_ROW)
// The factor that keeps products of gradients and values within the range of halves: both sides are below 2^15, and 64 products are added.
#define HEAD_TAKEN 0x1p-22f

// Starts to copy the rows first..first + 64 of a head, and zeros for rows after the last one. Rows are `row` numbers apart.
__device__ __forceinline__ void copy_head(u32 tile, const uint4* halves, i64 row, int first, int tokens) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int line = (threadIdx.x >> 3) + 16 * i, piece = threadIdx.x & 7;
        bool there = first + line < tokens;
        const uint4* from = halves + (there ? (first + line) * (row / 8) + piece : 0);
        u32 target = tile + line * HEAD_ROW + ((piece ^ (line & 7)) << 4);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(there ? 16 : 0));
    }
}

__device__ __forceinline__ void copies_started() { asm volatile("cp.async.commit_group;"); }

// Waits until no thread of the block has more than LEFT groups of copies on their way.
template <int LEFT>
__device__ __forceinline__ void copies_done() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
    __syncthreads();
}

__device__ __forceinline__ void load_matrices(u32* to, u32 tile, int row, int piece) {
    u32 address = tile + row * HEAD_ROW + ((piece ^ (row & 7)) << 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ __forceinline__ void load_transposed(u32* to, u32 tile, int row, int piece) {
    u32 address = tile + row * HEAD_ROW + ((piece ^ (row & 7)) << 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ __forceinline__ void multiply_halves(float* c, const u32* a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads a warp's 16 rows of a tile as the left factor of products along the features.
__device__ __forceinline__ void load_rows(u32 (*a)[4], u32 tile) {
    int lane = threadIdx.x & 31, row = (threadIdx.x >> 5) * 16 + (lane & 15);
#pragma unroll
    for (int k = 0; k < 4; ++k) load_matrices(a[k], tile, row, 2 * k + (lane >> 4));
}

// Computes c = a b^T along the features, for 16 rows and the 64 rows of a tile.
__device__ __forceinline__ void multiply_rows(float (*c)[4], const u32 (*a)[4], u32 tile) {
    int lane = threadIdx.x & 31, row = (lane & 7) + ((lane >> 4) << 3), piece = (lane >> 3) & 1;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int v = 0; v < 4; ++v) c[n][v] = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            u32 b[4];
            load_matrices(b, tile, 16 * n + row, 2 * k + piece);
            multiply_halves(c[2 * n], a[k], b[0], b[1]);
            multiply_halves(c[2 * n + 1], a[k], b[2], b[3]);
        }
}

// Computes c += p b along the rows of a tile. p has 16 rows of 64 numbers, which are rounded to halves here, and c has all features.
__device__ __forceinline__ void multiply_columns_of(float (*c)[4], const float (*p)[4], u32 tile) {
    int lane = threadIdx.x & 31, row = (lane & 7) + (((lane >> 3) & 1) << 3), piece = lane >> 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        u32 a[4] = {two_halves(p[2 * k][0], p[2 * k][1]), two_halves(p[2 * k][2], p[2 * k][3]),
                    two_halves(p[2 * k + 1][0], p[2 * k + 1][1]), two_halves(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            u32 b[4];
            load_transposed(b, tile, 16 * k + row, 2 * n + piece);
            multiply_halves(c[2 * n], a, b[0], b[1]);
            multiply_halves(c[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// Multiplies a warp's 16 rows of a head by `scale`, and writes them or adds them to what is there.
__device__ __forceinline__ void put_rows(float* y, i64 row, int first, int tokens, const float (*c)[4], float scale, int accumulate) {
    int lane = threadIdx.x & 31, own = first + (threadIdx.x >> 5) * 16 + (lane >> 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (own + 8 * half >= tokens) continue;
        float* to = y + (own + 8 * half) * row + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 8; ++n) put_two(to + 8 * n, c[n][2 * half] * scale, c[n][2 * half + 1] * scale, accumulate);
    }
}

// The largest value, or below the sum, of the four lanes that share a row.
__device__ __forceinline__ float row_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float row_sum(float value) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// The factor that makes exponents of two from products: it takes off the powers of both sides, and holds 1 / sqrt(64) and the logarithm of e
// to base 2.
__device__ __forceinline__ float score_scale(u32 largest) {
    float back = power_of(largest, true);
    return __fmul_rn(__fmul_rn(back, 0.125f * 1.4426950408889634f), back);
}

// Where the head of an item lies that a block works on. Grid: tiles; heads; items.
struct HeadPlace {
    const uint4* halves;
    i64 row;
    int features, first;
    u32 largest;
};

__device__ __forceinline__ HeadPlace head_place(const uint4* halves, const u32* largest, int tokens, int views) {
    int features = gridDim.y * HEAD;
    i64 row = 3 * features;
    return {halves + (blockIdx.z * tokens * row + blockIdx.y * HEAD) / 8, row, features, (int)blockIdx.x * HEAD_TILE,
            largest[blockIdx.z / views]};
}

// Computes the output of each query, and for the backward pass the logarithm (to base 2) of the sum of its weights.
extern "C" __global__ void __launch_bounds__(128)
    attention_forward(const uint4* halves, const u32* largest, float4* y, float* logarithms, int tokens, int views) {
    __shared__ __align__(128) char shared[5 * HEAD_BYTES];
    u32 tiles = (u32)__cvta_generic_to_shared(shared);
    HeadPlace head = head_place(halves, largest, tokens, views);
    const uint4 *keys = head.halves + head.features / 8, *values = keys + head.features / 8;
    auto copy = [&](int step) {
        u32 stage = tiles + (1 + 2 * (step & 1)) * HEAD_BYTES;
        copy_head(stage, keys, head.row, step * HEAD_TILE, tokens);
        copy_head(stage + HEAD_BYTES, values, head.row, step * HEAD_TILE, tokens);
        copies_started();
    };
    copy_head(tiles, head.halves, head.row, head.first, tokens);
    copy(0);
    int steps = (tokens + HEAD_TILE - 1) / HEAD_TILE, lane = threadIdx.x & 31;
    float scale = score_scale(head.largest), most[2] = {-INFINITY, -INFINITY}, total[2] = {}, o[8][4] = {};
    u32 q[4][4];
    for (int step = 0; step < steps; ++step) {
        copies_done<0>();
        if (step == 0) load_rows(q, tiles);
        if (step + 1 < steps) copy(step + 1);
        u32 stage = tiles + (1 + 2 * (step & 1)) * HEAD_BYTES;
        float s[8][4];
        multiply_rows(s, q, stage);
        int left = tokens - step * HEAD_TILE;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int v = 0; v < 4; ++v) s[n][v] = 8 * n + 2 * (lane & 3) + (v & 1) < left ? s[n][v] * scale : -INFINITY;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float largest_score = most[half];
#pragma unroll
            for (int n = 0; n < 8; ++n) largest_score = fmaxf(largest_score, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
            largest_score = row_max(largest_score);
            float faded = exp2f(most[half] - largest_score), sum = 0.0f;
            most[half] = largest_score;
#pragma unroll
            for (int n = 0; n < 8; ++n)
#pragma unroll
                for (int v = 2 * half; v < 2 * half + 2; ++v) {
                    s[n][v] = exp2f(s[n][v] - largest_score);
                    sum += s[n][v];
                    o[n][v] *= faded;
                }
            total[half] = total[half] * faded + sum;
        }
        multiply_columns_of(o, s, stage + HEAD_BYTES);
    }
    float back = power_of(head.largest, true);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = row_sum(total[half]);
        int row = head.first + (threadIdx.x >> 5) * 16 + (lane >> 2) + 8 * half;
        if ((lane & 3) == 0 && row < tokens)
            logarithms[((i64)blockIdx.z * gridDim.y + blockIdx.y) * tokens + row] = most[half] + log2f(sum);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            o[n][2 * half] /= sum;
            o[n][2 * half + 1] /= sum;
        }
    }
    put_rows((float*)y + blockIdx.z * (i64)tokens * head.features + blockIdx.y * HEAD, head.features, head.first, tokens, o, back, 0);
}

// Computes the product of each token's output with its gradient, head by head: [items, heads, tokens]. Each has a warp of its own.
KERNEL attention_along(const float4* y, const float4* g, float* along, int heads, int tokens, i64 n) {
    i64 i = global_index() >> 5;
    if (i >= n) return;
    int lane = threadIdx.x & 31;
    i64 item = i / ((i64)heads * tokens), head = i / tokens % heads, token = i % tokens;
    i64 at = (item * tokens + token) * heads * HEAD + head * HEAD + 2 * lane;
    float2 value = ((const float2*)y)[at / 2], gradient = ((const float2*)g)[at / 2];
    float sum = warp_sum(value.x * gradient.x + value.y * gradient.y);
    if (lane == 0) along[i] = sum;
}

// What a block of the backward pass needs: the place of its head, the gradient of the head's output in halves, and scales.
struct HeadGradient {
    HeadPlace head;
    const uint4* gradient;
    const float *logarithms, *along;
    // The scale of scores; the one that, with the gradient's power, brings `along` to the size of products of gradients and values; and those
    // of the values' gradients, and of the queries' and keys' gradients.
    float scale, up, of_values, of_scores;
};

__device__ __forceinline__ HeadGradient head_gradient(const uint4* halves, const u32* largest, const uint4* g, const u32* g_largest,
                                                      const float* logarithms, const float* along, int tokens, int views) {
    HeadPlace head = head_place(halves, largest, tokens, views);
    u32 own = g_largest[blockIdx.z / views];
    i64 rows = ((i64)blockIdx.z * gridDim.y + blockIdx.y) * tokens;
    float back = power_of(head.largest, true), g_back = power_of(own, true);
    return {head,
            g + ((i64)blockIdx.z * tokens * head.features + blockIdx.y * HEAD) / 8,
            logarithms + rows,
            along + rows,
            score_scale(head.largest),
            __fmul_rn(power_of(head.largest, false), HEAD_TAKEN),
            g_back,
            __fmul_rn(__fmul_rn(__fmul_rn(back, 0.125f / HEAD_TAKEN), back), g_back)};
}

// Turns a score s into its weight, and the gradient d of the weight into that of the score, within the range of halves. What lies along the
// output is taken off d.
__device__ __forceinline__ void score_gradient(float* s, float* d, const HeadGradient& own, float g_power, float logarithm, float along,
                                               bool there) {
    *s = there ? exp2f(*s * own.scale - logarithm) : 0.0f;
    *d = there ? *s * (*d * HEAD_TAKEN - along * own.up * g_power) : 0.0f;
}

// Computes the gradients of the queries, with six tiles in dynamic shared memory. Grid: tiles of queries; heads; items.
extern "C" __global__ void __launch_bounds__(128)
    attention_queries(const uint4* halves, const u32* largest, const uint4* g, const u32* g_largest, const float* logarithms,
                      const float* along, float4* dx, int tokens, int views, int accumulate) {
    u32 tiles = (u32)__cvta_generic_to_shared(stages);
    HeadGradient own = head_gradient(halves, largest, g, g_largest, logarithms, along, tokens, views);
    const HeadPlace& head = own.head;
    const uint4 *keys = head.halves + head.features / 8, *values = keys + head.features / 8;
    auto copy = [&](int step) {
        u32 stage = tiles + (2 + 2 * (step & 1)) * HEAD_BYTES;
        copy_head(stage, keys, head.row, step * HEAD_TILE, tokens);
        copy_head(stage + HEAD_BYTES, values, head.row, step * HEAD_TILE, tokens);
        copies_started();
    };
    copy_head(tiles, head.halves, head.row, head.first, tokens);
    copy_head(tiles + HEAD_BYTES, own.gradient, head.features, head.first, tokens);
    copy(0);
    int steps = (tokens + HEAD_TILE - 1) / HEAD_TILE, lane = threadIdx.x & 31;
    int row = head.first + (threadIdx.x >> 5) * 16 + (lane >> 2);
    float g_power = power_of(g_largest[blockIdx.z / views], false), logarithm[2], taken[2], dq[8][4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        bool there = row + 8 * half < tokens;
        logarithm[half] = there ? own.logarithms[row + 8 * half] : 0.0f;
        taken[half] = there ? own.along[row + 8 * half] : 0.0f;
    }
    u32 q[4][4], o[4][4];
    for (int step = 0; step < steps; ++step) {
        copies_done<0>();
        if (step == 0) {
            load_rows(q, tiles);
            load_rows(o, tiles + HEAD_BYTES);
        }
        if (step + 1 < steps) copy(step + 1);
        u32 stage = tiles + (2 + 2 * (step & 1)) * HEAD_BYTES;
        float s[8][4], d[8][4];
        multiply_rows(s, q, stage);
        multiply_rows(d, o, stage + HEAD_BYTES);
        int left = tokens - step * HEAD_TILE;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int v = 0; v < 4; ++v)
                score_gradient(&s[n][v], &d[n][v], own, g_power, logarithm[v >> 1], taken[v >> 1], 8 * n + 2 * (lane & 3) + (v & 1) < left);
        multiply_columns_of(dq, d, stage);
    }
    put_rows((float*)dx + blockIdx.z * tokens * head.row + blockIdx.y * HEAD, head.row, head.first, tokens, dq, own.of_scores, accumulate);
}

// Computes the gradients of the keys and the values, with six tiles in dynamic shared memory. Grid: tiles of keys; heads; items.
extern "C" __global__ void __launch_bounds__(128)
    attention_keys(const uint4* halves, const u32* largest, const uint4* g, const u32* g_largest, const float* logarithms,
                   const float* along, float4* dx, int tokens, int views, int accumulate) {
    __shared__ float columns[2][2][HEAD_TILE];
    u32 tiles = (u32)__cvta_generic_to_shared(stages);
    HeadGradient own = head_gradient(halves, largest, g, g_largest, logarithms, along, tokens, views);
    const HeadPlace& head = own.head;
    const uint4 *keys = head.halves + head.features / 8, *values = keys + head.features / 8;
    auto copy = [&](int step) {
        u32 stage = tiles + (2 + 2 * (step & 1)) * HEAD_BYTES;
        copy_head(stage, head.halves, head.row, step * HEAD_TILE, tokens);
        copy_head(stage + HEAD_BYTES, own.gradient, head.features, step * HEAD_TILE, tokens);
        copies_started();
        int row = step * HEAD_TILE + (threadIdx.x & 63);
        const float* from = threadIdx.x < HEAD_TILE ? own.logarithms : own.along;
        columns[step & 1][threadIdx.x >> 6][threadIdx.x & 63] = row < tokens ? from[row] : 0.0f;
    };
    copy_head(tiles, keys, head.row, head.first, tokens);
    copy_head(tiles + HEAD_BYTES, values, head.row, head.first, tokens);
    copy(0);
    int steps = (tokens + HEAD_TILE - 1) / HEAD_TILE, lane = threadIdx.x & 31;
    int row = head.first + (threadIdx.x >> 5) * 16 + (lane >> 2);
    float g_power = power_of(g_largest[blockIdx.z / views], false), dk[8][4] = {}, dv[8][4] = {};
    u32 k[4][4], w[4][4];
    for (int step = 0; step < steps; ++step) {
        copies_done<0>();
        if (step == 0) {
            load_rows(k, tiles);
            load_rows(w, tiles + HEAD_BYTES);
        }
        if (step + 1 < steps) copy(step + 1);
        u32 stage = tiles + (2 + 2 * (step & 1)) * HEAD_BYTES;
        float s[8][4], d[8][4];
        multiply_rows(s, k, stage);
        multiply_rows(d, w, stage + HEAD_BYTES);
        int left = tokens - step * HEAD_TILE;
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                int column = 8 * n + 2 * (lane & 3) + (v & 1);
                bool there = column < left && row + 8 * (v >> 1) < tokens;
                score_gradient(&s[n][v], &d[n][v], own, g_power, columns[step & 1][0][column], columns[step & 1][1][column], there);
            }
        multiply_columns_of(dv, s, stage + HEAD_BYTES);
        multiply_columns_of(dk, d, stage);
    }
    float* to = (float*)dx + blockIdx.z * tokens * head.row + head.features + blockIdx.y * HEAD;
    put_rows(to, head.row, head.first, tokens, dk, own.of_scores, accumulate);
    put_rows(to + head.features, head.row, head.first, tokens, dv, own.of_values, accumulate);
}
