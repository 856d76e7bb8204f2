// Operations over tokens whose values, or whose inputs, are narrow, which means that they lie in memory as halves (bf16, see halves.cu). All
// arithmetic is in single precision. A thread takes eight neighbours at a time, so eight divides the length of every row.

struct Eight {
    float of[8];
};

// Numbers 8 i..8 i + 8.
__device__ __forceinline__ Eight load_eight(const uint4* values, i64 i, int narrow) {
    Eight eight;
    if (narrow) {
        uint4 pairs = values[i];
        from_halves(pairs.x, eight.of, eight.of + 1);
        from_halves(pairs.y, eight.of + 2, eight.of + 3);
        from_halves(pairs.z, eight.of + 4, eight.of + 5);
        from_halves(pairs.w, eight.of + 6, eight.of + 7);
    } else {
        uint4 low = values[2 * i], high = values[2 * i + 1];
        u32 bits[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int v = 0; v < 8; ++v) eight.of[v] = __uint_as_float(bits[v]);
    }
    return eight;
}

__device__ __forceinline__ void store_eight(uint4* values, i64 i, const Eight& eight, int narrow) {
    const float* of = eight.of;
    if (narrow) {
        values[i] = make_uint4(two_halves(of[0], of[1]), two_halves(of[2], of[3]), two_halves(of[4], of[5]), two_halves(of[6], of[7]));
    } else {
        float4* to = (float4*)values + 2 * i;
        to[0] = make_float4(of[0], of[1], of[2], of[3]);
        to[1] = make_float4(of[4], of[5], of[6], of[7]);
    }
}

// Adds the bias that a linear layer has left to its reader. Its rows have `channels` numbers.
__device__ __forceinline__ void add_owed(Eight& values, const uint4* bias, i64 i, int channels) {
    if (!bias) return;
    Eight owed = load_eight(bias, (u32)i % (u32)(channels / 8), 0);
#pragma unroll
    for (int v = 0; v < 8; ++v) values.of[v] += owed.of[v];
}

// The normal distribution function at v and its density, which share an exponential. The error is 1e-7 (Abramowitz and Stegun, 7.1.26), far
// below what a half keeps.
__device__ __forceinline__ float normal_share(float v, float* density) {
    float bell, t;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(bell) : "f"(-0.7213475204444817f * v * v));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(1.0f + 0.2316418882663604f * fabsf(v)));
    float series = 0.5307027145f;
    series = series * t - 0.7265760135f;
    series = series * t + 0.7107068705f;
    series = series * t - 0.142248368f;
    series = series * t + 0.127414796f;
    float tail = series * t * bell;
    *density = 0.3989422804014327f * bell;
    return v < 0.0f ? tail : 1.0f - tail;
}

// Adds a bias if one is owed, and applies an activation.
KERNEL narrow_unary(int op, const uint4* x, const uint4* bias, uint4* y, int channels, i64 n, float factor, int x_narrow, int y_narrow) {
    i64 i = global_index();
    if (8 * i >= n) return;
    Eight values = load_eight(x, i, x_narrow);
    add_owed(values, bias, i, channels);
    if (op == GELU) {
        float density;
#pragma unroll
        for (int v = 0; v < 8; ++v) values.of[v] *= normal_share(values.of[v], &density);
    } else {
#pragma unroll
        for (int v = 0; v < 8; ++v) values.of[v] = activation(op, values.of[v], factor);
    }
    store_eight(y, i, values, y_narrow);
}

// `kept` is the output for ReLU and the input for all others, to which the bias is added if one is owed.
KERNEL narrow_unary_backward(int op, const uint4* kept, const uint4* bias, const uint4* g, uint4* dx, int channels, i64 n, float factor,
                             int kept_narrow, int g_narrow, int dx_narrow, int accumulate) {
    i64 i = global_index();
    if (8 * i >= n) return;
    Eight values = load_eight(kept, i, kept_narrow), upstream = load_eight(g, i, g_narrow), there = {};
    if (accumulate) there = load_eight(dx, i, dx_narrow);
    add_owed(values, bias, i, channels);
    if (op == GELU) {
#pragma unroll
        for (int v = 0; v < 8; ++v) {
            float density, share = normal_share(values.of[v], &density);
            upstream.of[v] *= share + values.of[v] * density;
        }
    } else {
#pragma unroll
        for (int v = 0; v < 8; ++v) upstream.of[v] *= slope(op, values.of[v], factor);
    }
#pragma unroll
    for (int v = 0; v < 8; ++v) upstream.of[v] += there.of[v];
    store_eight(dx, i, upstream, dx_narrow);
}

// Adds two tensors, and to each the bias that is owed to it.
KERNEL narrow_add(const uint4* a, const uint4* a_bias, const uint4* b, const uint4* b_bias, uint4* y, int channels, i64 n, int a_narrow,
                  int b_narrow) {
    i64 i = global_index();
    if (8 * i >= n) return;
    Eight left = load_eight(a, i, a_narrow), right = load_eight(b, i, b_narrow);
    add_owed(left, a_bias, i, channels);
    add_owed(right, b_bias, i, channels);
#pragma unroll
    for (int v = 0; v < 8; ++v) left.of[v] += right.of[v];
    store_eight(y, i, left, 0);
}

// How many eights of a row a lane holds. A row of more than 32 times as many is read again for every visit.
#define ROW_EIGHTS 4

// Loads what a lane holds of a row in single precision.
__device__ __forceinline__ void hold_row(Eight* held, const uint4* row, int eights) {
#pragma unroll
    for (int k = 0; k < ROW_EIGHTS; ++k)
        if ((int)(threadIdx.x & 31) + 32 * k < eights) held[k] = load_eight(row, (threadIdx.x & 31) + 32 * k, 0);
}

// Visits a lane's eights of a row in their order, each with its place in the row.
template <typename Visit>
__device__ __forceinline__ void each_eight(const Eight* held, const uint4* row, int eights, Visit visit) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < ROW_EIGHTS; ++k)
        if (lane + 32 * k < eights) visit(lane + 32 * k, held[k]);
    for (int i = lane + 32 * ROW_EIGHTS; i < eights; i += 32) visit(i, load_eight(row, i, 0));
}

// Normalises rows of `features`, with one warp for each row. The rows that are written are narrow.
KERNEL narrow_layer_forward(const uint4* x, uint4* y, float* kept, const uint4* weight, const uint4* bias, int features, i64 rows,
                            float eps, int centred) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int eights = features / 8;
    x += 2 * row * eights;
    y += row * eights;
    Eight held[ROW_EIGHTS];
    hold_row(held, x, eights);
    float sum = 0.0f, squares = 0.0f;
    each_eight(held, x, eights, [&](int, const Eight& values) {
#pragma unroll
        for (int v = 0; v < 8; ++v) sum += values.of[v];
    });
    float mean = centred ? warp_sum(sum) / features : 0.0f;
    each_eight(held, x, eights, [&](int, const Eight& values) {
#pragma unroll
        for (int v = 0; v < 8; ++v) squares += (values.of[v] - mean) * (values.of[v] - mean);
    });
    float inverse = 1.0f / sqrtf(warp_sum(squares) / features + eps);
    if (kept && (threadIdx.x & 31) == 0) {
        kept[2 * row] = mean;
        kept[2 * row + 1] = inverse;
    }
    each_eight(held, x, eights, [&](int i, const Eight& values) {
        Eight out, w, b = {};
        if (weight) w = load_eight(weight, i, 0);
        if (bias) b = load_eight(bias, i, 0);
#pragma unroll
        for (int v = 0; v < 8; ++v)
            out.of[v] = __fmaf_rn(normalised(values.of[v], mean, inverse), weight ? w.of[v] : 1.0f, b.of[v]);
        store_eight(y, i, out, 1);
    });
}

// Computes the gradient of a layer norm's input from the narrow gradient of its output.
KERNEL narrow_layer_backward(const uint4* x, const uint4* g, const float* kept, const uint4* weight, uint4* dx, int features, i64 rows,
                             int centred, int accumulate) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int eights = features / 8;
    x += 2 * row * eights;
    g += row * eights;
    dx += 2 * row * eights;
    Eight held[ROW_EIGHTS];
    hold_row(held, x, eights);
    float mean = kept[2 * row], inverse = kept[2 * row + 1], sum = 0.0f, product = 0.0f;
    auto weighted = [&](int i) {
        Eight upstream = load_eight(g, i, 1);
        if (!weight) return upstream;
        Eight w = load_eight(weight, i, 0);
#pragma unroll
        for (int v = 0; v < 8; ++v) upstream.of[v] *= w.of[v];
        return upstream;
    };
    each_eight(held, x, eights, [&](int i, const Eight& values) {
        Eight upstream = weighted(i);
#pragma unroll
        for (int v = 0; v < 8; ++v) {
            sum += upstream.of[v];
            product += upstream.of[v] * normalised(values.of[v], mean, inverse);
        }
    });
    float average = centred ? warp_sum(sum) / features : 0.0f, along = warp_sum(product) / features;
    each_eight(held, x, eights, [&](int i, const Eight& values) {
        Eight upstream = weighted(i), there = {};
        if (accumulate) there = load_eight(dx, i, 0);
#pragma unroll
        for (int v = 0; v < 8; ++v)
            there.of[v] += (upstream.of[v] - average - normalised(values.of[v], mean, inverse) * along) * inverse;
        store_eight(dx, i, there, 0);
    });
}

// How many rows of an item a block of `narrow_layer_gradients` has, and how many warps.
#define NORM_ROWS 40
#define NORM_WARPS 8

// Adds what a block's warps have for each feature, in their order, and writes the sums.
__device__ __forceinline__ void put_features(float* to, const Eight* own, int eights) {
    __shared__ float4 sums[2 * 32 * ROW_EIGHTS];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int turn = 0; turn < NORM_WARPS; ++turn) {
        __syncthreads();
        if (warp != turn) continue;
#pragma unroll
        for (int k = 0; k < ROW_EIGHTS; ++k) {
            Eight there = {};
            if (turn > 0) there = load_eight((const uint4*)sums, lane + 32 * k, 0);
#pragma unroll
            for (int v = 0; v < 8; ++v) there.of[v] += own[k].of[v];
            store_eight((uint4*)sums, lane + 32 * k, there, 0);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * eights; i += 32 * NORM_WARPS) ((float4*)to)[i] = sums[i];
}

// Computes the same as `narrow_layer_backward` and, for a part of an item's rows, as `narrow_layer_affine`: `parts` has the gradients of scale
// and shift of every part. A row has at most 32 ROW_EIGHTS eights. Grid: parts of the rows; items.
extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    narrow_layer_gradients(const uint4* x, const uint4* g, const float* kept, const uint4* weight, uint4* dx, float* parts, int features,
                           int rows, int centred, int accumulate) {
    int lane = threadIdx.x & 31, eights = features / 8, end = min(rows, (int)(blockIdx.x + 1) * NORM_ROWS);
    Eight scales[ROW_EIGHTS] = {}, shifts[ROW_EIGHTS] = {};
    for (int own = blockIdx.x * NORM_ROWS + (threadIdx.x >> 5); own < end; own += NORM_WARPS) {
        i64 row = (i64)blockIdx.y * rows + own;
        float mean = kept[2 * row], inverse = kept[2 * row + 1], sum = 0.0f, product = 0.0f;
        Eight values[ROW_EIGHTS], upstream[ROW_EIGHTS], there[ROW_EIGHTS] = {};
#pragma unroll
        for (int k = 0; k < ROW_EIGHTS; ++k) {
            int i = lane + 32 * k;
            if (i >= eights) continue;
            values[k] = load_eight(x, row * eights + i, 0);
            upstream[k] = load_eight(g, row * eights + i, 1);
            if (accumulate) there[k] = load_eight(dx, row * eights + i, 0);
        }
#pragma unroll
        for (int k = 0; k < ROW_EIGHTS; ++k) {
            int i = lane + 32 * k;
            if (i >= eights) continue;
            Eight w;
            if (weight) w = load_eight(weight, i, 0);
#pragma unroll
            for (int v = 0; v < 8; ++v) {
                float& up = upstream[k].of[v];
                values[k].of[v] = normalised(values[k].of[v], mean, inverse);
                scales[k].of[v] += up * values[k].of[v];
                shifts[k].of[v] += up;
                if (weight) up *= w.of[v];
                sum += up;
                product += up * values[k].of[v];
            }
        }
        float average = centred ? warp_sum(sum) / features : 0.0f, along = warp_sum(product) / features;
#pragma unroll
        for (int k = 0; k < ROW_EIGHTS; ++k) {
            int i = lane + 32 * k;
            if (i >= eights) continue;
#pragma unroll
            for (int v = 0; v < 8; ++v) there[k].of[v] += (upstream[k].of[v] - average - values[k].of[v] * along) * inverse;
            store_eight(dx, row * eights + i, there[k], 0);
        }
    }
    parts += 2 * ((i64)blockIdx.y * gridDim.x + blockIdx.x) * features;
    put_features(parts, scales, eights);
    put_features(parts + features, shifts, eights);
}

// Adds up the `count` parts that each sample has of the gradients of scale and shift.
KERNEL narrow_layer_parts(const float* parts, float* dw, float* db, i64 stride, int features, int count, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    i64 sample = (u32)i / (u32)features;
    int feature = (u32)i % (u32)features;
    float scale = 0.0f, shift = 0.0f;
    for (int part = 0; part < count; ++part) {
        const float* own = parts + 2 * (sample * count + part) * features + feature;
        scale += own[0];
        shift += own[features];
    }
    if (dw) put(dw + sample * stride + feature, scale, accumulate);
    if (db) put(db + sample * stride + feature, shift, accumulate);
}

// How many columns of a sample's rows a block adds up, eight to a thread, and how many rows it reads at a time.
#define NARROW_LANES 8
#define NARROW_LINES 32

// Adds up what the lines of a block have, in their order. The threads of the first line receive the sums.
__device__ __forceinline__ void add_lines(Eight& sum) {
    __shared__ Eight parts[NARROW_LINES][NARROW_LANES];
    int lane = threadIdx.x % NARROW_LANES, line = threadIdx.x / NARROW_LANES;
    __syncthreads();
    parts[line][lane] = sum;
    __syncthreads();
    if (line > 0) return;
    for (int other = 1; other < NARROW_LINES; ++other)
#pragma unroll
        for (int v = 0; v < 8; ++v) sum.of[v] += parts[other][lane].of[v];
}

__device__ __forceinline__ void put_eight(float* to, const Eight& values, int accumulate) {
#pragma unroll
    for (int v = 0; v < 8; ++v) put(to + v, values.of[v], accumulate);
}

// Adds up a sample's rows of narrow numbers, which is the gradient of a bias. Grid: strips of columns; samples.
extern "C" __global__ void __launch_bounds__(NARROW_LANES * NARROW_LINES)
    narrow_bias_gradient(const uint4* g, float* d, i64 stride, int columns, int rows) {
    int line = threadIdx.x / NARROW_LANES, eight = blockIdx.x * NARROW_LANES + threadIdx.x % NARROW_LANES, eights = columns / 8;
    Eight sum = {};
    if (eight < eights)
#pragma unroll 4
        for (int row = line; row < rows; row += NARROW_LINES) {
            Eight upstream = load_eight(g, ((i64)blockIdx.y * rows + row) * eights + eight, 1);
#pragma unroll
            for (int v = 0; v < 8; ++v) sum.of[v] += upstream.of[v];
        }
    add_lines(sum);
    if (line == 0 && eight < eights) put_eight(d + blockIdx.y * stride + 8 * eight, sum, 0);
}

// Computes the gradients of a layer norm's scale and shift from the narrow gradient of its output. Grid: strips of features; samples.
extern "C" __global__ void __launch_bounds__(NARROW_LANES * NARROW_LINES)
    narrow_layer_affine(const uint4* x, const uint4* g, const float* kept, float* dw, float* db, i64 stride, int features, int rows,
                        int accumulate) {
    int line = threadIdx.x / NARROW_LANES, eight = blockIdx.x * NARROW_LANES + threadIdx.x % NARROW_LANES, eights = features / 8;
    Eight sum = {}, product = {};
    if (eight < eights)
#pragma unroll 2
        for (i64 row = blockIdx.y * (i64)rows + line; row < (blockIdx.y + 1) * (i64)rows; row += NARROW_LINES) {
            Eight upstream = load_eight(g, row * eights + eight, 1), values = load_eight(x, row * eights + eight, 0);
            float mean = kept[2 * row], inverse = kept[2 * row + 1];
#pragma unroll
            for (int v = 0; v < 8; ++v) {
                sum.of[v] += upstream.of[v];
                product.of[v] += upstream.of[v] * normalised(values.of[v], mean, inverse);
            }
        }
    add_lines(sum);
    add_lines(product);
    if (line > 0 || eight >= eights) return;
    i64 start = blockIdx.y * stride + 8 * eight;
    if (dw) put_eight(dw + start, product, accumulate);
    if (db) put_eight(db + start, sum, accumulate);
}
