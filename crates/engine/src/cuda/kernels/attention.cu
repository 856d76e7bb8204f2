// Attention in heads of 64 features, without a matrix of all scores. It works in tiles of 64 queries and 64 keys, whose scores are computed
// a second time in the backward pass. Factors are halves with one power of two for each sample, or bf16 without, as halves.cu explains; sums
// are in single precision. What lies behind the last token is not multiplied, in pieces of 16 rows and columns.
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
#define HEAD_TAKEN (PRECISION == BF16 ? 1.0f : 0x1p-22f)

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

#if PRECISION == BF16
#define HALF_FACTORS "bf16.bf16"
#else
#define HALF_FACTORS "f16.f16"
#endif

__device__ __forceinline__ void multiply_halves(float* c, const u32* a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_FACTORS ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads a warp's 16 rows of a tile as the left factor of products along the features.
__device__ __forceinline__ void load_rows(u32 (*a)[4], u32 tile) {
    int lane = threadIdx.x & 31, row = (threadIdx.x >> 5) * 16 + (lane & 15);
#pragma unroll
    for (int k = 0; k < 4; ++k) load_matrices(a[k], tile, row, 2 * k + (lane >> 4));
}

// Computes c = a b^T along the features, for 16 rows and those rows of a tile that are there, of which `left` are left. If the tile is WHOLE,
// these are all 64.
template <bool WHOLE>
__device__ __forceinline__ void multiply_rows(float (*c)[4], const u32 (*a)[4], u32 tile, int left) {
    int lane = threadIdx.x & 31, row = (lane & 7) + ((lane >> 4) << 3), piece = (lane >> 3) & 1;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int v = 0; v < 4; ++v) c[n][v] = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            if (!WHOLE && 16 * n >= left) continue;
            u32 b[4];
            load_matrices(b, tile, 16 * n + row, 2 * k + piece);
            multiply_halves(c[2 * n], a[k], b[0], b[1]);
            multiply_halves(c[2 * n + 1], a[k], b[2], b[3]);
        }
}

// Computes c += p b along those rows of a tile that are there. p has 16 rows of 64 numbers, which are rounded to halves here, and c has all
// features.
template <bool WHOLE>
__device__ __forceinline__ void multiply_columns_of(float (*c)[4], const float (*p)[4], u32 tile, int left) {
    int lane = threadIdx.x & 31, row = (lane & 7) + (((lane >> 3) & 1) << 3), piece = lane >> 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (!WHOLE && 16 * k >= left) continue;
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

// Both of the above, for as many rows as there are.
__device__ __forceinline__ void multiply_rows(float (*c)[4], const u32 (*a)[4], u32 tile, int left) {
    if (left >= HEAD_TILE) multiply_rows<true>(c, a, tile, left);
    else multiply_rows<false>(c, a, tile, left);
}

__device__ __forceinline__ void multiply_columns_of(float (*c)[4], const float (*p)[4], u32 tile, int left) {
    if (left >= HEAD_TILE) multiply_columns_of<true>(c, p, tile, left);
    else multiply_columns_of<false>(c, p, tile, left);
}

// Whether a warp of a block whose rows begin at `first` has a row that is there.
__device__ __forceinline__ bool has_rows(int first, int tokens) { return first + (int)(threadIdx.x >> 5) * 16 < tokens; }

// Multiplies a warp's 16 rows of a head by `scale`, and writes them or adds them to what is there. The head begins `start` numbers after y,
// whose numbers are halves if it is narrow; then nothing can be added.
__device__ __forceinline__ void put_rows(u32* y, i64 start, i64 row, int first, int tokens, const float (*c)[4], float scale, int narrow,
                                         int accumulate) {
    int lane = threadIdx.x & 31, own = first + (threadIdx.x >> 5) * 16 + (lane >> 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (own + 8 * half >= tokens) continue;
        i64 at = start + (own + 8 * half) * row + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            float one = c[n][2 * half] * scale, next = c[n][2 * half + 1] * scale;
            if (narrow) y[at / 2 + 4 * n] = two_halves(one, next);
            else put_two((float*)y + at + 8 * n, one, next, accumulate);
        }
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
            largest_of(largest, blockIdx.z / views)};
}

// Computes the output of each query, and for the backward pass the logarithm (to base 2) of the sum of its weights.
extern "C" __global__ void __launch_bounds__(128, 4)
    attention_forward(const uint4* halves, const u32* largest, u32* y, float* logarithms, int tokens, int views, int narrow) {
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
        if (!has_rows(head.first, tokens)) continue;
        u32 stage = tiles + (1 + 2 * (step & 1)) * HEAD_BYTES;
        int left = tokens - step * HEAD_TILE;
        float s[8][4];
        multiply_rows(s, q, stage, left);
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
        multiply_columns_of(o, s, stage + HEAD_BYTES, left);
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
    i64 start = blockIdx.z * (i64)tokens * head.features + blockIdx.y * HEAD;
    put_rows(y, start, head.features, head.first, tokens, o, back, narrow, 0);
}

// Computes the product of each token's output with its gradient, head by head: [items, heads, tokens]. Each has a warp of its own.
KERNEL attention_along(const u32* y, const u32* g, float* along, int heads, int tokens, i64 n, int narrow) {
    i64 i = global_index() >> 5;
    if (i >= n) return;
    int lane = threadIdx.x & 31;
    i64 item = i / ((i64)heads * tokens), head = i / tokens % heads, token = i % tokens;
    i64 at = ((item * tokens + token) * heads * HEAD + head * HEAD) / 2 + lane;
    float2 value, gradient;
    if (narrow) {
        from_halves(y[at], &value.x, &value.y);
        from_halves(g[at], &gradient.x, &gradient.y);
    } else {
        value = ((const float2*)y)[at];
        gradient = ((const float2*)g)[at];
    }
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
    u32 own = largest_of(g_largest, blockIdx.z / views);
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

// Two matrices that belong together, as a block of the backward pass copies them to neighbouring tiles, with the distances of their rows.
struct HeadPair {
    const uint4 *first, *second;
    i64 first_row, second_row;
};

__device__ __forceinline__ void copy_pair(u32 tiles, const HeadPair& pair, int first, int tokens) {
    copy_head(tiles, pair.first, pair.first_row, first, tokens);
    copy_head(tiles + HEAD_BYTES, pair.second, pair.second_row, first, tokens);
}

// Multiplies a block's own rows of two matrices by all rows of two others, a tile at a time, with six tiles in dynamic shared memory. `start`
// is called when the copies of a step begin. `visit` gets the step, its tiles, how many rows are left, and both products.
template <typename Start, typename Visit>
__device__ __forceinline__ void multiply_pairs(const HeadPair& own, const HeadPair& others, int first, int tokens, Start start,
                                               Visit visit) {
    u32 tiles = (u32)__cvta_generic_to_shared(stages), a[4][4], b[4][4];
    auto copy = [&](int step) {
        copy_pair(tiles + (2 + 2 * (step & 1)) * HEAD_BYTES, others, step * HEAD_TILE, tokens);
        copies_started();
        start(step);
    };
    copy_pair(tiles, own, first, tokens);
    copy(0);
    int steps = (tokens + HEAD_TILE - 1) / HEAD_TILE;
    for (int step = 0; step < steps; ++step) {
        copies_done<0>();
        if (step == 0) {
            load_rows(a, tiles);
            load_rows(b, tiles + HEAD_BYTES);
        }
        if (step + 1 < steps) copy(step + 1);
        if (!has_rows(first, tokens)) continue;
        u32 stage = tiles + (2 + 2 * (step & 1)) * HEAD_BYTES;
        int left = tokens - step * HEAD_TILE;
        float s[8][4], d[8][4];
        multiply_rows(s, a, stage, left);
        multiply_rows(d, b, stage + HEAD_BYTES, left);
        visit(step, stage, left, s, d);
    }
}

// Computes the gradients of the queries. Grid: tiles of queries; heads; items.
extern "C" __global__ void __launch_bounds__(128, 3)
    attention_queries(const uint4* halves, const u32* largest, const uint4* g, const u32* g_largest, const float* logarithms,
                      const float* along, u32* dx, int tokens, int views, int narrow, int accumulate) {
    HeadGradient own = head_gradient(halves, largest, g, g_largest, logarithms, along, tokens, views);
    const HeadPlace& head = own.head;
    const uint4 *keys = head.halves + head.features / 8, *values = keys + head.features / 8;
    int lane = threadIdx.x & 31, row = head.first + (threadIdx.x >> 5) * 16 + (lane >> 2);
    float g_power = power_of(largest_of(g_largest, blockIdx.z / views), false), logarithm[2], taken[2], dq[8][4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        bool there = row + 8 * half < tokens;
        logarithm[half] = there ? own.logarithms[row + 8 * half] : 0.0f;
        taken[half] = there ? own.along[row + 8 * half] : 0.0f;
    }
    auto visit = [&](int, u32 stage, int left, float (*s)[4], float (*d)[4]) {
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int v = 0; v < 4; ++v)
                score_gradient(&s[n][v], &d[n][v], own, g_power, logarithm[v >> 1], taken[v >> 1], 8 * n + 2 * (lane & 3) + (v & 1) < left);
        multiply_columns_of(dq, d, stage, left);
    };
    HeadPair rows = {head.halves, own.gradient, head.row, head.features}, others = {keys, values, head.row, head.row};
    multiply_pairs(rows, others, head.first, tokens, [](int) {}, visit);
    i64 start = blockIdx.z * tokens * head.row + blockIdx.y * HEAD;
    put_rows(dx, start, head.row, head.first, tokens, dq, own.of_scores, narrow, accumulate);
}

// Computes the gradients of the keys and the values. Grid: tiles of keys; heads; items.
extern "C" __global__ void __launch_bounds__(128)
    attention_keys(const uint4* halves, const u32* largest, const uint4* g, const u32* g_largest, const float* logarithms,
                   const float* along, u32* dx, int tokens, int views, int narrow, int accumulate) {
    __shared__ float columns[2][2][HEAD_TILE];
    HeadGradient own = head_gradient(halves, largest, g, g_largest, logarithms, along, tokens, views);
    const HeadPlace& head = own.head;
    const uint4 *keys = head.halves + head.features / 8, *values = keys + head.features / 8;
    int lane = threadIdx.x & 31, row = head.first + (threadIdx.x >> 5) * 16 + (lane >> 2);
    float g_power = power_of(largest_of(g_largest, blockIdx.z / views), false), dk[8][4] = {}, dv[8][4] = {};
    auto copy_columns = [&](int step) {
        int at = step * HEAD_TILE + (threadIdx.x & 63);
        const float* from = threadIdx.x < HEAD_TILE ? own.logarithms : own.along;
        columns[step & 1][threadIdx.x >> 6][threadIdx.x & 63] = at < tokens ? from[at] : 0.0f;
    };
    auto visit = [&](int step, u32 stage, int left, float (*s)[4], float (*d)[4]) {
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                int column = 8 * n + 2 * (lane & 3) + (v & 1);
                bool there = column < left && row + 8 * (v >> 1) < tokens;
                score_gradient(&s[n][v], &d[n][v], own, g_power, columns[step & 1][0][column], columns[step & 1][1][column], there);
            }
        multiply_columns_of(dv, s, stage + HEAD_BYTES, left);
        multiply_columns_of(dk, d, stage, left);
    };
    HeadPair rows = {keys, values, head.row, head.row}, others = {head.halves, own.gradient, head.row, head.features};
    multiply_pairs(rows, others, head.first, tokens, copy_columns, visit);
    i64 start = blockIdx.z * tokens * head.row + head.features + blockIdx.y * HEAD;
    put_rows(dx, start, head.row, head.first, tokens, dk, own.of_scores, narrow, accumulate);
    put_rows(dx, start + head.features, head.row, head.first, tokens, dv, own.of_values, narrow, accumulate);
}
