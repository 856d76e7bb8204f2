// Weight standardisation, upper bounds on per-sample norms, and the clipped sum.

// Standardises filters of n weights, with one block for each. inverses: 1 / deviation of each filter.
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

// Turns the gradient d of a standardised filter `hat` into that of its parameter: (d - mean d - hat mean(hat d)) / deviation.
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

// How much a sum of n exact products in double precision, and what follows from it, may be off, as a share of the sum of their sizes.
__device__ __forceinline__ double rounded_off(int n) { return 8.0 * (n + 32) * 2.220446049250313e-16; }

// A run of a sample's written gradient: its start and length, and for a standardised filter where its mean and its 1 / deviation lie (-1 for
// any other).
struct GradientPart {
    int start, len, mean, inverse;
};
static_assert(sizeof(GradientPart) == 16, "as on the host");

// Computes an upper bound on the sum of squares of what a part contributes before the clipping factor, with one warp for each part and
// sample. That is the values themselves, or for a filter the values less a mean in single precision, which is chosen here, divided by the
// deviation. Squares are exact in double precision, a sum of n terms errs by n 2^-53 of their sizes, and (sum of d)^2 <= n (sum of d^2).
KERNEL part_norms(const float* d, i64 stride, const GradientPart* parts, int count, const float* inverses, float* means, int mean_stride,
                  double* partials, int partial_stride) {
    int index = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (index >= count) return;
    const GradientPart& part = parts[index];
    d += (i64)blockIdx.y * stride + part.start;
    int n = part.len;
    double square = 0.0, total = 0.0;
    if (part.mean < 0) {
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
    if (part.mean >= 0) {
        total = warp_sum(total);
        float mean = (float)(total / n);
        double inverse = inverses[part.inverse];
        result += mean * ((double)n * mean - 2.0 * total);
        // A sum that is not a number must not turn into one.
        result = ((result < 0.0 ? 0.0 : result) + error) * inverse * inverse;
        if (lane == 0) means[(i64)blockIdx.y * mean_stride + part.mean] = mean;
    } else {
        result += error;
    }
    if (lane == 0) partials[(i64)blockIdx.y * partial_stride + index] = result;
}

// Where a parameter's partial sums start and end.
struct PartialRange {
    int start, end;
};
static_assert(sizeof(PartialRange) == 8, "as on the host");

// Adds every parameter's partial sums.
KERNEL add_partials(const double* partials, int partial_stride, const PartialRange* ranges, double* squared, int entries) {
    __shared__ double scratch[32];
    const PartialRange& range = ranges[blockIdx.x];
    partials += (i64)blockIdx.y * partial_stride;
    double sum = 0.0;
    for (int i = range.start + threadIdx.x; i < range.end; i += blockDim.x) sum += partials[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) squared[(i64)blockIdx.y * entries + blockIdx.x] = sum;
}

// How far what is computed may be off from what is added, as ghost.rs explains.
struct Errors {
    double gamma, eta, lost;
};

// An upper bound on a squared norm, from the computed square and from S, the sum of the sizes of what it is made of.
__device__ __forceinline__ double bounded(double square, double sizes, const Errors& errors) {
    // A square that is not a number must not turn into one.
    double norm = sqrt((square < 0.0 ? 0.0 : square) + errors.gamma * sizes * sizes) + errors.eta * sizes + errors.lost;
    return norm * norm;
}

// Bounds the norm of an outer product, which is the product of the norms, with one block for each sample.
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

// Vectors of which all inner products are wanted. Number k of vector i lies `along` i + `across` k after the start. If there are scales, it
// is multiplied by scales[k], which is exact. out: [count, count].
struct Vectors {
    const float *values, *scales;
    int count, inner, along, across;
    double* out;
};

// The vectors of one sample: its inputs (blockIdx.z = 0), or the gradients of its outputs.
__device__ __forceinline__ Vectors vectors_of(const float* x, int positions_in, int channels, int x_along, int x_across, const float* g,
                                              const float* scales, int positions, int filters, int g_along, int g_across,
                                              double* inputs, double* gradients) {
    Vectors vectors = {x, 0, positions_in, channels, x_along, x_across, inputs};
    if (blockIdx.z == 1) vectors = {g, scales, positions, filters, g_along, g_across, gradients};
    vectors.values += (i64)blockIdx.y * vectors.count * vectors.inner;
    vectors.out += (i64)blockIdx.y * vectors.count * vectors.count;
    return vectors;
}

// The vectors of a tile, and the warps of a block. In `gram` every warp takes numbers of its own; in `gram_pairs` half of the warps take the
// even steps and half the odd ones.
#define GRAM 64
#define GRAM_WARPS 8

// Loads a lane's share of 8 N vectors from `first` on, in a step of four numbers: one number of every eighth vector, or zeros if there are
// none.
template <int N>
__device__ __forceinline__ void load_vectors(float* target, const Vectors& vectors, int first, int k0) {
    int lane = threadIdx.x & 31, k = k0 + (lane & 3), i = first + (lane >> 2);
    const float* from = vectors.values + (i64)k * vectors.across + (i64)i * vectors.along;
#pragma unroll
    for (int m = 0; m < N; ++m)
        target[m] = k < vectors.inner && i + 8 * m < vectors.count ? from[(i64)8 * m * vectors.along] : 0.0f;
}

// Converts such a share to double precision. The largest numbers become infinite, because they could overflow when their first bits are
// rounded.
template <int N>
__device__ __forceinline__ void to_double(double* target, const float* values, const Vectors& vectors, int k0) {
    int k = k0 + (threadIdx.x & 3);
    double scale = vectors.scales && k < vectors.inner ? vectors.scales[k] : 1.0;
#pragma unroll
    for (int m = 0; m < N; ++m) target[m] = (fabsf(values[m]) < 1.7e38f ? values[m] : INFINITY) * scale;
}

// c += a b^T, for four numbers of eight vectors on each side.
__device__ __forceinline__ void multiply_double(double* c, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
}

// Computes the inner products of 64 vectors with each other, in double precision: those of each eight with themselves and with later ones,
// of which the rest is the mirror image. A lane holds the same numbers on both sides of a product. Grid: tiles; samples; inputs and
// gradients.
extern "C" __global__ void __launch_bounds__(32 * GRAM_WARPS)
    gram(const float* x, int positions_in, int channels, int x_along, int x_across, const float* g, const float* scales, int positions,
         int filters, int g_along, int g_across, double* inputs, double* gradients) {
    // There are 36 products of eight by eight, of which nine are added up at a time.
    __shared__ double parts[GRAM_WARPS][9 * 64];
    Vectors vectors = vectors_of(x, positions_in, channels, x_along, x_across, g, scales, positions, filters, g_along, g_across, inputs,
                                 gradients);
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, i0 = blockIdx.x * GRAM;
    if (i0 >= vectors.count) return;
    int eights = min(8, (vectors.count - i0 + 7) / 8);
    double c[36][2] = {};
    float next[8];
    load_vectors<8>(next, vectors, i0, 4 * warp);
    for (int k0 = 4 * warp; k0 < vectors.inner; k0 += 4 * GRAM_WARPS) {
        double a[8];
        to_double<8>(a, next, vectors, k0);
        load_vectors<8>(next, vectors, i0, k0 + 4 * GRAM_WARPS);
#pragma unroll
        for (int n = 0; n < 8; ++n)
            if (n < eights)
#pragma unroll
                for (int m = 0; m <= n; ++m) multiply_double(c[n * (n + 1) / 2 + m], a[m], a[n]);
    }
#pragma unroll
    for (int nine = 0; nine < 4; ++nine) {
        __syncthreads();
#pragma unroll
        for (int at = 0; at < 9; ++at) {
            parts[warp][64 * at + lane] = c[9 * nine + at][0];
            parts[warp][64 * at + 32 + lane] = c[9 * nine + at][1];
        }
        __syncthreads();
        for (int at = threadIdx.x; at < 9 * 64; at += 32 * GRAM_WARPS) {
            double sum = 0.0;
#pragma unroll
            for (int other = 0; other < GRAM_WARPS; ++other) sum += parts[other][at];
            int product = 9 * nine + at / 64, n = 0;
            while ((n + 1) * (n + 2) / 2 <= product) ++n;
            int m = product - n * (n + 1) / 2, of = at & 31;
            int i = i0 + 8 * m + (of >> 2), j = i0 + 8 * n + 2 * (of & 3) + (at >> 5 & 1);
            if (i >= vectors.count || j >= vectors.count) continue;
            vectors.out[(i64)i * vectors.count + j] = sum;
            if (m != n) vectors.out[(i64)j * vectors.count + i] = sum;
        }
    }
}

// Computes the inner products of 64 vectors with 64 later ones. Four warps compute a quarter each from the even steps of eight numbers, and
// four from the odd ones. Grid: pairs of tiles; samples; inputs and gradients.
extern "C" __global__ void __launch_bounds__(32 * GRAM_WARPS, 2)
    gram_pairs(const float* x, int positions_in, int channels, int x_along, int x_across, const float* g, const float* scales,
               int positions, int filters, int g_along, int g_across, double* inputs, double* gradients) {
    __shared__ double parts[4][32 * 32];
    Vectors vectors = vectors_of(x, positions_in, channels, x_along, x_across, g, scales, positions, filters, g_along, g_across, inputs,
                                 gradients);
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, quarter = warp & 3, half = warp >> 2;
    int later = 1, tile = blockIdx.x;
    while (tile >= later) tile -= later++;
    if (later * GRAM >= vectors.count) return;
    int i0 = tile * GRAM + (quarter & 1) * 32, j0 = later * GRAM + (quarter >> 1) * 32;
    double c[16][2] = {};
    float next[2][8];
    auto load = [&](int k0) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            load_vectors<4>(next[step], vectors, i0, k0 + 4 * step);
            load_vectors<4>(next[step] + 4, vectors, j0, k0 + 4 * step);
        }
    };
    load(8 * half);
    for (int k0 = 8 * half; k0 < vectors.inner; k0 += 16) {
        double a[2][8];
#pragma unroll
        for (int step = 0; step < 2; ++step) to_double<8>(a[step], next[step], vectors, k0 + 4 * step);
        load(k0 + 16);
#pragma unroll
        for (int step = 0; step < 2; ++step)
#pragma unroll
            for (int at = 0; at < 16; ++at) multiply_double(c[at], a[step][at >> 2], a[step][4 + (at & 3)]);
    }
    if (half == 1)
#pragma unroll
        for (int at = 0; at < 16; ++at) {
            parts[quarter][64 * at + lane] = c[at][0];
            parts[quarter][64 * at + 32 + lane] = c[at][1];
        }
    __syncthreads();
    if (half == 1) return;
#pragma unroll
    for (int at = 0; at < 16; ++at)
#pragma unroll
        for (int v = 0; v < 2; ++v) {
            int i = i0 + 8 * (at >> 2) + (lane >> 2), j = j0 + 8 * (at & 3) + 2 * (lane & 3) + v;
            if (i >= vectors.count || j >= vectors.count) continue;
            double sum = c[at][v] + parts[quarter][64 * at + 32 * v + lane];
            vectors.out[(i64)i * vectors.count + j] = sum;
            vectors.out[(i64)j * vectors.count + i] = sum;
        }
}

// Computes an upper bound on the squared norm of sum over p of a_p g_p^T, from the inner products of all inputs and of all outputs'
// gradients, with one block for each sample. `sources` says which input each tap of a position reads, [positions, taps], with -1 in the
// padding; without it a position reads the input of its own number. With `inverses`, filters are added less a mean, which is chosen here, and
// times these; then the dynamic shared memory has one double for each input position and for each position.
extern "C" __global__ void __launch_bounds__(1024)
    ghost_norm(const double* inputs, const double* gradients, const int* sources, int positions_in, int positions, int taps,
                  const float* x, const float* g, const float* inverses, int channels, int out, float* means, int mean_stride,
                  double gamma, double eta, double lost, double* partials, int partial_stride) {
    extern __shared__ __align__(16) double row_sums[];
    __shared__ double scratch[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    inputs += (i64)blockIdx.x * positions_in * positions_in;
    gradients += (i64)blockIdx.x * positions * positions;
    double square = 0.0, sizes = 0.0;
    // The sum over all pairs is symmetric, so half of them suffice.
    for (int p = warp; p < positions; p += warps) {
        for (int q = lane; q <= p; q += 32) {
            double column = 0.0;
            if (sources) {
#pragma unroll 3
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
        // Neighbouring threads read neighbouring numbers. If there are more threads than positions, they share the channels.
        int wide = min(positions_in, (int)blockDim.x), shares = (int)blockDim.x / wide;
        for (int start = 0; start < positions_in; start += wide) {
            int i = start + (int)threadIdx.x % wide, share = threadIdx.x / wide;
            double sum = 0.0;
            if (i < positions_in && share < shares)
                for (int c = share; c < channels; c += shares) sum += x[(i64)c * positions_in + i];
            // The shares are added one after the other, so that the order is fixed.
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

// How many samples a block takes, and for how many of them a thread reads numbers at once.
#define WRITTEN_SAMPLES 64
#define WRITTEN_TOGETHER 4

// A run that is added together: its start in the written gradient, its length, its start in the sum, its parameter, and for a standardised
// filter where its mean and its 1 / deviation lie (-1 for any other).
struct GradientBlock {
    int start, len, target, entry, mean, inverse;
};
static_assert(sizeof(GradientBlock) == 24, "as on the host");

// Adds the clipped written gradients of all samples to the sum. A sample whose factor is zero is skipped, whatever its gradient is. Grid:
// blocks; shares of the samples. Without clipping there is one share, whose samples are added in their order.
KERNEL sum_written(const float* d, i64 stride, const GradientBlock* blocks, const float* factors, int entries, const float* means,
                   int mean_stride, const float* inverses, u32* sum, int samples, int whole) {
    __shared__ float shares[WRITTEN_SAMPLES], taken[WRITTEN_SAMPLES];
    const GradientBlock& block = blocks[blockIdx.x];
    const float *factor = factors + block.entry, *mean = block.mean < 0 ? 0 : means + block.mean;
    float inverse = block.inverse < 0 ? 1.0f : inverses[block.inverse];
    int first = (int)((i64)samples * blockIdx.y / gridDim.y), end = (int)((i64)samples * (blockIdx.y + 1) / gridDim.y);
    for (; first < end; first += WRITTEN_SAMPLES) {
        int count = min(WRITTEN_SAMPLES, end - first);
        __syncthreads();
        for (int sample = threadIdx.x; sample < count; sample += blockDim.x) {
            shares[sample] = __fmul_rn(factor[(i64)(first + sample) * entries], inverse);
            taken[sample] = mean ? mean[(i64)(first + sample) * mean_stride] : 0.0f;
        }
        __syncthreads();
        int width = together(block.start);
        for (int i = 4 * threadIdx.x; i < block.len; i += 4 * blockDim.x) {
            const float* row = d + block.start + first * stride;
            u32 total[4] = {};
            for (int from = 0; from < count; from += WRITTEN_TOGETHER) {
                Four own[WRITTEN_TOGETHER];
#pragma unroll
                for (int v = 0; v < WRITTEN_TOGETHER; ++v)
                    own[v] = load_four(row + (from + v) * stride, i, from + v < count ? block.len : 0, width);
#pragma unroll
                for (int v = 0; v < WRITTEN_TOGETHER; ++v) {
                    float share = from + v < count ? shares[from + v] : 0.0f;
                    if (share == 0.0f) continue;
#pragma unroll
                    for (int at = 0; at < 4; ++at) total[at] = added(total[at], own[v].of[at], taken[from + v], share, whole);
                }
            }
#pragma unroll
            for (int at = 0; at < 4; ++at)
                if (i + at < block.len) join_sum(sum + block.target + i + at, total[at], whole);
        }
    }
}

#define OUTER 64
#define OUTER_ROWS 16

// Adds the clipped gradients of a linear layer, which are never written down, to the sum. Each is the sum over a sample's `rows` of g x^T, as
// one chain of fused additions in single precision. 16 x 16 threads compute 4 x 4 values each. Grid: tiles of features; tiles of outputs;
// shares of the samples, of which there is one without clipping. factors: those of the parameter.
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
