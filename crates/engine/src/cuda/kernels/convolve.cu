// Per-sample weight gradients of convolutions of any rank, window and stride.
//
// A tap table holds {offset, dz, dy, dx} for each row of the unfolded image, and a position table holds {base, z, y, x} for each output
// position. The value lies at base + offset if (z + dz, y + dy, x + dx) is inside the image.

#define BM 64
#define BN 128
#define BK 32
#define THREADS 128
// Rows have 36 floats, so that the eight rows that a warp reads together fall into different banks.
#define PITCH (BK + 4)

// Multiplies one stage: rows of `left` [BM][PITCH] by rows of `right` [BN][PITCH].
__device__ __forceinline__ void multiply_stage(const float* left, const float* right, float (*c)[8][4], int warp, int lane) {
    int g = lane >> 2, t = lane & 3;
    int m0 = (warp & 1) * 32, n0 = (warp >> 1) * 64;
#pragma unroll
    for (int k = 0; k < BK; k += 8) {
        float a[2][4], a_low[2][4];
        load_left(a, a_low, left + (m0 + g) * PITCH + k + t, PITCH);
#pragma unroll
        for (int half = 0; half < 8; half += 4) {
            float b[4][2];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const float* row = right + (n0 + 8 * (half + n) + g) * PITCH + k + t;
                b[n][0] = row[0];
                b[n][1] = row[4];
            }
            multiply_columns<4>(c, half, a, a_low, b);
        }
    }
}

__device__ __forceinline__ bool inside(int4 position, int4 tap, int depth, int height, int width) {
    return (u32)(position.y + tap.y) < (u32)depth && (u32)(position.z + tap.z) < (u32)height &&
           (u32)(position.w + tap.w) < (u32)width;
}

// Loads rows of a row-major matrix [rows][columns] from `first` on into [BM][PITCH], with zeros outside of the matrix.
__device__ __forceinline__ void load_rows(float* target, const float* matrix, int first, int rows, int start, int columns) {
    if (columns % 4 == 0) {
        int quad = (threadIdx.x & 7) * 4;
#pragma unroll
        for (int i = 0; i < BM / 16; ++i) {
            int row = (threadIdx.x >> 3) + 16 * i;
            bool valid = first + row < rows && start + quad < columns;
            async_copy_16(target + row * PITCH + quad, valid ? matrix + (i64)(first + row) * columns + start + quad : matrix, valid);
        }
    } else {
        int column = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < BM / 4; ++i) {
            int row = (threadIdx.x >> 5) + 4 * i;
            bool valid = first + row < rows && start + column < columns;
            async_copy_4(target + row * PITCH + column, valid ? matrix + (i64)(first + row) * columns + start + column : matrix, valid);
        }
    }
}

// Computes each sample's weight gradient, d[o, k] = sum over views and positions of g[o, p] unfolded[k, p]. Takes steps first..last of 32
// positions each, and adds to what is there unless it begins with the first step. Grid: tiles of k; groups x tiles of o; samples x parts of
// the steps, where each part has a gradient of its own.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    weight_gradient(const float* g, const float* x, float* d, const int4* taps, const int4* places, i64 stride, int out, int inner,
                    int positions, int plane, int depth, int height, int width, int groups, int channels, int views, int parts, int first,
                    int last) {
    __shared__ int4 tap_rows[BN];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int tiles = (out + BM - 1) / BM;
    int group = blockIdx.y / tiles, m0 = (blockIdx.y % tiles) * BM, n0 = blockIdx.x * BN;
    tap_rows[threadIdx.x] = taps[n0 + threadIdx.x];
    __syncthreads();
    float c[2][8][4] = {};
    int chunks = (positions + BK - 1) / BK, total = last - first;
    const i64 item = (i64)(blockIdx.z / parts) * views;
    int part = blockIdx.z % parts, begin = first + (int)((i64)total * part / parts), end = first + (int)((i64)total * (part + 1) / parts);
    auto load = [&](int step) {
        float* left = stages + (step & 1) * (BM + BN) * PITCH;
        float* right = left + BM * PITCH;
        int view = step / chunks, p0 = (step % chunks) * BK;
        load_rows(left, g + ((item + view) * groups + group) * out * positions, m0, out, p0, positions);
        const float* image = x + ((item + view) * groups + group) * channels * plane;
        int4 position = places[p0 + lane];
#pragma unroll 8
        for (int i = 0; i < BN / 4; ++i) {
            int row = warp + 4 * i;
            int4 tap = tap_rows[row];
            bool valid = inside(position, tap, depth, height, width);
            async_copy_4(right + row * PITCH + lane, valid ? image + position.x + tap.x : image, valid);
        }
        asm volatile("cp.async.commit_group;");
    };
    load(begin);
    for (int step = begin; step < end; ++step) {
        if (step + 1 < end) {
            load(step + 1);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        float* left = stages + (step & 1) * (BM + BN) * PITCH;
        multiply_stage(left, left + BM * PITCH, c, warp, lane);
        __syncthreads();
    }
    d += (i64)blockIdx.z * stride + (i64)group * out * inner;
    int row0 = m0 + (warp & 1) * 32 + (lane >> 2), column0 = n0 + (warp >> 1) * 64 + 2 * (lane & 3);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int row = row0 + 16 * i + 8 * (j >> 1), column = column0 + 8 * n + (j & 1);
                if (row < out && column < inner) put(d + (i64)row * inner + column, c[i][n][j], first);
            }
}

// Adds the gradients of a sample's parts, in the order of the parts.
KERNEL sum_parts(const float* partial, float* d, i64 stride, int len, int parts, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    i64 sample = i / len, at = i % len;
    float sum = 0.0f;
    for (int part = 0; part < parts; ++part) sum += partial[(sample * parts + part) * len + at];
    d[sample * stride + at] = sum;
}
