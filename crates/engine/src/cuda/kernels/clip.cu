// Weight standardisation, per-sample norms, and the clipped sum.

// One block per filter of n weights. stats: 1 / deviation, and the sum of the standardised filter's squares.
KERNEL standardise(const float* weight, float* used, float* stats, int n, float eps) {
    __shared__ double scratch[32];
    weight += (i64)blockIdx.x * n;
    used += (i64)blockIdx.x * n;
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += weight[i];
    double mean = block_sum(sum, scratch) / n;
    double squares = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (weight[i] - mean) * (weight[i] - mean);
    squares = block_sum(squares, scratch);
    double inverse = 1.0 / sqrt(squares / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) used[i] = (float)((weight[i] - mean) * inverse);
    if (threadIdx.x == 0) {
        stats[2 * blockIdx.x] = (float)inverse;
        stats[2 * blockIdx.x + 1] = (float)(squares * inverse * inverse);
    }
}

// The gradient d of a used filter becomes that of its parameter: (d - mean d - hat mean(hat d)) / deviation.
KERNEL standardise_backward(float* d, const float* used, const float* stats, int n) {
    __shared__ double scratch[32];
    d += (i64)blockIdx.x * n;
    used += (i64)blockIdx.x * n;
    double total = 0.0, along = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        total += d[i];
        along += (double)d[i] * used[i];
    }
    total = block_sum(total, scratch) / n;
    along = block_sum(along, scratch) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = (float)((d[i] - total - used[i] * along) * stats[2 * blockIdx.x]);
}

// Squared norm of a parameter filter's gradient, from sums over the used filter's gradient.
__device__ double standardised_norm(double square, double total, double along, const float* stats, double n) {
    double norm = square - total * total / n - along * along * (2.0 / n - stats[1] / (n * n));
    return fmax(norm, 0.0) * stats[0] * stats[0];
}

// One warp per part and sample. A part is a run of a sample's written-down gradient: start, len, and for a standardised filter
// where the used filter and its stats lie (else -1).
KERNEL part_norms(const float* d, i64 stride, const int* parts, int count, const float* used, const float* stats,
                  double* partials, int partial_stride) {
    int index = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (index >= count) return;
    const int* part = parts + 4 * index;
    d += (i64)blockIdx.y * stride + part[0];
    int n = part[1];
    float square = 0.0f, total = 0.0f, along = 0.0f;
    if (part[2] < 0) {
#pragma unroll 8
        for (int i = lane; i < n; i += 32) square += d[i] * d[i];
    } else {
        const float* filter = used + part[2];
#pragma unroll 8
        for (int i = lane; i < n; i += 32) {
            float value = d[i];
            square += value * value;
            total += value;
            along += value * filter[i];
        }
    }
    double result = warp_sum((double)square);
    if (part[2] >= 0) {
        double whole = warp_sum((double)total), parallel = warp_sum((double)along);
        result = standardised_norm(result, whole, parallel, stats + part[3], n);
    }
    if (lane == 0) partials[(i64)blockIdx.y * partial_stride + index] = result;
}

// Adds every parameter's partial sums. ranges: start and end of each parameter's partials.
KERNEL add_partials(const double* partials, int partial_stride, const int* ranges, double* squared, int entries) {
    __shared__ double scratch[32];
    const int* range = ranges + 2 * blockIdx.x;
    partials += (i64)blockIdx.y * partial_stride;
    double sum = 0.0;
    for (int i = range[0] + threadIdx.x; i < range[1]; i += blockDim.x) sum += partials[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) squared[(i64)blockIdx.y * entries + blockIdx.x] = sum;
}

// The norm of an outer product is the product of the norms: one block per sample.
KERNEL outer_norm(const float* x, const float* g, int in, int out, double* partials, int partial_stride) {
    __shared__ double scratch[32];
    x += (i64)blockIdx.x * in;
    g += (i64)blockIdx.x * out;
    float left = 0.0f, right = 0.0f;
    for (int i = threadIdx.x; i < in; i += blockDim.x) left += x[i] * x[i];
    for (int i = threadIdx.x; i < out; i += blockDim.x) right += g[i] * g[i];
    double product = block_sum((double)left, scratch) * block_sum((double)right, scratch);
    if (threadIdx.x == 0) partials[(i64)blockIdx.x * partial_stride] = product;
}

// The inner product of two matrices of n values: one block per sample.
KERNEL gram_norm(const float* a, const float* b, i64 n, double* partials, int partial_stride) {
    __shared__ double scratch[32];
    a += blockIdx.x * n;
    b += blockIdx.x * n;
    double sum = 0.0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += (double)a[i] * b[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) partials[(i64)blockIdx.x * partial_stride] = fmax(sum, 0.0);
}

// columns[p, q] = sum over taps of inputs[source(p), source(q)]. sources: [positions, taps], -1 in the padding.
KERNEL gram_columns(const float* inputs, float* columns, const int* sources, int positions_in, int positions, int taps, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    u32 row = (u32)i / (u32)positions;
    int q = (int)((u32)i % (u32)positions), p = (int)(row % (u32)positions);
    inputs += (i64)(row / (u32)positions) * positions_in * positions_in;
    float sum = 0.0f;
    for (int tap = 0; tap < taps; ++tap) {
        int from = sources[p * taps + tap], to = sources[q * taps + tap];
        if (from >= 0 && to >= 0) sum += inputs[(i64)from * positions_in + to];
    }
    columns[i] = sum;
}

// The sum of all inputs that a position reads: one block per sample. Dynamic shared memory: one float per input position.
KERNEL reached_sums(const float* x, float* reached, const int* sources, int channels, int positions_in, int positions, int taps) {
    extern __shared__ float totals[];
    x += (i64)blockIdx.x * channels * positions_in;
    for (int i = threadIdx.x; i < positions_in; i += blockDim.x) totals[i] = 0.0f;
    __syncthreads();
    // Threads side by side read side by side; where there are more threads than positions, they share the channels.
    int shares = max(1, (int)blockDim.x / positions_in);
    for (int start = 0; start < positions_in; start += blockDim.x) {
        int i = start + (int)threadIdx.x % min(positions_in, (int)blockDim.x), share = threadIdx.x / min(positions_in, (int)blockDim.x);
        float sum = 0.0f;
        if (i < positions_in && share < shares)
            for (int c = share; c < channels; c += shares) sum += x[(i64)c * positions_in + i];
        // One share after the other, so that the order is fixed.
        for (int turn = 0; turn < shares; ++turn) {
            if (i < positions_in && share == turn) totals[i] += sum;
            __syncthreads();
        }
    }
    for (int p = threadIdx.x; p < positions; p += blockDim.x) {
        float sum = 0.0f;
        for (int tap = 0; tap < taps; ++tap) {
            int from = sources[p * taps + tap];
            if (from >= 0) sum += totals[from];
        }
        reached[(i64)blockIdx.x * positions + p] = sum;
    }
}

// One warp per sample and filter: its squared norm from inner products. products = g columns; without `stats` nothing is standardised.
// Without `y` the gradient's part along the filter, which standardisation takes away, counts all the same: the result is an upper bound.
KERNEL filter_norms(const float* products, const float* g, const float* y, const float* bias, const float* reached,
                    const float* stats, int out, int positions, double n, int samples, double* partials, int partial_stride) {
    i64 warp = global_index() >> 5;
    if (warp >= (i64)samples * out) return;
    i64 sample = warp / out, filter = warp % out, start = warp * positions;
    float square = 0.0f, total = 0.0f, along = 0.0f;
    float shift = bias ? bias[filter] : 0.0f;
    for (int p = threadIdx.x & 31; p < positions; p += 32) {
        float upstream = g[start + p];
        square += products[start + p] * upstream;
        if (stats) {
            total += reached[sample * positions + p] * upstream;
            if (y) along += (y[start + p] - shift) * upstream;
        }
    }
    double result = warp_sum((double)square);
    if (stats) {
        double whole = warp_sum((double)total), parallel = warp_sum((double)along);
        result = standardised_norm(result, whole, parallel, stats + 2 * filter, n);
    }
    if ((threadIdx.x & 31) == 0) partials[sample * partial_stride + filter] = fmax(result, 0.0);
}

// sum += factor d over the samples, in their order. blocks: start in the written-down gradient, len, start in the sum, parameter.
KERNEL weighted_sum(const float* d, i64 stride, const int* blocks, const float* factors, int entries, float* sum, int samples) {
    const int* block = blocks + 4 * blockIdx.x;
    for (int i = threadIdx.x; i < block[1]; i += blockDim.x) {
        const float* value = d + block[0] + i;
        const float* factor = factors + block[3];
        float total = 0.0f;
#pragma unroll 8
        for (int sample = 0; sample < samples; ++sample) total += factor[(i64)sample * entries] * value[sample * stride];
        sum[block[2] + i] += total;
    }
}

KERNEL scale_items(const float* g, float* y, const float* factors, int entries, int entry, int len, int views, i64 n) {
    i64 i = global_index();
    if (i < n) y[i] = g[i] * factors[(i64)((u32)i / (u32)len / (u32)views) * entries + entry];
}
