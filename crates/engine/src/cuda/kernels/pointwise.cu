// Activations, sums, products, dropout, and operations that only move values.

enum { RELU, GELU, SILU, TANH, SCALE, RELU6 };

KERNEL unary(int op, const float* x, float* y, i64 n, float factor) {
    i64 i = global_index();
    if (i >= n) return;
    float v = x[i];
    switch (op) {
        case RELU: v = fmaxf(v, 0.0f); break;
        case GELU: v = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); break;
        case SILU: v = v / (1.0f + expf(-v)); break;
        case TANH: v = tanhf(v); break;
        case RELU6: v = fminf(fmaxf(v, 0.0f), 6.0f); break;
        default: v *= factor;
    }
    y[i] = v;
}

// `kept` is the output for ReLU and the input for all others.
KERNEL unary_backward(int op, const float* kept, const float* g, float* dx, i64 n, float factor, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    float slope;
    if (op == SCALE) {
        slope = factor;
    } else {
        float v = kept[i];
        switch (op) {
            case RELU: slope = v > 0.0f ? 1.0f : 0.0f; break;
            case RELU6: slope = v > 0.0f && v < 6.0f ? 1.0f : 0.0f; break;
            case GELU:
                slope = 0.5f * (1.0f + erff(v * 0.70710678118654752f)) + v * 0.3989422804014327f * expf(-0.5f * v * v);
                break;
            case SILU: {
                float s = 1.0f / (1.0f + expf(-v));
                slope = s * (1.0f + v * (1.0f - s));
                break;
            }
            default: {
                float t = tanhf(v);
                slope = 1.0f - t * t;
            }
        }
    }
    put(dx + i, g[i] * slope, accumulate);
}

KERNEL add(const float* a, const float* b, float* y, i64 n) {
    i64 i = global_index();
    if (i < n) y[i] = a[i] + b[i];
}

KERNEL multiply(const float* a, const float* b, float* y, i64 n, int accumulate) {
    i64 i = global_index();
    if (i < n) put(y + i, a[i] * b[i], accumulate);
}

KERNEL copy(const float* x, float* y, i64 n, int accumulate) {
    i64 i = global_index();
    if (i < n) put(y + i, x[i], accumulate);
}

__device__ u64 mix(u64 value) {
    u64 z = value + 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Forward and backward alike, `together` values at a time. Drops exactly what the CPU executor drops.
KERNEL dropout(const float* x, float* y, const u64* keys, u64 node, int len, int together, float rate, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    u64 hash = mix(keys[(u32)i / (u32)len] ^ (node << 40) ^ (u64)((u32)i % (u32)len / (u32)together));
    int keeps = (float)(u32)(hash >> 40) >= rate * 16777216.0f;
    put(y + i, keeps ? x[i] / (1.0f - rate) : 0.0f, accumulate);
}

KERNEL broadcast(const float* x, float* y, int len, i64 n) {
    i64 i = global_index();
    if (i < n) y[i] = x[(u32)i % (u32)len];
}

// The gradient of a broadcast value: the sum over a sample's views.
KERNEL broadcast_backward(const float* g, float* d, i64 stride, int len, int views, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    i64 sample = (u32)i / (u32)len, element = (u32)i % (u32)len;
    float sum = 0.0f;
    for (int view = 0; view < views; ++view) sum += g[(sample * views + view) * len + element];
    put(d + sample * stride + element, sum, accumulate);
}

// Copies a box of values. table: rank, then for each axis its size, its stride in the target and its stride in the source.
KERNEL move(const float* x, float* y, const int* table, i64 x_item, i64 y_item, int x_start, int y_start, int len, i64 n,
            int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    i64 item = (u32)i / (u32)len;
    int rest = (int)((u32)i % (u32)len);
    i64 from = item * x_item + x_start, to = item * y_item + y_start;
    for (int axis = table[0] - 1; axis >= 0; --axis) {
        const int* row = table + 1 + 3 * axis;
        int index = rest % row[0];
        rest /= row[0];
        to += (i64)index * row[1];
        from += (i64)index * row[2];
    }
    put(y + to, x[from], accumulate);
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

// One warp per sample and channel: the sum over views and positions. Element (c, p) of an item lies at c * along + p * across.
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
