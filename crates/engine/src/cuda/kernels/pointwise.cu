// Activations, sums, products, dropout, and operations that only move values.

enum { RELU, GELU, SILU, TANH, SCALE, RELU6 };

__device__ __forceinline__ float activation(int op, float v, float factor) {
    switch (op) {
        case RELU: return fmaxf(v, 0.0f);
        case GELU: return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
        case SILU: return v / (1.0f + expf(-v));
        case TANH: return tanhf(v);
        case RELU6: return fminf(fmaxf(v, 0.0f), 6.0f);
        default: return v * factor;
    }
}

// The slope at v, which is the output for ReLU and the input for all others.
__device__ __forceinline__ float slope(int op, float v, float factor) {
    switch (op) {
        case RELU: return v > 0.0f ? 1.0f : 0.0f;
        case RELU6: return v > 0.0f && v < 6.0f ? 1.0f : 0.0f;
        case GELU: return 0.5f * (1.0f + erff(v * 0.70710678118654752f)) + v * 0.3989422804014327f * expf(-0.5f * v * v);
        case SILU: {
            float s = 1.0f / (1.0f + expf(-v));
            return s * (1.0f + v * (1.0f - s));
        }
        case TANH: {
            float t = tanhf(v);
            return 1.0f - t * t;
        }
        default: return factor;
    }
}

// The kernels `unary` to `copy` need not know the shape of their tensors, and take four values at a time.

KERNEL unary(int op, const float* x, float* y, i64 n, float factor) {
    i64 i = 4 * global_index();
    if (i >= n) return;
    int rest = (int)min(n - i, (i64)4);
    Four values = load_four(x + i, 0, rest);
#pragma unroll
    for (int v = 0; v < 4; ++v) values.of[v] = activation(op, values.of[v], factor);
    store_four(y + i, 0, rest, values);
}

// `kept` is the output for ReLU and the input for all others; for SCALE it is not read.
KERNEL unary_backward(int op, const float* kept, const float* g, float* dx, i64 n, float factor, int accumulate) {
    i64 i = 4 * global_index();
    if (i >= n) return;
    int rest = (int)min(n - i, (i64)4);
    Four upstream = load_four(g + i, 0, rest), values = upstream, there = upstream;
    if (op != SCALE) values = load_four(kept + i, 0, rest);
    if (accumulate) there = load_four(dx + i, 0, rest);
#pragma unroll
    for (int v = 0; v < 4; ++v) {
        float term = upstream.of[v] * slope(op, values.of[v], factor);
        upstream.of[v] = accumulate ? there.of[v] + term : term;
    }
    store_four(dx + i, 0, rest, upstream);
}

KERNEL add(const float* a, const float* b, float* y, i64 n) {
    i64 i = 4 * global_index();
    if (i >= n) return;
    int rest = (int)min(n - i, (i64)4);
    Four left = load_four(a + i, 0, rest), right = load_four(b + i, 0, rest);
#pragma unroll
    for (int v = 0; v < 4; ++v) left.of[v] += right.of[v];
    store_four(y + i, 0, rest, left);
}

KERNEL copy(const float* x, float* y, i64 n, int accumulate) {
    i64 i = 4 * global_index();
    if (i >= n) return;
    int rest = (int)min(n - i, (i64)4);
    Four values = load_four(x + i, 0, rest);
    if (accumulate) {
        Four there = load_four(y + i, 0, rest);
#pragma unroll
        for (int v = 0; v < 4; ++v) values.of[v] = there.of[v] + values.of[v];
    }
    store_four(y + i, 0, rest, values);
}

KERNEL multiply(const float* a, const float* b, float* y, i64 n, int accumulate) {
    i64 i = global_index();
    if (i < n) put(y + i, a[i] * b[i], accumulate);
}

__device__ u64 mix(u64 value) {
    u64 z = value + 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Drops `together` values at a time, forward and backward alike, and exactly those that the CPU executor drops.
KERNEL dropout(const float* x, float* y, const u64* keys, u64 node, int len, int together, float rate, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    u64 hash = mix(keys[(u32)i / (u32)len] ^ (node << 40) ^ (u64)((u32)i % (u32)len / (u32)together));
    int keeps = (float)(u32)(hash >> 40) >= rate * 16777216.0f;
    put(y + i, keeps ? x[i] / (1.0f - rate) : 0.0f, accumulate);
}

// Keeps `together` values at a time where the mask of their sample says so, which all of its `views` items share. A mask has `words` words, in
// which the units of this layer begin at the bit `first`.
KERNEL masked_dropout(const float* x, float* y, const u32* masks, int words, int first, int len, int together, int views, float factor,
                      i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    u32 sample = (u32)i / (u32)len / (u32)views;
    u32 unit = (u32)first + (u32)i % (u32)len / (u32)together;
    u32 word = masks[(i64)sample * words + unit / 32];
    put(y + i, word >> (unit % 32) & 1 ? x[i] * factor : 0.0f, accumulate);
}

KERNEL broadcast(const float* x, float* y, int len, i64 n) {
    i64 i = global_index();
    if (i < n) y[i] = x[(u32)i % (u32)len];
}

// Computes the gradient of a broadcast value, which is the sum over a sample's views.
KERNEL broadcast_backward(const float* g, float* d, i64 stride, int len, int views, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    i64 sample = (u32)i / (u32)len, element = (u32)i % (u32)len;
    float sum = 0.0f;
    for (int view = 0; view < views; ++view) sum += g[(sample * views + view) * len + element];
    put(d + sample * stride + element, sum, accumulate);
}

// Copies a box of values, or of vectors of four values. table: the rank, then for each axis its size, its stride in the target and its stride
// in the source. Sizes, strides and lengths count what is copied at once.
template <typename T, typename Put>
__device__ __forceinline__ void move_of(const T* x, T* y, const int* table, i64 x_item, i64 y_item, int x_start, int y_start, int len,
                                        i64 n, Put put_one) {
    i64 i = global_index();
    if (i >= n) return;
    i64 item = (u32)i / (u32)len;
    int rest = (int)((u32)i % (u32)len);
    i64 from = item * x_item + x_start, to = item * y_item + y_start;
    for (int axis = table[0] - 1; axis >= 0; --axis) {
        const int* row = table + 1 + 3 * axis;
        int index = axis > 0 ? rest % row[0] : rest;
        rest = axis > 0 ? rest / row[0] : 0;
        to += (i64)index * row[1];
        from += (i64)index * row[2];
    }
    put_one(y + to, x[from]);
}

KERNEL move_values(const float* x, float* y, const int* table, i64 x_item, i64 y_item, int x_start, int y_start, int len, i64 n,
                   int accumulate) {
    move_of(x, y, table, x_item, y_item, x_start, y_start, len, n, [&](float* to, float value) { put(to, value, accumulate); });
}

KERNEL move_four(const float4* x, float4* y, const int* table, i64 x_item, i64 y_item, int x_start, int y_start, int len, i64 n,
                 int accumulate) {
    move_of(x, y, table, x_item, y_item, x_start, y_start, len, n, [&](float4* to, float4 value) {
        if (accumulate) {
            float4 there = *to;
            value = make_float4(there.x + value.x, there.y + value.y, there.z + value.z, there.w + value.w);
        }
        *to = value;
    });
}

KERNEL gather(const float* x, float* y, const int* rows, int count, int size, i64 x_item, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    i64 row = i / size;
    y[i] = x[(row / count) * x_item + (i64)rows[row % count] * size + i % size];
}

KERNEL gather_backward(const float* g, float* dx, const int* rows, int count, int size, int in_rows, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    i64 row = i / size, item = row / in_rows;
    float sum = 0.0f;
    for (int j = 0; j < count; ++j)
        if (rows[j] == (int)(row % in_rows)) sum += g[(item * count + j) * size + i % size];
    put(dx + i, sum, accumulate);
}

KERNEL add_bias(float* y, const float* bias, int channels, int positions, i64 n) {
    i64 i = global_index();
    if (i < n) y[i] += bias[(u32)i / (u32)positions % (u32)channels];
}

// Sums over views and positions, with one warp for each sample and channel. Element (c, p) of an item lies at c * along + p * across.
KERNEL bias_gradient(const float* g, float* d, i64 stride, int channels, int positions, int along, int across, int views,
                     int samples) {
    i64 warp = global_index() >> 5;
    if (warp >= (i64)samples * channels) return;
    i64 sample = warp / channels, channel = warp % channels;
    i64 len = (i64)channels * positions;
    float sum = 0.0f;
    for (int view = 0; view < views; ++view) {
        const float* item = g + (sample * views + view) * len + channel * along;
        for (int p = threadIdx.x & 31; p < positions; p += 32) sum += item[(i64)p * across];
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) d[sample * stride + channel] = sum;
}

// Does the same as bias_gradient if channels are innermost, with one thread for each sample and channel, so that neighbouring threads read
// neighbouring numbers.
KERNEL row_bias_gradient(const float* g, float* d, i64 stride, int channels, int rows, int samples) {
    i64 i = global_index();
    if (i >= (i64)samples * channels) return;
    i64 sample = i / channels, channel = i % channels;
    const float* first = g + sample * rows * channels + channel;
    float sum = 0.0f;
    for (int row = 0; row < rows; ++row) sum += first[(i64)row * channels];
    d[sample * stride + channel] = sum;
}

// Multiplies every value by its channel's factor. A channel is a run of neighbours.
KERNEL channel_scale(const float* x, const float* weight, float* y, int channels, int run, i64 n, int accumulate) {
    i64 i = global_index();
    if (i < n) put(y + i, x[i] * weight[(u32)i / (u32)run % (u32)channels], accumulate);
}

// Computes the gradient of the factors. One thread for each sample and channel adds up all blocks of channels of the sample's views.
KERNEL channel_scale_gradient(const float* x, const float* g, float* d, i64 stride, int channels, int run, int blocks, int samples,
                              int accumulate) {
    i64 i = global_index();
    if (i >= (i64)samples * channels) return;
    i64 sample = i / channels, channel = i % channels;
    float sum = 0.0f;
    for (i64 block = sample * blocks; block < (sample + 1) * blocks; ++block) {
        i64 first = (block * channels + channel) * run;
        for (int neighbour = 0; neighbour < run; ++neighbour) sum += x[first + neighbour] * g[first + neighbour];
    }
    put(d + sample * stride + channel, sum, accumulate);
}
