// Group norm, layer norm and batch norm with stored statistics.

__device__ __forceinline__ float normalised(float x, float mean, float inverse) { return (x - mean) * inverse; }

// How many vectors a thread asks for before it looks at the first.
#define AHEAD 4
#define NORM_THREADS 1024

// Computes y = norm(x) + residual, followed by a ReLU if `relu` is set, with one block for each item and group of `size` channels with
// `inner` positions each. kept: the mean and 1 / deviation of each group. With `stored_mean` the statistics are stored ones for each channel,
// and a group is one channel. With `holds` the dynamic shared memory has room for the group and up to three floats after it, and x is read
// once.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    group_forward(const float* __restrict__ x, const float* __restrict__ residual, float* __restrict__ y, float* kept,
                  const float* weight, const float* bias, const float* stored_mean, const float* stored_variance, int groups,
                  int size, int inner, float eps, int relu, int holds) {
    extern __shared__ float held[];
    __shared__ float scratch[32];
    i64 set = blockIdx.x;
    int n = size * inner, first = (int)(set % groups) * size, count = (n + 3) / 4, width = together(set * n);
    x += set * n;
    y += set * n;
    if (residual) residual += set * n;
    float mean, inverse;
    if (stored_mean) {
        mean = stored_mean[first];
        inverse = 1.0f / sqrtf(stored_variance[first] + eps);
    } else {
        float sum = 0.0f;
        for (int q = threadIdx.x; q < count; q += AHEAD * blockDim.x) {
            Four values[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; ++u) values[u] = load_four(x, 4 * (q + u * (int)blockDim.x), n, width);
#pragma unroll
            for (int u = 0; u < AHEAD; ++u) {
                const float* of = values[u].of;
                sum += (of[0] + of[1]) + (of[2] + of[3]);
                int at = q + u * (int)blockDim.x;
                if (holds && at < count) *(Four*)(held + 4 * at) = values[u];
            }
        }
        mean = block_sum(sum, scratch) / n;
        float squares = 0.0f;
        for (int q = threadIdx.x; q < count; q += blockDim.x) {
            int i = 4 * q;
            Four value = holds ? *(Four*)(held + 4 * q) : load_four(x, i, n, width);
            bool whole = i + 4 <= n;
#pragma unroll
            for (int v = 0; v < 4; ++v)
                if (whole || (u32)(i + v) < (u32)n) squares += (value.of[v] - mean) * (value.of[v] - mean);
        }
        inverse = 1.0f / sqrtf(block_sum(squares, scratch) / n + eps);
        if (kept && threadIdx.x == 0) {
            kept[2 * set] = mean;
            kept[2 * set + 1] = inverse;
        }
    }
    auto active = [&](float value, float w, float b, float other) {
        float out = __fmaf_rn(normalised(value, mean, inverse), w, b);
        if (residual) out += other;
        return relu ? fmaxf(out, 0.0f) : out;
    };
    float share = 1.0f / inner;
#pragma unroll 2
    for (int q = threadIdx.x; q < count; q += blockDim.x) {
        // In single precision this is off by at most one, and faster than a division.
        int i = 4 * q, channel = (int)(i * share);
        channel += (channel + 1) * inner <= i ? 1 : channel * inner > i ? -1 : 0;
        int end = (channel + 1) * inner;
        Four value = holds ? *(Four*)(held + 4 * q) : load_four(x, i, n, width), other = {};
        if (residual) other = load_four(residual, i, n, width);
        float w = weight ? weight[first + channel] : 1.0f, b = bias ? bias[first + channel] : 0.0f;
        if (i + 4 <= end) {
#pragma unroll
            for (int v = 0; v < 4; ++v) value.of[v] = active(value.of[v], w, b, other.of[v]);
            store_four(y, i, n, value, width);
            continue;
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (i + v >= end && i + v < n) {
                ++channel;
                end += inner;
                w = weight ? weight[first + channel] : 1.0f;
                b = bias ? bias[first + channel] : 0.0f;
            }
            value.of[v] = active(value.of[v], w, b, other.of[v]);
        }
        store_four(y, i, n, value, width);
    }
}

// The sum of a few numbers, in their order.
__device__ __forceinline__ float sum_of(const float* values, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += values[i];
    return sum;
}

// A channel of a group in the backward pass, as the team of warps sees it that takes it: its rows, its statistics, scale and shift, and this
// thread's place in the team.
struct NormChannel {
    const float *x, *y;
    float *g, *held_x, *held_g;
    float mean, inverse, w, b;
    int inner, before, width, relu, member, step;
};

// Adds up a thread's share of the gradient of a channel's output, and of that times the normalised input. The gradient is set to zero where
// a ReLU was; x and g are held in shared memory as far as `holds` says.
__device__ __forceinline__ void add_channel(const NormChannel& own, int holds, float* sum, float* product) {
    int count = (own.inner + own.before + 3) / 4;
    for (int q = own.member; q < count; q += 2 * own.step) {
        Four values[2], upstream[2], outputs[2];
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            int i = 4 * (q + u * own.step) - own.before;
            values[u] = load_four(own.x, i, own.inner, own.width);
            upstream[u] = load_four(own.g, i, own.inner, own.width);
            if (own.y) outputs[u] = load_four(own.y, i, own.inner, own.width);
        }
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            int i = 4 * (q + u * own.step) - own.before;
            if (holds > 0) store_four(own.held_x, i, own.inner, values[u]);
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                float hat = normalised(values[u].of[v], own.mean, own.inverse);
                bool passes = own.y ? outputs[u].of[v] > 0.0f : !own.relu || __fmaf_rn(hat, own.w, own.b) > 0.0f;
                if (!passes) upstream[u].of[v] = 0.0f;
                *sum += upstream[u].of[v];
                *product += upstream[u].of[v] * hat;
            }
            if (own.y) store_four(own.g, i, own.inner, upstream[u], own.width);
            if (holds > 1) store_four(own.held_g, i, own.inner, upstream[u]);
        }
    }
}

// Writes the gradient of a channel's input, from its values xs and the gradients gs of its output.
__device__ __forceinline__ void put_channel(const NormChannel& own, const float* xs, const float* gs, float* dx, float average, float along,
                                            int accumulate) {
    int count = (own.inner + own.before + 3) / 4;
#pragma unroll 2
    for (int q = own.member; q < count; q += own.step) {
        int i = 4 * q - own.before;
        Four value = load_four(xs, i, own.inner, own.width), upstream = load_four(gs, i, own.inner, own.width), result;
        if (accumulate) result = load_four(dx, i, own.inner, own.width);
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            float hat = normalised(value.of[v], own.mean, own.inverse);
            bool passes = own.y || !own.relu || __fmaf_rn(hat, own.w, own.b) > 0.0f;
            float slope = passes ? upstream.of[v] : 0.0f;
            float term = (own.w * slope - average - hat * along) * own.inverse;
            result.of[v] = accumulate ? result.of[v] + term : term;
        }
        store_four(dx, i, own.inner, result, own.width);
    }
}

// Computes all gradients of group_forward, with one block for each sample and group, in which teams of warps take one channel at a time.
// The gradients of scale and shift are summed over views. If there is `y`, the output of a sum that went through a ReLU, g is first set to
// zero in its own memory where y is zero. `holds` says how many of x and g the dynamic shared memory has room for, after four floats for
// each channel of a group.
extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    group_backward(const float* __restrict__ x, float* g, const float* __restrict__ y, const float* kept, const float* weight,
                   const float* bias, const float* stored_mean, const float* stored_variance, float* dx, float* dw, float* db,
                   i64 stride, int groups, int size, int inner, float eps, int relu, int views, int accumulate,
                   int accumulate_affine, int holds) {
    extern __shared__ float channel_sums[];
    __shared__ float scratch[32], warp_sums[32], warp_products[32];
    float *sums = channel_sums, *products = sums + size, *all_sums = products + size, *all_products = all_sums + size;
    i64 sample = blockIdx.x / groups;
    int group = blockIdx.x % groups, n = size * inner, first = group * size;
    float *held_x = all_products + size, *held_g = held_x + (n + 7) / 4 * 4;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int team = max(1, warps / size), teams = warps / team, member = (warp % team) * 32 + lane, step = 32 * team;
    bool summed = dw || db || !stored_mean;
    for (int c = threadIdx.x; c < size; c += blockDim.x) all_sums[c] = all_products[c] = 0.0f;
    __syncthreads();
    for (int view = 0; view < views; ++view) {
        i64 set = (sample * views + view) * groups + group;
        int width = together(set * n);
        float mean, inverse;
        if (stored_mean) {
            mean = stored_mean[first];
            inverse = 1.0f / sqrtf(stored_variance[first] + eps);
        } else {
            mean = kept[2 * set];
            inverse = kept[2 * set + 1];
        }
        auto channel = [&](int c) -> NormChannel {
            i64 row = set * n + (i64)c * inner;
            int at = c * inner;
            float w = weight ? weight[first + c] : 1.0f, b = bias ? bias[first + c] : 0.0f;
            return {x + row, y ? y + row : y, g + row, held_x + at, held_g + at, mean, inverse, w, b, inner, at & 3, width, relu, member, step};
        };
        for (int c = warp / team; c < size && (summed || y); c += teams) {
            float sum = 0.0f, product = 0.0f;
            add_channel(channel(c), holds, &sum, &product);
            sum = warp_sum(sum);
            product = warp_sum(product);
            if (lane == 0) {
                *(team > 1 ? warp_sums + warp : sums + c) = sum;
                *(team > 1 ? warp_products + warp : products + c) = product;
            }
        }
        __syncthreads();
        for (int c = threadIdx.x; c < size && summed; c += blockDim.x) {
            if (team > 1) {
                sums[c] = sum_of(warp_sums + c * team, team);
                products[c] = sum_of(warp_products + c * team, team);
            }
            all_sums[c] += sums[c];
            all_products[c] += products[c];
        }
        __syncthreads();
        if (dx) {
            float average = 0.0f, along = 0.0f;
            if (!stored_mean) {
                float sum = 0.0f, product = 0.0f;
                for (int c = threadIdx.x; c < size; c += blockDim.x) {
                    float w = weight ? weight[first + c] : 1.0f;
                    sum += w * sums[c];
                    product += w * products[c];
                }
                average = block_sum(sum, scratch) / n;
                along = block_sum(product, scratch) / n;
            }
            for (int c = warp / team; c < size; c += teams) {
                NormChannel own = channel(c);
                const float* xs = summed && holds > 0 ? own.held_x : own.x;
                const float* gs = summed && holds > 1 ? own.held_g : own.g;
                put_channel(own, xs, gs, dx + set * n + (i64)c * inner, average, along, accumulate);
            }
        }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < size; c += blockDim.x) {
        if (dw) put(dw + sample * stride + first + c, all_products[c], accumulate_affine);
        if (db) put(db + sample * stride + first + c, all_sums[c], accumulate_affine);
    }
}

// Where the first feature of a row lies. The features of a row are `apart` numbers apart, and that many rows lie side by side.
__device__ __forceinline__ i64 row_start(i64 row, int features, int apart) {
    u32 block = (u32)row / (u32)apart, place = (u32)row % (u32)apart;
    return (i64)block * features * apart + place;
}

// Normalises rows of `features`, with one warp for each row.
KERNEL layer_forward(const float* x, float* y, float* kept, const float* weight, const float* bias, int features, int apart,
                     i64 rows, float eps, int centred) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    i64 start = row_start(row, features, apart);
    x += start;
    y += start;
    float mean = 0.0f;
    if (centred) {
        float sum = 0.0f;
        for (int i = lane; i < features; i += 32) sum += x[(i64)i * apart];
        mean = warp_sum(sum) / features;
    }
    float squares = 0.0f;
    for (int i = lane; i < features; i += 32) {
        float difference = x[(i64)i * apart] - mean;
        squares += difference * difference;
    }
    float inverse = 1.0f / sqrtf(warp_sum(squares) / features + eps);
    if (kept && lane == 0) {
        kept[2 * row] = mean;
        kept[2 * row + 1] = inverse;
    }
    for (int i = lane; i < features; i += 32) {
        float w = weight ? weight[i] : 1.0f, b = bias ? bias[i] : 0.0f;
        y[(i64)i * apart] = __fmaf_rn(normalised(x[(i64)i * apart], mean, inverse), w, b);
    }
}

KERNEL layer_backward(const float* x, const float* g, const float* kept, const float* weight, float* dx, int features, int apart,
                      i64 rows, int centred, int accumulate) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    i64 start = row_start(row, features, apart);
    x += start;
    g += start;
    dx += start;
    float mean = kept[2 * row], inverse = kept[2 * row + 1];
    float sum = 0.0f, product = 0.0f;
    for (int i = lane; i < features; i += 32) {
        i64 at = (i64)i * apart;
        float scaled = weight ? weight[i] * g[at] : g[at];
        sum += scaled;
        product += scaled * normalised(x[at], mean, inverse);
    }
    float average = warp_sum(sum) / features, along = warp_sum(product) / features;
    if (!centred) average = 0.0f;
    for (int i = lane; i < features; i += 32) {
        i64 at = (i64)i * apart;
        float scaled = weight ? weight[i] * g[at] : g[at];
        put(dx + at, (scaled - average - normalised(x[at], mean, inverse) * along) * inverse, accumulate);
    }
}

// Features whose gradients a block adds up, and rows that it reads at a time.
#define AFFINE_FEATURES 32
#define AFFINE_ROWS 8

// Gradients of scale and shift. Grid: groups of features, samples.
extern "C" __global__ void __launch_bounds__(AFFINE_FEATURES * AFFINE_ROWS)
    layer_affine(const float* x, const float* g, const float* kept, float* dw, float* db, i64 stride, int features, int apart,
                 int rows, int accumulate) {
    __shared__ float sums[AFFINE_ROWS][AFFINE_FEATURES], products[AFFINE_ROWS][AFFINE_FEATURES];
    i64 sample = blockIdx.y;
    int lane = threadIdx.x % AFFINE_FEATURES, line = threadIdx.x / AFFINE_FEATURES, feature = blockIdx.x * AFFINE_FEATURES + lane;
    float sum = 0.0f, product = 0.0f;
    if (feature < features)
#pragma unroll 4
        for (i64 row = sample * rows + line; row < (sample + 1) * rows; row += AFFINE_ROWS) {
            i64 at = apart == 1 ? row * features + feature : row_start(row, features, apart) + (i64)feature * apart;
            float upstream = g[at];
            sum += upstream;
            product += upstream * normalised(x[at], kept[2 * row], kept[2 * row + 1]);
        }
    sums[line][lane] = sum;
    products[line][lane] = product;
    __syncthreads();
    if (line > 0 || feature >= features) return;
    for (int other = 1; other < AFFINE_ROWS; ++other) {
        sum += sums[other][lane];
        product += products[other][lane];
    }
    if (dw) put(dw + sample * stride + feature, product, accumulate);
    if (db) put(db + sample * stride + feature, sum, accumulate);
}
