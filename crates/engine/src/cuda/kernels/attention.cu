// Attention without a matrix of all scores. It works in the tiles of heads.cu, whose scores are computed a second time in the backward pass.
// Sums are in single precision. Each input has one power of two for each sample if it is in halves of TF32.
//
// An item's queries lie in rows of numbers, with the heads side by side, and its keys and values in rows of another length; all three may
// lie in one matrix. What lies behind the last token is not multiplied, in pieces of 16 rows and columns. Grid: tiles of each head of each
// item.

struct AttentionSizes {
    // The heads, the features of each, and the tokens; how many numbers lie between two rows of queries, and of keys or values; and how many
    // items share a power of two.
    int heads, width, queries, keys, query_row, key_row, views;
    // What scores are multiplied by: one over the root of the width.
    float scale;
};
static_assert(sizeof(AttentionSizes) == 32, "as on the host");

// The factor that keeps products of gradients and values within the range of halves: both sides are below 2^15, and W products are added.
template <int W>
__device__ __forceinline__ constexpr float taken_off() {
    return PRECISION != TF32 ? 1.0f : W <= 64 ? 0x1p-22f : 0x1p-23f;
}

// The head that a block works on, and the first of the block's own rows.
struct HeadPlace {
    int item, head, first;
    i64 set;
};

template <int W>
__device__ __forceinline__ HeadPlace head_place(int heads, int own_tokens) {
    int tiles = (own_tokens + HeadTiles<W>::OWN - 1) / HeadTiles<W>::OWN, set = blockIdx.x / tiles;
    return {set / heads, set % heads, (int)(blockIdx.x - set * tiles) * HeadTiles<W>::OWN, set};
}

// How many numbers come before the head.
__device__ __forceinline__ i64 head_start(const HeadPlace& place, i64 row, int tokens, int width) {
    return place.item * tokens * row + place.head * width;
}

__device__ __forceinline__ HeadRows head_rows(const uint4* numbers, const HeadPlace& place, int row, int tokens, int width) {
    return {numbers + head_start(place, row, tokens, width) / HEAD_PIECE, row / HEAD_PIECE, tokens};
}

// The inputs of the head that a block works on, and what takes their powers of two off.
struct HeadInputs {
    HeadRows query, key, value;
    float query_back, key_back, value_back;
};

__device__ __forceinline__ HeadInputs head_inputs(const uint4* q, const uint4* k, const uint4* v, const u32* q_largest,
                                                  const u32* k_largest, const u32* v_largest, const AttentionSizes& sizes,
                                                  const HeadPlace& place) {
    int sample = place.item / sizes.views;
    return {head_rows(q, place, sizes.query_row, sizes.queries, sizes.width),
            head_rows(k, place, sizes.key_row, sizes.keys, sizes.width),
            head_rows(v, place, sizes.key_row, sizes.keys, sizes.width),
            power_of(largest_of(q_largest, sample), true),
            power_of(largest_of(k_largest, sample), true),
            power_of(largest_of(v_largest, sample), true)};
}

// The factor that makes exponents of two from products: it takes off the powers of both sides, and holds the scale and the logarithm of e to
// base 2.
__device__ __forceinline__ float score_scale(const HeadInputs& inputs, float scale) {
    return __fmul_rn(__fmul_rn(inputs.query_back, scale * 1.4426950408889634f), inputs.key_back);
}

// The weights of OTHERS keys, from their products with 16 queries, and the state of each query: its largest product, and the sum of weights
// so far. What was made with smaller products fades.
template <int W, bool WHOLE>
__device__ __forceinline__ void weigh(float (*s)[4], float (*o)[4], float* most, float* total, float scale, int left) {
    constexpr int OTHERS = HeadTiles<W>::OTHERS;
    int lane = threadIdx.x & 31;
    if (!WHOLE)
#pragma unroll
        for (int n = 0; n < OTHERS / 8; ++n)
#pragma unroll
            for (int v = 0; v < 4; ++v)
                if (8 * n + 2 * (lane & 3) + (v & 1) >= left) s[n][v] = -INFINITY;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float largest = most[half], sum = 0.0f;
#pragma unroll
        for (int n = 0; n < OTHERS / 8; ++n)
            if (WHOLE || 16 * (n / 2) < left) largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        largest = row_max(largest);
        float before = most[half] * scale, now = largest * scale, faded = power_of_two(before - now);
        most[half] = largest;
#pragma unroll
        for (int n = 0; n < OTHERS / 8; ++n) {
            if (!WHOLE && 16 * (n / 2) >= left) continue;
#pragma unroll
            for (int v = 2 * half; v < 2 * half + 2; ++v) {
                s[n][v] = power_of_two(__fmaf_rn(s[n][v], scale, -now));
                sum += s[n][v];
            }
        }
#pragma unroll
        for (int n = 0; n < W / 8; ++n) {
            o[n][2 * half] *= faded;
            o[n][2 * half + 1] *= faded;
        }
        total[half] = total[half] * faded + sum;
    }
}

// Lets 16 queries see the keys and values of a tile.
template <int W, bool WHOLE>
__device__ __forceinline__ void see(float (*o)[4], float* most, float* total, const OwnRows<W>& q, float scale, u32 stage, int left) {
    constexpr int OTHERS = HeadTiles<W>::OTHERS;
    float s[OTHERS / 8][4];
    multiply_rows<W, WHOLE>(s, q, stage, left);
    weigh<W, WHOLE>(s, o, most, total, scale, left);
    multiply_columns_of<W, WHOLE>(o, s, stage + OTHERS * HeadTiles<W>::ROW, left);
}

// Computes the output of each query, and for the backward pass the logarithm (to base 2) of the sum of its weights.
template <int W>
__device__ __forceinline__ void attend(const HeadInputs& inputs, const HeadPlace& place, u32* y, float* logarithms,
                                       const AttentionSizes& sizes, int narrow) {
    using Tiles = HeadTiles<W>;
    constexpr int OTHER_BYTES = Tiles::OTHERS * Tiles::ROW;
    u32 own = (u32)__cvta_generic_to_shared(stages), others = own + Tiles::OWN * Tiles::ROW;
    auto copy = [&](int step) {
        u32 stage = others + 2 * (step & 1) * OTHER_BYTES;
        copy_head<W, Tiles::OTHERS>(stage, inputs.key, step * Tiles::OTHERS, sizes.width);
        copy_head<W, Tiles::OTHERS>(stage + OTHER_BYTES, inputs.value, step * Tiles::OTHERS, sizes.width);
        copies_started();
    };
    copy_head<W, Tiles::OWN>(own, inputs.query, place.first, sizes.width);
    copy(0);
    int steps = (sizes.keys + Tiles::OTHERS - 1) / Tiles::OTHERS, lane = threadIdx.x & 31;
    int row = place.first + (threadIdx.x >> 5) * 16;
    float scale = score_scale(inputs, sizes.scale), most[2] = {-INFINITY, -INFINITY}, total[2] = {}, o[W / 8][4] = {};
    OwnRows<W> q;
    for (int step = 0; step < steps; ++step) {
        copies_done<0>();
        if (step == 0) q.load(own);
        if (step + 1 < steps) copy(step + 1);
        if (row >= sizes.queries) continue;
        u32 stage = others + 2 * (step & 1) * OTHER_BYTES;
        int left = sizes.keys - step * Tiles::OTHERS;
        if (left >= Tiles::OTHERS) see<W, true>(o, most, total, q, scale, stage, left);
        else see<W, false>(o, most, total, q, scale, stage, left);
    }
    row += lane >> 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = row_sum(total[half]);
        if ((lane & 3) == 0 && row + 8 * half < sizes.queries)
            logarithms[place.set * sizes.queries + row + 8 * half] = most[half] * scale + log2f(sum);
#pragma unroll
        for (int n = 0; n < W / 8; ++n) {
            o[n][2 * half] /= sum;
            o[n][2 * half + 1] /= sum;
        }
    }
    int features = sizes.heads * sizes.width;
    i64 start = head_start(place, features, sizes.queries, sizes.width);
    u32* to = y + (PRECISION == BF16 && narrow ? start / 2 : start);
    put_rows<W>(to, features, place.first, sizes.queries, sizes.width, o, inputs.value_back, narrow, 0);
}

// The product of eight numbers with eight others.
__device__ __forceinline__ float eight_products(const uint4* one, const uint4* other, i64 i, int narrow) {
    float sum = 0.0f;
    if (PRECISION == BF16 && narrow) {
        uint4 left = one[i], right = other[i];
        u32 pairs[4] = {left.x, left.y, left.z, left.w}, others[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            float2 a, b;
            from_halves(pairs[v], &a.x, &a.y);
            from_halves(others[v], &b.x, &b.y);
            sum += a.x * b.x + a.y * b.y;
        }
        return sum;
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) {
        float4 a = ((const float4*)one)[2 * i + v], b = ((const float4*)other)[2 * i + v];
        sum += (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
    }
    return sum;
}

// Computes the product of each query's output with its gradient, head by head: [items, heads, queries], multiplied by the power of the values
// and of the gradient and by `taken`, as products of gradients and values are. Each thread computes one.
KERNEL attention_along(const uint4* y, const uint4* g, const u32* v_largest, const u32* g_largest, float* along, int heads, int width,
                       int queries, int views, float taken, i64 n, int narrow) {
    i64 i = global_index();
    if (i >= n) return;
    int token = (u32)i / (u32)heads, head = (u32)i % (u32)heads, item = token / queries, query = token % queries, eights = width / 8;
    float sum = 0.0f;
    for (int eight = 0; eight < eights; ++eight) sum += eight_products(y, g, i * eights + eight, narrow);
    float power = power_of(largest_of(v_largest, item / views), false), g_power = power_of(largest_of(g_largest, item / views), false);
    along[((i64)item * heads + head) * queries + query] = sum * __fmul_rn(power, taken) * g_power;
}

// What a block of the backward pass needs: its place and inputs, the gradient of the head's output, for each query the logarithm of the sum
// of its weights and what lies along its output, and scales.
struct HeadGradient {
    HeadPlace place;
    HeadInputs inputs;
    HeadRows gradient;
    const float *logarithms, *along;
    // The scale of scores, and what takes the power of the output's gradient off.
    float scale, back;
};

__device__ __forceinline__ HeadGradient head_gradient(const HeadInputs& inputs, const HeadPlace& place, const uint4* g, const u32* g_largest,
                                                      const float* logarithms, const float* along, const AttentionSizes& sizes) {
    return {place,
            inputs,
            head_rows(g, place, sizes.heads * sizes.width, sizes.queries, sizes.width),
            logarithms + place.set * sizes.queries,
            along + place.set * sizes.queries,
            score_scale(inputs, sizes.scale),
            power_of(largest_of(g_largest, place.item / sizes.views), true)};
}

// What gradients of queries or keys are multiplied by, if `other_back` takes the power of the other side off.
template <int W>
__device__ __forceinline__ float gradient_scale(const HeadGradient& own, float other_back, float scale) {
    return __fmul_rn(__fmul_rn(__fmul_rn(other_back, scale / taken_off<W>()), own.inputs.value_back), own.back);
}

// Turns a score s into its weight, and the gradient d of the weight into that of the score, within the range of halves. What lies along the
// output is taken off d.
template <int W>
__device__ __forceinline__ void score_gradient(float* s, float* d, float scale, float logarithm, float along) {
    *s = power_of_two(__fmaf_rn(*s, scale, -logarithm));
    *d = *s * __fmaf_rn(*d, taken_off<W>(), -along);
}

// Two matrices that belong together, as a block of the backward pass copies them to neighbouring tiles.
struct HeadPair {
    HeadRows first, second;
};

template <int W, int ROWS>
__device__ __forceinline__ void copy_pair(u32 tiles, const HeadPair& pair, int first, int width) {
    copy_head<W, ROWS>(tiles, pair.first, first, width);
    copy_head<W, ROWS>(tiles + ROWS * HeadTiles<W>::ROW, pair.second, first, width);
}

// Multiplies a block's own rows of two matrices by all rows of two others, a tile at a time. The visitor's `start` is called when the copies
// of a step begin. Its `visit` gets the step, the two tiles, how many rows are left, and both products.
template <int W, typename Visitor>
__device__ __forceinline__ void multiply_pairs(const HeadPair& own, const HeadPair& others, int first, int width, Visitor& visitor) {
    using Tiles = HeadTiles<W>;
    constexpr int OTHER_BYTES = Tiles::OTHERS * Tiles::ROW;
    u32 tiles = (u32)__cvta_generic_to_shared(stages), passing = tiles + 2 * Tiles::OWN * Tiles::ROW;
    auto copy = [&](int step) {
        copy_pair<W, Tiles::OTHERS>(passing + 2 * (step & 1) * OTHER_BYTES, others, step * Tiles::OTHERS, width);
        copies_started();
        visitor.start(step);
    };
    copy_pair<W, Tiles::OWN>(tiles, own, first, width);
    copy(0);
    int tokens = others.first.tokens, steps = (tokens + Tiles::OTHERS - 1) / Tiles::OTHERS;
    OwnRows<W> a, b;
    for (int step = 0; step < steps; ++step) {
        copies_done<0>();
        if (step == 0) {
            a.load(tiles);
            b.load(tiles + Tiles::OWN * Tiles::ROW);
        }
        if (step + 1 < steps) copy(step + 1);
        if (first + (int)(threadIdx.x >> 5) * 16 >= own.first.tokens) continue;
        u32 stage = passing + 2 * (step & 1) * OTHER_BYTES;
        int left = tokens - step * Tiles::OTHERS;
        float s[Tiles::OTHERS / 8][4], d[Tiles::OTHERS / 8][4];
        if (left >= Tiles::OTHERS) {
            multiply_rows<W, true>(s, a, stage, left);
            multiply_rows<W, true>(d, b, stage + OTHER_BYTES, left);
            visitor.template visit<true>(step, stage, left, s, d);
        } else {
            multiply_rows<W, false>(s, a, stage, left);
            multiply_rows<W, false>(d, b, stage + OTHER_BYTES, left);
            visitor.template visit<false>(step, stage, left, s, d);
        }
    }
}

// Adds up the gradients of a block's own queries.
template <int W>
struct QueryGradients {
    float scale, logarithm[2], taken[2], sums[W / 8][4];

    __device__ __forceinline__ void start(int) {}

    template <bool WHOLE>
    __device__ __forceinline__ void visit(int, u32 stage, int left, float (*s)[4], float (*d)[4]) {
        int column = 2 * (threadIdx.x & 3);
#pragma unroll
        for (int n = 0; n < HeadTiles<W>::OTHERS / 8; ++n) {
            if (!WHOLE && 16 * (n / 2) >= left) continue;
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                score_gradient<W>(&s[n][v], &d[n][v], scale, logarithm[v >> 1], taken[v >> 1]);
                if (!WHOLE && 8 * n + column + (v & 1) >= left) d[n][v] = 0.0f;
            }
        }
        multiply_columns_of<W, WHOLE>(sums, d, stage, left);
    }
};

template <int W>
__device__ __forceinline__ void query_gradients(const HeadGradient& own, u32* dq, const AttentionSizes& sizes, int narrow, int accumulate) {
    const HeadPlace& place = own.place;
    const HeadInputs& inputs = own.inputs;
    int row = place.first + (threadIdx.x >> 5) * 16 + ((threadIdx.x & 31) >> 2);
    QueryGradients<W> made = {own.scale};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        bool there = row + 8 * half < sizes.queries;
        made.logarithm[half] = there ? own.logarithms[row + 8 * half] : 0.0f;
        made.taken[half] = there ? own.along[row + 8 * half] : 0.0f;
    }
    multiply_pairs<W>({inputs.query, own.gradient}, {inputs.key, inputs.value}, place.first, sizes.width, made);
    float scale = gradient_scale<W>(own, inputs.key_back, sizes.scale);
    i64 start = head_start(place, sizes.query_row, sizes.queries, sizes.width);
    dq += PRECISION == BF16 && narrow ? start / 2 : start;
    put_rows<W>(dq, sizes.query_row, place.first, sizes.queries, sizes.width, made.sums, scale, narrow, accumulate);
}

// Adds up the gradients of a block's own keys and values. Behind the last query everything is zero, so that nothing is added there.
template <int W>
struct KeyGradients {
    const float *logarithms, *along;
    int queries;
    float scale, sums[W / 8][4], value_sums[W / 8][4];

    // The logarithms of two steps, and what lies along their outputs, come after the tiles.
    __device__ __forceinline__ float* columns(int step) const {
        using Tiles = HeadTiles<W>;
        return stages + (2 * Tiles::OWN + 4 * Tiles::OTHERS) * Tiles::ROW / 4 + (step & 1) * 2 * Tiles::OTHERS;
    }

    __device__ __forceinline__ void start(int step) {
        constexpr int OTHERS = HeadTiles<W>::OTHERS;
        for (int i = threadIdx.x; i < 2 * OTHERS; i += HeadTiles<W>::THREADS) {
            int at = step * OTHERS + i % OTHERS;
            columns(step)[i] = at < queries ? (i < OTHERS ? logarithms : along)[at] : 0.0f;
        }
    }

    template <bool WHOLE>
    __device__ __forceinline__ void visit(int step, u32 stage, int left, float (*s)[4], float (*d)[4]) {
        constexpr int OTHERS = HeadTiles<W>::OTHERS;
        const float* own = columns(step) + 2 * (threadIdx.x & 3);
#pragma unroll
        for (int n = 0; n < OTHERS / 8; ++n) {
            if (!WHOLE && 16 * (n / 2) >= left) continue;
            float2 logarithm = *(const float2*)(own + 8 * n), taken = *(const float2*)(own + OTHERS + 8 * n);
#pragma unroll
            for (int v = 0; v < 4; ++v)
                score_gradient<W>(&s[n][v], &d[n][v], scale, v & 1 ? logarithm.y : logarithm.x, v & 1 ? taken.y : taken.x);
        }
        multiply_columns_of<W, WHOLE>(value_sums, s, stage + OTHERS * HeadTiles<W>::ROW, left);
        multiply_columns_of<W, WHOLE>(sums, d, stage, left);
    }
};

// Computes the gradients of the keys and the values, either of which may be missing.
template <int W>
__device__ __forceinline__ void key_gradients(const HeadGradient& own, u32* dk, u32* dv, const AttentionSizes& sizes, int narrow,
                                              int accumulate, int accumulate_values) {
    const HeadPlace& place = own.place;
    const HeadInputs& inputs = own.inputs;
    KeyGradients<W> made = {own.logarithms, own.along, sizes.queries, own.scale};
    multiply_pairs<W>({inputs.key, inputs.value}, {inputs.query, own.gradient}, place.first, sizes.width, made);
    float scale = gradient_scale<W>(own, inputs.query_back, sizes.scale);
    i64 start = head_start(place, sizes.key_row, sizes.keys, sizes.width);
    start = PRECISION == BF16 && narrow ? start / 2 : start;
    if (dk) put_rows<W>(dk + start, sizes.key_row, place.first, sizes.keys, sizes.width, made.sums, scale, narrow, accumulate);
    if (dv)
        put_rows<W>(dv + start, sizes.key_row, place.first, sizes.keys, sizes.width, made.value_sums, own.back, narrow, accumulate_values);
}

// The kernels for heads of up to W features. Where registers hold a warp's own rows, so many blocks should share a multiprocessor.
#define ATTENTION(W)                                                                                                                       \
    extern "C" __global__ void __launch_bounds__(HeadTiles<W>::THREADS, HeadTiles<W>::HELD ? 4 : 1)                                        \
        attention_forward_##W(const uint4* q, const uint4* k, const uint4* v, const u32* q_largest, const u32* k_largest,                  \
                              const u32* v_largest, u32* y, float* logarithms, const __grid_constant__ AttentionSizes sizes, int narrow) { \
        HeadPlace place = head_place<W>(sizes.heads, sizes.queries);                                                                       \
        attend<W>(head_inputs(q, k, v, q_largest, k_largest, v_largest, sizes, place), place, y, logarithms, sizes, narrow);               \
    }                                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(HeadTiles<W>::THREADS, HeadTiles<W>::HELD ? 3 : 1)                                        \
        attention_queries_##W(const uint4* q, const uint4* k, const uint4* v, const u32* q_largest, const u32* k_largest,                  \
                              const u32* v_largest, const uint4* g, const u32* g_largest, const float* logarithms, const float* along,     \
                              u32* dq, const __grid_constant__ AttentionSizes sizes, int narrow, int accumulate) {                         \
        HeadPlace place = head_place<W>(sizes.heads, sizes.queries);                                                                       \
        HeadInputs inputs = head_inputs(q, k, v, q_largest, k_largest, v_largest, sizes, place);                                           \
        query_gradients<W>(head_gradient(inputs, place, g, g_largest, logarithms, along, sizes), dq, sizes, narrow, accumulate);           \
    }                                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(HeadTiles<W>::THREADS)                                                                    \
        attention_keys_##W(const uint4* q, const uint4* k, const uint4* v, const u32* q_largest, const u32* k_largest,                     \
                           const u32* v_largest, const uint4* g, const u32* g_largest, const float* logarithms, const float* along,        \
                           u32* dk, u32* dv, const __grid_constant__ AttentionSizes sizes, int narrow, int accumulate,                     \
                           int accumulate_values) {                                                                                        \
        HeadPlace place = head_place<W>(sizes.heads, sizes.keys);                                                                          \
        HeadInputs inputs = head_inputs(q, k, v, q_largest, k_largest, v_largest, sizes, place);                                           \
        key_gradients<W>(head_gradient(inputs, place, g, g_largest, logarithms, along, sizes), dk, dv, sizes, narrow, accumulate,          \
                         accumulate_values);                                                                                               \
    }

// A program is compiled for heads of one size.
#if HEAD == 32
ATTENTION(32)
#elif HEAD == 48
ATTENTION(48)
#elif HEAD == 64
ATTENTION(64)
#elif HEAD == 80
ATTENTION(80)
#elif HEAD == 96
ATTENTION(96)
#elif HEAD == 128
ATTENTION(128)
#endif
