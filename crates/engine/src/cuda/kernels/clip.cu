// Weight standardisation, upper bounds on per-sample norms, and the clipped sum.

// One block per filter of n weights. inverses: 1 / deviation of each.
KERNEL standardise(const float* weight, float* used, float* inverses, int n, float eps) {
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
    if (threadIdx.x == 0) inverses[blockIdx.x] = (float)inverse;
}

// The plain gradient d of a used filter becomes that of its parameter: (d - mean d - hat mean(hat d)) / deviation.
KERNEL standardise_backward(float* d, const float* used, const float* inverses, int n) {
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
    for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = (float)((d[i] - total - used[i] * along) * inverses[blockIdx.x]);
}

// The same of a sum of whole numbers, which are already less their mean and over the deviation: what is left is the part along the filter.
// `d - hat mean(hat d)` is never longer than d, since the squares of `hat` are one in the mean at the most.
KERNEL project_filters(int* d, const float* used, int n) {
    __shared__ double scratch[32];
    d += (i64)blockIdx.x * n;
    used += (i64)blockIdx.x * n;
    double along = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) along += (double)d[i] * used[i];
    along = block_sum(along, scratch) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = (int)rint(d[i] - used[i] * along);
}

// What double precision may have rounded off a sum of n exact products and what follows from it, as a share of the sum of their sizes.
__device__ __forceinline__ double rounded_off(int n) { return 8.0 * (n + 32) * 2.220446049250313e-16; }

// One warp per part and sample. A part is a run of a sample's written-down gradient: start, len, and for a standardised filter where its mean
// is kept and where its 1 / deviation lies (else -1). The result is an upper bound on the sum of squares of what is added of the part, over
// the clipping factor: the values themselves, or a filter's less a mean in single precision, which is decided here, over the deviation.
// Squares are exact in double precision, each sum errs by 2^-53 of its terms for each of them, and (sum of d)^2 <= n (sum of d^2).
KERNEL part_norms(const float* d, i64 stride, const int* parts, int count, const float* inverses, float* means, int mean_stride,
                  double* partials, int partial_stride) {
    int index = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (index >= count) return;
    const int* part = parts + 4 * index;
    d += (i64)blockIdx.y * stride + part[0];
    int n = part[1];
    double square = 0.0, total = 0.0;
    if (part[2] < 0) {
#pragma unroll 8
        for (int i = lane; i < n; i += 32) square += (double)d[i] * d[i];
    } else {
#pragma unroll 8
        for (int i = lane; i < n; i += 32) {
            square += (double)d[i] * d[i];
            total += d[i];
        }
    }
    square = warp_sum(square);
    double result = square, error = rounded_off(n) * square;
    if (part[2] >= 0) {
        total = warp_sum(total);
        float mean = (float)(total / n);
        double inverse = inverses[part[3]];
        result += mean * ((double)n * mean - 2.0 * total);
        // A sum that is not a number must stay one.
        result = ((result < 0.0 ? 0.0 : result) + error) * inverse * inverse;
        if (lane == 0) means[(i64)blockIdx.y * mean_stride + part[2]] = mean;
    } else {
        result += error;
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

// How far what is computed may be from what is added; see ghost.rs.
struct Errors {
    double gamma, eta, lost;
};

// An upper bound on a squared norm, from what was computed of it and S, the sum of the sizes of what it is made of.
__device__ __forceinline__ double bounded(double square, double sizes, const Errors& errors) {
    // A square that is not a number must stay one.
    double norm = sqrt((square < 0.0 ? 0.0 : square) + errors.gamma * sizes * sizes) + errors.eta * sizes + errors.lost;
    return norm * norm;
}

// The norm of an outer product is the product of the norms: one block per sample.
KERNEL outer_norm(const float* x, const float* g, int in, int out, double gamma, double eta, double lost, double* partials,
                  int partial_stride) {
    __shared__ double scratch[32];
    x += (i64)blockIdx.x * in;
    g += (i64)blockIdx.x * out;
    double left = 0.0, right = 0.0;
    for (int i = threadIdx.x; i < in; i += blockDim.x) left += (double)x[i] * x[i];
    for (int i = threadIdx.x; i < out; i += blockDim.x) right += (double)g[i] * g[i];
    double square = block_sum(left, scratch) * block_sum(right, scratch);
    if (threadIdx.x == 0) partials[(i64)blockIdx.x * partial_stride] = bounded(square, sqrt(square), {gamma, eta, lost});
}

#define GRAM 64
#define GRAM_DEPTH 16
// Four rows of a warp's read start eight banks apart.
#define GRAM_PITCH (GRAM + 4)

// out[i, j] = sum over k of a[i, k] a[j, k] in double precision, for all pairs of `count` vectors; a[i, k] lies `along` i + `across` k
// behind the sample's start and is multiplied by scales[k] where there are any: both products are exact. Four warps compute a tile of 64
// by 64. Grid: tiles on and above the diagonal, of which the rest is the mirror image; samples.
extern "C" __global__ void __launch_bounds__(128)
    gram(const float* values, const float* scales, int count, int inner, int along, int across, double* out) {
    __shared__ double left[GRAM_DEPTH * GRAM_PITCH], right[GRAM_DEPTH * GRAM_PITCH];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row_of = lane >> 2, t = lane & 3;
    int column_tile = 0, row_tile = blockIdx.x;
    while (row_tile > column_tile) row_tile -= ++column_tile;
    int i0 = row_tile * GRAM, j0 = column_tile * GRAM;
    values += (i64)blockIdx.y * count * inner;
    out += (i64)blockIdx.y * count * count;
    auto load = [&](double* target, int first, int k0) {
        for (int at = threadIdx.x; at < GRAM * GRAM_DEPTH; at += 128) {
            // Threads side by side read side by side.
            int i = along == 1 ? at % GRAM : at / GRAM_DEPTH, k = along == 1 ? at / GRAM : at % GRAM_DEPTH;
            double value = 0.0;
            if (first + i < count && k0 + k < inner) {
                float single = values[(i64)(first + i) * along + (i64)(k0 + k) * across];
                // The largest numbers may overflow where their first bits are rounded.
                value = fabsf(single) < 1.7e38f ? single : INFINITY;
                if (scales) value *= scales[k0 + k];
            }
            target[k * GRAM_PITCH + i] = value;
        }
    };
    double c[4][4][2] = {};
    int m0 = (warp & 1) * 32 + row_of, n0 = (warp >> 1) * 32 + row_of;
    for (int k0 = 0; k0 < inner; k0 += GRAM_DEPTH) {
        load(left, i0, k0);
        load(right, j0, k0);
        __syncthreads();
#pragma unroll
        for (int k = t; k < GRAM_DEPTH; k += 4) {
            double a[4], b[4];
#pragma unroll
            for (int m = 0; m < 4; ++m) a[m] = left[k * GRAM_PITCH + m0 + 8 * m];
#pragma unroll
            for (int n = 0; n < 4; ++n) b[n] = right[k * GRAM_PITCH + n0 + 8 * n];
#pragma unroll
            for (int m = 0; m < 4; ++m)
#pragma unroll
                for (int n = 0; n < 4; ++n)
                    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                        : "+d"(c[m][n][0]), "+d"(c[m][n][1])
                        : "d"(a[m]), "d"(b[n]));
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int v = 0; v < 2; ++v) {
                int i = i0 + m0 + 8 * m, j = j0 + (warp >> 1) * 32 + 8 * n + 2 * t + v;
                if (i >= count || j >= count) continue;
                out[(i64)i * count + j] = c[m][n][v];
                if (row_tile != column_tile) out[(i64)j * count + i] = c[m][n][v];
            }
}

// An upper bound on the squared norm of sum over p of a_p g_p^T, from the inner products of all inputs and of all outputs' gradients:
// one block per sample. `sources` says which input each tap of a position reads, [positions, taps], -1 in the padding; without it a position
// reads the input of its number. With `inverses` filters are added less a mean, which is decided here, and times these. Dynamic shared
// memory then: one double per input position and per position.
KERNEL ghost_norm(const double* inputs, const double* gradients, const int* sources, int positions_in, int positions, int taps,
                  const float* x, const float* g, const float* inverses, int channels, int out, float* means, int mean_stride,
                  double gamma, double eta, double lost, double* partials, int partial_stride) {
    extern __shared__ __align__(16) double row_sums[];
    __shared__ double scratch[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    inputs += (i64)blockIdx.x * positions_in * positions_in;
    gradients += (i64)blockIdx.x * positions * positions;
    double square = 0.0, sizes = 0.0;
    // The sum over all pairs is symmetric.
    for (int p = warp; p < positions; p += warps) {
        for (int q = lane; q <= p; q += 32) {
            double column = 0.0;
            if (sources) {
                for (int tap = 0; tap < taps; ++tap) {
                    int from = sources[p * taps + tap], to = sources[q * taps + tap];
                    if (from >= 0 && to >= 0) column += inputs[(i64)from * positions_in + to];
                }
            } else {
                column = inputs[(i64)p * positions_in + q];
            }
            double product = column * gradients[(i64)p * positions + q];
            square += p == q ? product : 2.0 * product;
            if (p == q) sizes += product < 0.0 ? 0.0 : sqrt(product);
        }
    }
    if (inverses) {
        double *totals = row_sums, *reached = row_sums + positions_in;
        x += (i64)blockIdx.x * channels * positions_in;
        g += (i64)blockIdx.x * out * positions;
        means += (i64)blockIdx.x * mean_stride;
        for (int i = threadIdx.x; i < positions_in; i += blockDim.x) totals[i] = 0.0;
        __syncthreads();
        // Threads side by side read side by side; where there are more threads than positions, they share the channels.
        int wide = min(positions_in, (int)blockDim.x), shares = (int)blockDim.x / wide;
        for (int start = 0; start < positions_in; start += wide) {
            int i = start + (int)threadIdx.x % wide, share = threadIdx.x / wide;
            double sum = 0.0;
            if (i < positions_in && share < shares)
                for (int c = share; c < channels; c += shares) sum += x[(i64)c * positions_in + i];
            // One share after the other, so that the order is fixed.
            for (int turn = 0; turn < shares; ++turn) {
                if (i < positions_in && share == turn) totals[i] += sum;
                __syncthreads();
            }
        }
        for (int p = threadIdx.x; p < positions; p += blockDim.x) {
            double sum = 0.0;
            for (int tap = 0; tap < taps; ++tap) {
                int from = sources[p * taps + tap];
                if (from >= 0) sum += totals[from];
            }
            reached[p] = sum;
        }
        __syncthreads();
        double n = (double)channels * taps;
        for (int filter = warp; filter < out; filter += warps) {
            double total = 0.0;
            for (int p = lane; p < positions; p += 32) total += reached[p] * g[(i64)filter * positions + p];
            total = warp_sum(total);
            if (lane == 0) {
                float mean = (float)(total / n);
                double inverse = inverses[filter];
                means[filter] = mean;
                square += inverse * inverse * mean * (n * mean - 2.0 * total);
            }
        }
    }
    square = block_sum(square, scratch);
    sizes = block_sum(sizes, scratch);
    if (threadIdx.x == 0) partials[(i64)blockIdx.x * partial_stride] = bounded(square, sizes, {gamma, eta, lost});
}

// Adds what all samples add of their written-down gradients, in their order; a sample whose factor is zero is passed by, whatever it holds.
// blocks: start in the written-down gradient, len, start in the sum, parameter, and of a standardised filter where its mean and its
// 1 / deviation lie (else -1).
KERNEL sum_written(const float* d, i64 stride, const int* blocks, const float* factors, int entries, const float* means,
                   int mean_stride, const float* inverses, u32* sum, int samples, int whole) {
    const int* block = blocks + 6 * blockIdx.x;
    const float *factor = factors + block[3], *mean = block[4] < 0 ? 0 : means + block[4];
    float inverse = block[5] < 0 ? 1.0f : inverses[block[5]];
    for (int i = threadIdx.x; i < block[1]; i += blockDim.x) {
        const float* value = d + block[0] + i;
        u32 total = 0;
#pragma unroll 8
        for (int sample = 0; sample < samples; ++sample) {
            float share = factor[(i64)sample * entries], from = mean ? mean[(i64)sample * mean_stride] : 0.0f;
            float own = value[sample * stride];
            if (share != 0.0f) total = added(total, own, from, __fmul_rn(share, inverse), whole);
        }
        join_sum(sum + block[2] + i, total, whole);
    }
}

#define OUTER 64
#define OUTER_ROWS 16

// Adds what all samples add of a linear layer's gradient that is never written down: of each the sum over its `rows` of g x^T, one chain of
// fused additions in single precision. 16 x 16 threads compute 4 x 4 values each. Grid: tiles of features, of outputs, shares of the samples
// (one share without clipping). factors: those of the parameter.
extern "C" __global__ void __launch_bounds__(256)
    outer_sum(const float* g, const float* x, int out, int features, int rows, const float* factors, int entries, u32* sum, int samples,
              int whole) {
    __shared__ __align__(16) float left[OUTER_ROWS][OUTER], right[OUTER_ROWS][OUTER];
    __shared__ float shares[OUTER_ROWS];
    int o0 = blockIdx.y * OUTER, k0 = blockIdx.x * OUTER, ty = threadIdx.x >> 4, tx = threadIdx.x & 15;
    i64 row = (i64)samples * blockIdx.z / gridDim.z * rows, end = (i64)samples * (blockIdx.z + 1) / gridDim.z * rows;
    float c[4][4] = {};
    u32 total[4][4] = {};
    int done = 0;
    for (; row < end; row += OUTER_ROWS) {
        __syncthreads();
        for (int i = threadIdx.x; i < OUTER_ROWS * OUTER; i += 256) {
            int r = i / OUTER, column = i % OUTER;
            bool there = row + r < end;
            left[r][column] = there && o0 + column < out ? g[(row + r) * out + o0 + column] : 0.0f;
            right[r][column] = there && k0 + column < features ? x[(row + r) * features + k0 + column] : 0.0f;
        }
        if (threadIdx.x < OUTER_ROWS && row + threadIdx.x < end) shares[threadIdx.x] = factors[(row + threadIdx.x) / rows * entries];
        __syncthreads();
        int count = (int)min((i64)OUTER_ROWS, end - row);
        for (int r = 0; r < count; ++r) {
            Four a = *(Four*)&left[r][4 * ty], b = *(Four*)&right[r][4 * tx];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) c[i][j] = __fmaf_rn(a.of[i], b.of[j], c[i][j]);
            if (++done < rows) continue;
            done = 0;
            float factor = shares[r];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if (factor != 0.0f) total[i][j] = added(total[i][j], c[i][j], 0.0f, factor, whole);
                    c[i][j] = 0.0f;
                }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int o = o0 + 4 * ty + i, k = k0 + 4 * tx + j;
            if (o < out && k < features) join_sum(sum + (i64)o * features + k, total[i][j], whole);
        }
}
