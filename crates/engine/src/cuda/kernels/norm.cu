// Group norm, layer norm and batch norm with stored statistics.

__device__ __forceinline__ float normalised(float x, float mean, float inverse) { return (x - mean) * inverse; }

// One block per item and group of `size` channels with `inner` positions each. kept: mean and 1 / deviation of each group.
// With `stored_mean` the statistics are stored ones, one per channel, and a group is one channel.
template <int V>
__device__ void group_forward_of(const float* x, float* y, float* kept, const float* weight, const float* bias,
                                 const float* stored_mean, const float* stored_variance, int groups, int size, int inner,
                                 float eps, int relu) {
    __shared__ float scratch[32];
    i64 set = blockIdx.x;
    int n = size * inner, first = (int)(set % groups) * size;
    x += set * n;
    y += set * n;
    float mean, inverse;
    if (stored_mean) {
        mean = stored_mean[first];
        inverse = 1.0f / sqrtf(stored_variance[first] + eps);
    } else {
        float sum = 0.0f;
        for (int i = threadIdx.x * V; i < n; i += blockDim.x * V)
#pragma unroll
            for (int v = 0; v < V; ++v) sum += x[i + v];
        mean = block_sum(sum, scratch) / n;
        float squares = 0.0f;
        for (int i = threadIdx.x * V; i < n; i += blockDim.x * V)
#pragma unroll
            for (int v = 0; v < V; ++v) squares += (x[i + v] - mean) * (x[i + v] - mean);
        inverse = 1.0f / sqrtf(block_sum(squares, scratch) / n + eps);
        if (kept && threadIdx.x == 0) {
            kept[2 * set] = mean;
            kept[2 * set + 1] = inverse;
        }
    }
    for (int i = threadIdx.x * V; i < n; i += blockDim.x * V) {
        int channel = first + i / inner;
        float w = weight ? weight[channel] : 1.0f, b = bias ? bias[channel] : 0.0f;
        float out[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            out[v] = __fmaf_rn(normalised(x[i + v], mean, inverse), w, b);
            if (relu) out[v] = fmaxf(out[v], 0.0f);
        }
        if (V == 4) {
            *(float4*)(y + i) = *(float4*)out;
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) y[i + v] = out[v];
        }
    }
}

KERNEL group_forward(const float* __restrict__ x, float* __restrict__ y, float* kept, const float* weight, const float* bias,
                     const float* mean, const float* variance, int groups, int size, int inner, float eps, int relu) {
    if (inner % 4 == 0) {
        group_forward_of<4>(x, y, kept, weight, bias, mean, variance, groups, size, inner, eps, relu);
    } else {
        group_forward_of<1>(x, y, kept, weight, bias, mean, variance, groups, size, inner, eps, relu);
    }
}

// Reads and writes V values at once.
template <int V>
struct Pack {
    float of[V];
};
template <int V>
__device__ __forceinline__ Pack<V> load(const float* from) {
    Pack<V> pack;
    if (V == 4) {
        *(float4*)pack.of = *(const float4*)from;
    } else {
        pack.of[0] = *from;
    }
    return pack;
}

// One block per sample and group, one warp per channel at a time. Adds the views' gradients of scale and shift.
// Dynamic shared memory: four floats per channel of a group.
template <int V>
__device__ void group_backward_of(const float* x, const float* g, const float* kept, const float* weight, const float* bias,
                                  const float* stored_mean, const float* stored_variance, float* dx, float* dw, float* db,
                                  i64 stride, int groups, int size, int inner, float eps, int relu, int views, int accumulate,
                                  int accumulate_affine) {
    extern __shared__ float channel_sums[];
    __shared__ float scratch[32];
    float *sums = channel_sums, *products = sums + size, *all_sums = products + size, *all_products = all_sums + size;
    i64 sample = blockIdx.x / groups;
    int group = blockIdx.x % groups, n = size * inner, first = group * size;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int c = threadIdx.x; c < size; c += blockDim.x) all_sums[c] = all_products[c] = 0.0f;
    __syncthreads();
    for (int view = 0; view < views; ++view) {
        i64 set = (sample * views + view) * groups + group;
        float mean, inverse;
        if (stored_mean) {
            mean = stored_mean[first];
            inverse = 1.0f / sqrtf(stored_variance[first] + eps);
        } else {
            mean = kept[2 * set];
            inverse = kept[2 * set + 1];
        }
        for (int c = warp; c < size; c += warps) {
            float w = weight ? weight[first + c] : 1.0f, b = bias ? bias[first + c] : 0.0f;
            const float *xs = x + set * n + c * inner, *gs = g + set * n + c * inner;
            float sum = 0.0f, product = 0.0f;
#pragma unroll 4
            for (int p = lane * V; p < inner; p += 32 * V) {
                Pack<V> value = load<V>(xs + p), upstream = load<V>(gs + p);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    float hat = normalised(value.of[v], mean, inverse);
                    if (relu && !(__fmaf_rn(hat, w, b) > 0.0f)) upstream.of[v] = 0.0f;
                    sum += upstream.of[v];
                    product += upstream.of[v] * hat;
                }
            }
            sum = warp_sum(sum);
            product = warp_sum(product);
            if (lane == 0) {
                sums[c] = sum;
                products[c] = product;
                all_sums[c] += sum;
                all_products[c] += product;
            }
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
            for (int c = warp; c < size; c += warps) {
                float w = weight ? weight[first + c] : 1.0f, b = bias ? bias[first + c] : 0.0f;
                const float *xs = x + set * n + c * inner, *gs = g + set * n + c * inner;
                float* out = dx + set * n + c * inner;
#pragma unroll 4
                for (int p = lane * V; p < inner; p += 32 * V) {
                    Pack<V> value = load<V>(xs + p), upstream = load<V>(gs + p), result;
                    if (accumulate) result = load<V>(out + p);
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        float hat = normalised(value.of[v], mean, inverse);
                        if (relu && !(__fmaf_rn(hat, w, b) > 0.0f)) upstream.of[v] = 0.0f;
                        float term = (w * upstream.of[v] - average - hat * along) * inverse;
                        result.of[v] = accumulate ? result.of[v] + term : term;
                    }
                    if (V == 4) {
                        *(float4*)(out + p) = *(float4*)result.of;
                    } else {
                        out[p] = result.of[0];
                    }
                }
            }
        }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < size; c += blockDim.x) {
        if (dw) put(dw + sample * stride + first + c, all_products[c], accumulate_affine);
        if (db) put(db + sample * stride + first + c, all_sums[c], accumulate_affine);
    }
}

KERNEL group_backward(const float* __restrict__ x, const float* __restrict__ g, const float* kept, const float* weight,
                      const float* bias, const float* mean, const float* variance, float* dx, float* dw, float* db, i64 stride,
                      int groups, int size, int inner, float eps, int relu, int views, int accumulate, int accumulate_affine) {
    if (inner % 4 == 0) {
        group_backward_of<4>(x, g, kept, weight, bias, mean, variance, dx, dw, db, stride, groups, size, inner, eps, relu, views,
                             accumulate, accumulate_affine);
    } else {
        group_backward_of<1>(x, g, kept, weight, bias, mean, variance, dx, dw, db, stride, groups, size, inner, eps, relu, views,
                             accumulate, accumulate_affine);
    }
}

// One warp per row of `features`.
KERNEL layer_forward(const float* x, float* y, float* kept, const float* weight, const float* bias, int features, i64 rows,
                     float eps) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    x += row * features;
    y += row * features;
    float sum = 0.0f;
    for (int i = lane; i < features; i += 32) sum += x[i];
    float mean = warp_sum(sum) / features;
    float squares = 0.0f;
    for (int i = lane; i < features; i += 32) squares += (x[i] - mean) * (x[i] - mean);
    float inverse = 1.0f / sqrtf(warp_sum(squares) / features + eps);
    if (kept && lane == 0) {
        kept[2 * row] = mean;
        kept[2 * row + 1] = inverse;
    }
    for (int i = lane; i < features; i += 32) {
        float w = weight ? weight[i] : 1.0f, b = bias ? bias[i] : 0.0f;
        y[i] = __fmaf_rn(normalised(x[i], mean, inverse), w, b);
    }
}

KERNEL layer_backward(const float* x, const float* g, const float* kept, const float* weight, float* dx, int features, i64 rows,
                      int accumulate) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    x += row * features;
    g += row * features;
    dx += row * features;
    float mean = kept[2 * row], inverse = kept[2 * row + 1];
    float sum = 0.0f, product = 0.0f;
    for (int i = lane; i < features; i += 32) {
        float scaled = weight ? weight[i] * g[i] : g[i];
        sum += scaled;
        product += scaled * normalised(x[i], mean, inverse);
    }
    float average = warp_sum(sum) / features, along = warp_sum(product) / features;
    for (int i = lane; i < features; i += 32) {
        float scaled = weight ? weight[i] * g[i] : g[i];
        put(dx + i, (scaled - average - normalised(x[i], mean, inverse) * along) * inverse, accumulate);
    }
}

// Gradients of scale and shift: one thread per sample and feature.
KERNEL layer_affine(const float* x, const float* g, const float* kept, float* dw, float* db, i64 stride, int features, int rows,
                    int samples, int accumulate) {
    i64 i = global_index();
    if (i >= (i64)samples * features) return;
    i64 sample = i / features, feature = i % features;
    float sum = 0.0f, product = 0.0f;
    for (i64 row = sample * rows; row < (sample + 1) * rows; ++row) {
        float upstream = g[row * features + feature];
        sum += upstream;
        product += upstream * normalised(x[row * features + feature], kept[2 * row], kept[2 * row + 1]);
    }
    if (dw) put(dw + sample * stride + feature, product, accumulate);
    if (db) put(db + sample * stride + feature, sum, accumulate);
}
