// Convolutions over images as matrix products, with a strip of the image in shared memory, so that a value is fetched once and read by all
// taps of the window that meet it. The strip has whole rows with zeros on both sides, so that no tap needs a check.

// The sizes of a convolution and of its strip.
struct Image {
    int out, channels, groups, taps;            // filters and channels of one group
    int height, width;                          // of the input
    int out_width, positions;                   // of the output
    int stride_y, stride_x, padding_y;          // of the window
    int rows, pitch, plane, left;               // strip: rows, floats per row and per channel, column of the first pixel
    int block, inner, segments;                 // channels of a step, weights per filter as arranged, items of a tile
    int step_y, step_x, phase;                  // the output is every step-th row and column, from `phase` on,
    int full_width, full_positions;             // of an image of this size
    int tap_offsets[64];                        // where each tap reads in the strip
};
static_assert(sizeof(Image) == 348, "as on the host");

#define IMAGE_THREADS 256
// How many steps of a sum of weight gradients may be on their way while one is multiplied.
#define MOST_AHEAD 3

// Copies rows of a row-major matrix into [64][pitch], with zeros outside of the matrix. If four divides `columns`, four numbers are copied at
// a time, otherwise one.
__device__ __forceinline__ void copy_rows(float* target, int pitch, const float* matrix, int first, int rows, int start, int count,
                                          int columns) {
    if (columns % 4 == 0) {
        int quads = count / 4;
        for (int i = threadIdx.x; i < 64 * quads; i += IMAGE_THREADS) {
            int row = i / quads, column = i % quads * 4;
            bool valid = first + row < rows && start + column < columns;
            async_copy_16(target + row * pitch + column, valid ? matrix + (i64)(first + row) * columns + start + column : matrix,
                          valid);
        }
    } else {
        for (int i = threadIdx.x; i < 64 * count; i += IMAGE_THREADS) {
            int row = i / count, column = i % count;
            bool valid = first + row < rows && start + column < columns;
            async_copy_4(target + row * pitch + column, valid ? matrix + (i64)(first + row) * columns + start + column : matrix,
                         valid);
        }
    }
}

// A block's place in the weight gradients of its samples. Its eight warps compute 64 filters by 32 NF weights of a block of channels.
struct WeightTile {
    int group, m0, c0, weights;  // first filter and channel, weights of the block
    int row, column;             // of this lane's first value; others are 8 rows apart, and of columns two each, 8 apart
};

template <int NF>
__device__ __forceinline__ WeightTile weight_tile(const Image& image) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tiles = (image.out + 63) / 64;
    WeightTile tile;
    tile.group = blockIdx.y / tiles;
    tile.m0 = (blockIdx.y % tiles) * 64;
    tile.c0 = blockIdx.x * image.block;
    tile.weights = min(image.block, image.channels - tile.c0) * image.taps;
    tile.row = tile.m0 + (warp & 1) * 32 + (lane >> 2);
    tile.column = (warp >> 1) * 8 * NF + 2 * (lane & 3);
    return tile;
}

// Makes the copies of a stage one group, even if there are none.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }

// Waits for the oldest of `ahead` groups.
__device__ __forceinline__ void wait_for_copies(int ahead) {
    if (ahead == 1) {
        asm volatile("cp.async.wait_group 0;");
    } else if (ahead == 2) {
        asm volatile("cp.async.wait_group 1;");
    } else {
        asm volatile("cp.async.wait_group 2;");
    }
}

// Adds a warp's products of eight positions. left: this lane's first number of g; near, far: its two positions in the strip.
template <int NF>
__device__ __forceinline__ void multiply_step(float (*c)[NF][4], const float* left, int pitch, const char* near, const char* far,
                                              const int* offset) {
    float a[2][4], a_low[2][4];
    load_left(a, a_low, left, pitch);
#pragma unroll
    for (int third = 0; third < NF; third += 3) {
        float b[3][2];
#pragma unroll
        for (int n = 0; n < 3 && third + n < NF; ++n) {
            b[n][0] = *(const float*)(near + offset[third + n]);
            b[n][1] = *(const float*)(far + offset[third + n]);
        }
        multiply_columns<3>(c, third, a, a_low, b);
    }
}

// Starts to copy the rows of a strip from row `top` of the image on, of `count` channels; zeros where the image has no such row.
__device__ __forceinline__ void copy_strip(float* strip, const float* pixels, const Image& image, int top, int count) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int vector = image.width % 4 == 0 ? 4 : 1, quads = image.width / vector;
    // How far this lane moves from copy to copy.
    int row_step = 32 / quads, quad_step = 32 % quads;
    for (int row = lane / quads, quad = lane % quads; row < image.rows;) {
        bool valid = (u32)(top + row) < (u32)image.height;
        const float* from = valid ? pixels + (top + row) * image.width + quad * vector : pixels;
        float* to = strip + row * image.pitch + quad * vector;
        for (int channel = warp; channel < count; channel += 8) {
            const float* source = from + (valid ? channel * image.height * image.width : 0);
            if (vector == 4) {
                async_copy_16(to + channel * image.plane, source, valid);
            } else {
                async_copy_4(to + channel * image.plane, source, valid);
            }
        }
        row += row_step;
        quad += quad_step;
        if (quad >= quads) {
            quad -= quads;
            ++row;
        }
    }
}

// Computes weight gradients d[o, (c, tap)] = sum over positions of g[o, p] x[c, p + tap], one after the other. There are `sums` of them, each
// of `each` steps of 32 positions, from step `begin` of an item on, step after step and item after item. `flush` takes each sum from c, which
// must be zero before. Copies go on beyond the end of a sum. `fetch` adds copies of its own to those of a stage, which have arrived when the
// sum is flushed. offsets: where each weight of a block reads in the strip. `ahead` steps are on their way while one is multiplied. Dynamic
// shared memory: `ahead` + 1 stages of [64][PITCH] and the strip.
template <int NF, typename Fetch, typename Flush>
__device__ __forceinline__ void weight_products(const float* g, const float* x, const Image& image, const WeightTile& tile,
                                                const int* offsets, i64 item, int begin, int each, int sums, int ahead,
                                                float (*c)[NF][4], Fetch fetch, Flush flush) {
    __shared__ int places[MOST_AHEAD + 1][BK];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row_of = lane >> 2, t = lane & 3;
    int count = min(image.block, image.channels - tile.c0);
    int size = 64 * PITCH + image.block * image.plane;
    for (int i = threadIdx.x; i < (ahead + 1) * size; i += IMAGE_THREADS) stages[i] = 0.0f;
    // Offsets are in bytes, so that a read takes one addition.
    int offset[NF];
#pragma unroll
    for (int n = 0; n < NF; ++n) {
        int weight = (warp >> 1) * 8 * NF + 8 * n + row_of;
        offset[n] = weight < tile.weights ? 4 * offsets[weight] : 0;
    }
    int chunks = (image.positions + BK - 1) / BK, end = begin + sums * each;
    int view = begin / chunks, p0 = begin % chunks * BK;
    __syncthreads();
    auto load = [&](int stage, int step) {
        float* left = stages + stage * size;
        float* strip = left + 64 * PITCH + image.left;
        fetch(stage, step);
        int y0 = p0 / image.out_width;
        i64 plane = ((item + view) * image.groups + tile.group);
        copy_rows(left, PITCH, g + plane * image.out * image.positions, tile.m0, image.out, p0, BK, image.positions);
        if (threadIdx.x < BK) {
            int p = p0 + threadIdx.x;
            int place = (p / image.out_width - y0) * image.stride_y * image.pitch + p % image.out_width * image.stride_x;
            places[stage][threadIdx.x] = p < image.positions ? 4 * place : 0;
        }
        const float* pixels = x + (plane * image.channels + tile.c0) * image.height * image.width;
        copy_strip(strip, pixels, image, y0 * image.stride_y - image.padding_y, count);
        p0 += BK;
        if (p0 >= image.positions) {
            p0 = 0;
            ++view;
        }
    };
    int stage = 0, at = p0;
    for (; stage < ahead; ++stage) {
        if (begin + stage < end) load(stage, begin + stage);
        commit_copies();
    }
    int step = begin;
    stage = 0;
    for (int sum = 0; sum < sums; ++sum) {
        for (int stop = step + each; step < stop; ++step) {
            wait_for_copies(ahead);
            // After this barrier the step's values are there, and nothing reads those of the step before any more.
            __syncthreads();
            if (step + ahead < end) load(stage == 0 ? ahead : stage - 1, step + ahead);
            commit_copies();
            const float* left = stages + stage * size;
            const char* strip = (const char*)(left + 64 * PITCH);
            int depth = image.positions - at;
#pragma unroll
            for (int k = 0; k < BK; k += 8) {
                if (k >= depth) break;
                multiply_step<NF>(c, left + ((warp & 1) * 32 + row_of) * PITCH + k + t, PITCH, strip + places[stage][k + t],
                                  strip + places[stage][k + t + 4], offset);
            }
            at = depth > BK ? at + BK : 0;
            stage = stage == ahead ? 0 : stage + 1;
        }
        flush(stage == 0 ? ahead : stage - 1);
    }
}

// Does the same as weight_products if a step is a whole image of at most 64 positions, and a sum is one step. What is copied where is then
// the same for every item, and is listed once. Dynamic shared memory: the list, then `ahead` + 1 stages of [64][WHOLE_PITCH] and the strip.
#define WHOLE_POSITIONS 64
#define WHOLE_PITCH (WHOLE_POSITIONS + 4)

template <int NF, typename Fetch, typename Flush>
__device__ __forceinline__ void whole_products(const float* g, const float* x, const Image& image, const WeightTile& tile,
                                               const int* offsets, i64 item, int sums, int ahead, float (*c)[NF][4], Fetch fetch,
                                               Flush flush) {
    __shared__ int places[WHOLE_POSITIONS];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row_of = lane >> 2, t = lane & 3;
    int pixels = image.height * image.width, size = 64 * WHOLE_PITCH + image.block * image.plane;
    int x_width = image.width % 4 == 0 ? 4 : 1, g_width = image.positions % 4 == 0 ? 4 : 1;
    int x_quads = image.width / x_width, g_quads = image.positions / g_width;
    int x_copies = min(image.block, image.channels - tile.c0) * image.height * x_quads, g_copies = min(64, image.out - tile.m0) * g_quads;
    // Each entry has 16 bits for where to copy to, and 16 bits for where to copy from.
    u32* list = (u32*)stages;
    float* first = stages + (image.block * image.height * x_quads + 64 * g_quads + 3) / 4 * 4;
    for (int i = threadIdx.x; i < (ahead + 1) * size; i += IMAGE_THREADS) first[i] = 0.0f;
    for (int i = threadIdx.x; i < x_copies; i += IMAGE_THREADS) {
        int quad = i % x_quads, row = i / x_quads % image.height, channel = i / x_quads / image.height;
        bool valid = row + image.padding_y < image.rows;
        int to = 64 * WHOLE_PITCH + channel * image.plane + (row + image.padding_y) * image.pitch + image.left + quad * x_width;
        list[i] = valid ? (u32)to << 16 | (channel * pixels + row * image.width + quad * x_width) : ~0u;
    }
    for (int i = threadIdx.x; i < g_copies; i += IMAGE_THREADS) {
        int filter = i / g_quads, p = i % g_quads * g_width;
        list[x_copies + i] = (u32)(filter * WHOLE_PITCH + p) << 16 | (filter * image.positions + p);
    }
    for (int p = threadIdx.x; p < WHOLE_POSITIONS; p += IMAGE_THREADS) {
        int place = p / image.out_width * image.stride_y * image.pitch + p % image.out_width * image.stride_x;
        places[p] = p < image.positions ? 4 * place : 0;
    }
    int offset[NF];
#pragma unroll
    for (int n = 0; n < NF; ++n) {
        int weight = (warp >> 1) * 8 * NF + 8 * n + row_of;
        offset[n] = weight < tile.weights ? 4 * offsets[weight] : 0;
    }
    __syncthreads();
    auto load = [&](int stage, int sum) {
        float* to = first + stage * size;
        fetch(stage, sum);
        const float* from = x + ((item + sum) * image.channels + tile.c0) * pixels;
        for (int i = threadIdx.x; i < x_copies; i += IMAGE_THREADS) {
            u32 copy = list[i];
            if (copy == ~0u) continue;
            if (x_width == 4) {
                async_copy_16(to + (copy >> 16), from + (copy & 0xffffu), true);
            } else {
                async_copy_4(to + (copy >> 16), from + (copy & 0xffffu), true);
            }
        }
        from = g + ((item + sum) * image.out + tile.m0) * image.positions;
        for (int i = x_copies + threadIdx.x; i < x_copies + g_copies; i += IMAGE_THREADS) {
            u32 copy = list[i];
            if (g_width == 4) {
                async_copy_16(to + (copy >> 16), from + (copy & 0xffffu), true);
            } else {
                async_copy_4(to + (copy >> 16), from + (copy & 0xffffu), true);
            }
        }
    };
    for (int sum = 0; sum < ahead; ++sum) {
        if (sum < sums) load(sum, sum);
        commit_copies();
    }
    for (int sum = 0, stage = 0; sum < sums; ++sum, stage = stage == ahead ? 0 : stage + 1) {
        wait_for_copies(ahead);
        // After this barrier the sum's values are there, and nothing reads those of the sum before any more.
        __syncthreads();
        if (sum + ahead < sums) load(stage == 0 ? ahead : stage - 1, sum + ahead);
        commit_copies();
        const float* left = first + stage * size + ((warp & 1) * 32 + row_of) * WHOLE_PITCH + t;
        const char* strip = (const char*)(first + stage * size + 64 * WHOLE_PITCH);
        for (int k = 0; k < image.positions; k += 8)
            multiply_step<NF>(c, left + k, WHOLE_PITCH, strip + places[k + t], strip + places[k + t + 4], offset);
        flush(stage);
    }
}

// Computes each sample's weight gradient over its views. Takes steps first..last, and adds to what is there unless it begins with the first
// step. Grid: blocks of channels; groups x tiles of filters; samples x parts of the steps, where each part has a gradient of its own.
template <int NF>
__device__ __forceinline__ void image_weight_gradient_of(const float* g, const float* x, float* d, const Image& image,
                                                         const int* offsets, i64 stride, int views, int parts, int first, int last) {
    WeightTile tile = weight_tile<NF>(image);
    int total = last - first, part = blockIdx.z % parts;
    int begin = first + (int)((i64)total * part / parts), end = first + (int)((i64)total * (part + 1) / parts);
    float c[2][NF][4] = {};
    auto fetch = [](int, int) {};
    auto flush = [](int) {};
    weight_products<NF>(g, x, image, tile, offsets, (i64)(blockIdx.z / parts) * views, begin, end - begin, 1, 1, c, fetch,
                        flush);
    int inner = image.channels * image.taps;
    d += (i64)blockIdx.z * stride + (i64)tile.group * image.out * inner + tile.c0 * image.taps;
    bool pairs = inner % 2 == 0 && tile.c0 * image.taps % 2 == 0 && stride % 2 == 0 && tile.weights % 2 == 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int row = tile.row + 8 * i;
        if (row >= image.out) continue;
#pragma unroll
        for (int n = 0; n < NF; ++n) {
            int column = tile.column + 8 * n;
            float* target = d + (i64)row * inner + column;
            const float* value = c[i >> 1][n] + 2 * (i & 1);
            if (pairs && column < tile.weights) {
                put_two(target, value[0], value[1], first);
            } else {
                if (column < tile.weights) put(target, value[0], first);
                if (column + 1 < tile.weights) put(target + 1, value[1], first);
            }
        }
    }
}

// Adds the clipped weight gradients of all samples, which have one view, to the sum without writing them down. The accumulators hold one
// sample at a time, which is turned into whole numbers and added to those in registers. Grid: blocks of channels; tiles of filters; shares of
// the samples, of which there is one without clipping. factors, means: those of the parameter; inverses: those of its filters, if they are
// standardised.
template <int NF, bool WHOLE>
__device__ __forceinline__ void image_weight_sum_of(const float* g, const float* x, const Image& image, const int* offsets,
                                                    const float* factors, int entries, const float* means, int mean_stride,
                                                    const float* inverses, u32* sum, int samples, int whole, int ahead) {
    WeightTile tile = weight_tile<NF>(image);
    int first = (int)((i64)samples * blockIdx.z / gridDim.z), count = (int)((i64)samples * (blockIdx.z + 1) / gridDim.z) - first;
    if (count == 0) return;
    __shared__ float factor_of[MOST_AHEAD + 1], mean_of[MOST_AHEAD + 1][64];
    float c[2][NF][4] = {}, inverse[4];
    u32 total[2][NF][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) inverse[i] = inverses && tile.row + 8 * i < image.out ? inverses[tile.row + 8 * i] : 1.0f;
    int each = WHOLE ? 1 : (image.positions + BK - 1) / BK;
    auto fetch = [&](int stage, int step) {
        i64 sample = first + step / each;
        if (threadIdx.x == 0) async_copy_4(&factor_of[stage], factors + sample * entries, true);
        if (inverses && threadIdx.x < 64) {
            bool valid = tile.m0 + threadIdx.x < image.out;
            async_copy_4(&mean_of[stage][threadIdx.x], means + sample * mean_stride + (valid ? tile.m0 + threadIdx.x : 0), valid);
        }
    };
    auto flush = [&](int stage) {
        float factor = factor_of[stage];
        auto add = [&](int whole, bool centred) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float own = __fmul_rn(factor, inverse[i]), mean = centred ? mean_of[stage][tile.row - tile.m0 + 8 * i] : 0.0f;
#pragma unroll
                for (int n = 0; n < NF; ++n)
#pragma unroll
                    for (int j = 2 * (i & 1); j < 2 * (i & 1) + 2; ++j)
                        total[i >> 1][n][j] = added(total[i >> 1][n][j], c[i >> 1][n][j], mean, own, whole);
            }
        };
        // A sample whose factor is zero is skipped, whatever its gradient is.
        if (factor != 0.0f && whole && inverses) add(1, true);
        if (factor != 0.0f && whole && !inverses) add(1, false);
        if (factor != 0.0f && !whole) add(0, false);
#pragma unroll
        for (int n = 0; n < NF; ++n)
#pragma unroll
            for (int j = 0; j < 8; ++j) c[j >> 2][n][j & 3] = 0.0f;
    };
    if (WHOLE) {
        whole_products<NF>(g, x, image, tile, offsets, first, count, ahead, c, fetch, flush);
    } else {
        weight_products<NF>(g, x, image, tile, offsets, first, 0, each, count, ahead, c, fetch, flush);
    }
    int inner = image.channels * image.taps;
    sum += tile.c0 * image.taps;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int row = tile.row + 8 * i;
        if (row >= image.out) continue;
#pragma unroll
        for (int n = 0; n < NF; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                int column = tile.column + 8 * n + j;
                if (column < tile.weights) join_sum(sum + (i64)row * inner + column, total[i >> 1][n][2 * (i & 1) + j], whole);
            }
    }
}

#define IMAGE_WEIGHT_SUM(NAME, NF, WHOLE)                                                                                          \
    extern "C" __global__ void __launch_bounds__(IMAGE_THREADS, 1)                                                                 \
        NAME(const float* g, const float* x, const __grid_constant__ Image image, const int* offsets, const float* factors,        \
             int entries, const float* means, int mean_stride, const float* inverses, u32* sum, int samples, int whole,            \
             int ahead) {                                                                                                          \
        image_weight_sum_of<NF, WHOLE>(g, x, image, offsets, factors, entries, means, mean_stride, inverses, sum, samples, whole,  \
                                       ahead);                                                                                     \
    }

#define IMAGE_WEIGHTS(NF)                                                                                                          \
    extern "C" __global__ void __launch_bounds__(IMAGE_THREADS, 2)                                                                 \
        image_weight_gradient_##NF(const float* g, const float* x, float* d, const __grid_constant__ Image image,                  \
                                   const int* offsets, i64 stride, int views, int parts, int first, int last) {                    \
        image_weight_gradient_of<NF>(g, x, d, image, offsets, stride, views, parts, first, last);                                  \
    }                                                                                                                              \
    IMAGE_WEIGHT_SUM(image_weight_sum_##NF, NF, false)                                                                             \
    IMAGE_WEIGHT_SUM(whole_weight_sum_##NF, NF, true)

IMAGE_WEIGHTS(1)
IMAGE_WEIGHTS(5)
IMAGE_WEIGHTS(9)

// Positions of a block's tile.
#define COLUMNS 256

// The item of a tile that a column is of, and its position there; false where there is none.
__device__ __forceinline__ bool column_of(const Image& image, int column, int p0, int* segment, int* p) {
    *segment = image.segments > 1 ? column / image.positions : 0;
    *p = image.segments > 1 ? column % image.positions : p0 + column;
    return *segment < image.segments && *p < image.positions;
}

// Writes a thread's share of 64 filters by 256 positions, or adds it to what is there.
__device__ __forceinline__ void put_filters(float* y, const Image& image, const float (*c)[8][4], i64 item0, int items, int p0,
                                            int accumulate) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, m0 = blockIdx.y * 64 + (warp & 1) * 32 + (lane >> 2);
    bool whole = image.step_y == 1 && image.step_x == 1, pairs = whole && image.positions % 2 == 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (pairs && j == 1) break;
            int segment, p;
            bool exists = column_of(image, (warp >> 1) * 64 + 8 * n + 2 * (lane & 3) + j, p0, &segment, &p);
            if (!exists || item0 + segment >= items) continue;
            int to_p = whole ? p
                             : p / image.out_width * image.step_y * image.full_width + p % image.out_width * image.step_x +
                                   image.phase;
            float* target = y + ((item0 + segment) * image.groups + blockIdx.z) * image.out * image.full_positions + to_p;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int row = m0 + 8 * i;
                if (row >= image.out) continue;
                float* to = target + (i64)row * image.full_positions;
                const float* value = c[i >> 1][n] + 2 * (i & 1);
                if (pairs) {
                    put_two(to, value[0], value[1], accumulate);
                } else {
                    put(to, value[j], accumulate);
                }
            }
        }
    }
}

// Lists what is copied of each channel of a block's items into the strip: where to, and where from or -1 for zeros.
__device__ __forceinline__ void list_copies(int2* list, const Image& image, int copies, int quads, int vector, int y0, i64 item0, int items) {
    int plane = image.height * image.width;
    for (int i = threadIdx.x; i < copies; i += IMAGE_THREADS) {
        int quad = i % quads, row = i / quads % image.rows, segment = i / quads / image.rows;
        int from = y0 * image.stride_y - image.padding_y + row;
        bool valid = (u32)from < (u32)image.height && item0 + segment < items;
        int start = segment * image.groups * image.channels * plane + from * image.width + quad * vector;
        list[i] = make_int2((segment * image.rows + row) * image.pitch + image.left + quad * vector, valid ? start : -1);
    }
}

// Computes y[o, p] = sum over channels and taps of weight[o, (c / 8, tap, c % 8)] x[c, p + tap]. This serves the forward pass and, with the
// weights turned round, the data gradient, once for every remainder by the stride. Eight warps compute 64 filters by 256 positions. Takes
// steps first..last of `block` channels each, and adds to what is there if `accumulate` is set or it does not begin with the first step.
// Grid: tiles of positions, or of `segments` whole items if several fit into one; tiles of filters; groups.
// Dynamic shared memory: two stages of weights and strip, and the list of copies.
extern "C" __global__ void __launch_bounds__(IMAGE_THREADS, 2)
    image_convolve(const float* weight, const float* x, float* y, const __grid_constant__ Image image, int items, int accumulate,
                   int first, int last) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row_of = lane >> 2, t = lane & 3;
    int m0 = blockIdx.y * 64, group = blockIdx.z;
    int width = image.block * image.taps, pitch = width + 4;
    int size = 64 * pitch + image.block * image.plane;
    int tiles = (image.positions + COLUMNS - 1) / COLUMNS;
    i64 item0 = image.segments > 1 ? (i64)blockIdx.x * image.segments : blockIdx.x / tiles;
    int p0 = image.segments > 1 ? 0 : blockIdx.x % tiles * COLUMNS, y0 = p0 / image.out_width;
    int vector = image.width % 4 == 0 ? 4 : 1, quads = image.width / vector;
    int copies = image.segments * image.rows * quads, plane = image.height * image.width;
    int2* list = (int2*)(stages + 2 * size);
    for (int i = threadIdx.x; i < 2 * size; i += IMAGE_THREADS) stages[i] = 0.0f;
    list_copies(list, image, copies, quads, vector, y0, item0, items);
    int place[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        int segment, p;
        bool exists = column_of(image, (warp >> 1) * 64 + 8 * n + row_of, p0, &segment, &p);
        place[n] = exists ? (segment * image.rows + (p / image.out_width - y0) * image.stride_y) * image.pitch +
                                p % image.out_width * image.stride_x
                          : 0;
        // Places are in bytes, so that what a read adds to them is the same for all lanes.
        place[n] = 4 * (place[n] + 64 * pitch + t * image.plane);
    }
    const float* pixels = x + (item0 * image.groups + group) * image.channels * plane;
    weight += (i64)group * image.out * image.inner;
    float c[2][8][4] = {};
    __syncthreads();
    auto load = [&](int step) {
        float* left = stages + (step & 1) * size;
        float* strip = left + 64 * pitch;
        copy_rows(left, pitch, weight, m0, image.out, step * width, width, image.inner);
        for (int i = lane; i < copies; i += 32) {
            int2 copy = list[i];
            for (int channel = warp; channel < image.block; channel += 8) {
                bool valid = copy.y >= 0 && step * image.block + channel < image.channels;
                const float* from = valid ? pixels + (step * image.block + channel) * plane + copy.y : pixels;
                float* to = strip + channel * image.plane + copy.x;
                if (vector == 4) {
                    async_copy_16(to, from, valid);
                } else {
                    async_copy_4(to, from, valid);
                }
            }
        }
        asm volatile("cp.async.commit_group;");
    };
    load(first);
    for (int step = first; step < last; ++step) {
        asm volatile("cp.async.wait_group 0;");
        // After this barrier the step's values are there, and nothing reads those of the step before any more.
        __syncthreads();
        if (step + 1 < last) load(step + 1);
        int stage = (step & 1) * size;
        const float* left = stages + stage + ((warp & 1) * 32 + row_of) * pitch + t;
        int tap = 0;
        for (int k = 0; k < width; k += 8) {
            const char *near = (const char*)stages + 4 * (stage + image.tap_offsets[tap]), *far = near + 16 * image.plane;
            if (++tap == image.taps) {
                tap = 0;
                stage += 8 * image.plane;
            }
            float a[2][4], a_low[2][4];
            load_left(a, a_low, left + k, pitch);
#pragma unroll
            for (int half = 0; half < 8; half += 4) {
                float b[4][2];
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    b[n][0] = *(const float*)(near + place[half + n]);
                    b[n][1] = *(const float*)(far + place[half + n]);
                }
                multiply_columns<4>(c, half, a, a_low, b);
            }
        }
    }
    put_filters(y, image, c, item0, items, p0, accumulate || first);
}

// Puts weights in the order that image_convolve reads, arranged[group][m][(k / 8, tap, k % 8)], with zeros beyond the last k. Forward, m
// counts filters and k channels; backward, it is the other way round. list: for each tap, which of the window's taps it is.
KERNEL arrange_weights(const float* weight, float* arranged, const int* list, int out, int channels, int window, int taps, int inner,
                       int backward, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    int at = (int)(i % inner), rows = backward ? channels : out, depth = backward ? out : channels;
    int m = (int)(i / inner % rows), tap = list[at / 8 % taps], k = at / 8 / taps * 8 + at % 8;
    i64 group = i / inner / rows;
    float value = 0.0f;
    if (k < depth) {
        int o = backward ? k : m, c = backward ? m : k;
        value = weight[((group * out + o) * channels + c) * window + tap];
    }
    arranged[i] = value;
}
