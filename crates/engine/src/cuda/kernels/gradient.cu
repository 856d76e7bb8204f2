// Each sample's weight gradient of a layer over tokens, which is a product over the sample's rows, in halves; and its norm, made from the
// numbers that are written while they are at hand.
//
// A block makes a tile of 128 by 128 numbers, in four warps with a quarter each. Both sides come in steps of 32 rows through a ring of stages in
// dynamic shared memory. A row of a stage has 256 bytes, in pieces of 16 whose order differs from row to row, so that the same piece of eight
// rows lies in different banks. The finished tile takes the place of the stages on its way to memory.

#define GRADIENT_TILE 128
#define GRADIENT_STEP 32
#define GRADIENT_STAGES 4
// How many bytes a row takes, and a side of a stage.
#define GRADIENT_ROW (2 * GRADIENT_TILE)
#define GRADIENT_BYTES (GRADIENT_STEP * GRADIENT_ROW)

// Where a piece of a row lies.
__device__ __forceinline__ u32 gradient_piece(u32 tile, int row, int piece) { return tile + row * GRADIENT_ROW + ((piece ^ (row & 7)) << 4); }

// Starts to copy the columns of a tile, which begins `first` eights into rows of `eights`, for a step of rows. What is not there becomes zero.
__device__ __forceinline__ void copy_columns(u32 tile, const uint4* from, int eights, int first, int row, int rows) {
    int piece = threadIdx.x & 15;
#pragma unroll
    for (int i = 0; i < GRADIENT_STEP / 8; ++i) {
        int line = (threadIdx.x >> 4) + 8 * i;
        bool there = row + line < rows && first + piece < eights;
        const uint4* source = from + (there ? (i64)(row + line) * eights + first + piece : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gradient_piece(tile, line, piece)), "l"(source),
                     "r"(there ? 16 : 0));
    }
}

__device__ __forceinline__ void load_columns(u32* to, u32 tile, int row, int piece) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(gradient_piece(tile, row, piece)));
}

// c += g^T x over 16 rows of a stage, for a warp's 64 by 64 numbers.
__device__ __forceinline__ void multiply_step(float (*c)[8][4], u32 stage, int row) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
    u32 a[4][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) load_columns(a[m], stage, row + low + 8 * high, 8 * (warp & 1) + 2 * m + middle);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        u32 b[4];
        load_columns(b, stage + GRADIENT_BYTES, row + low + 8 * middle, 8 * (warp >> 1) + 2 * n + high);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            multiply_halves(c[m][2 * n], a[m], b[0], b[1]);
            multiply_halves(c[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

// Rounds a warp's numbers to halves, which it puts into the tile, and adds up their squares. Each is multiplied by `taken` before it is
// rounded, and what is squared is the half times the scale, as it will be added.
__device__ __forceinline__ float square_tile(const float (*c)[8][4], u32 tile, float taken, float scale) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float sum = 0.0f;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                u32 pair = two_halves(__fmul_rn(c[m][n][2 * half], taken), __fmul_rn(c[m][n][2 * half + 1], taken));
                int row = 64 * (warp & 1) + 16 * m + 8 * half + (lane >> 2), piece = 8 * (warp >> 1) + n;
                asm volatile("st.shared.u32 [%0], %1;" ::"r"(gradient_piece(tile, row, piece) + 4 * (lane & 3)), "r"(pair));
                float low, high;
                from_halves(pair, &low, &high);
                low = __fmul_rn(low, scale);
                high = __fmul_rn(high, scale);
                sum = __fmaf_rn(low, low, sum);
                sum = __fmaf_rn(high, high, sum);
            }
    return sum;
}

// Writes a tile, whose first number is number `first` of row `row`.
__device__ __forceinline__ void put_tile(uint4* d, u32 tile, int row, int rows, int first, int eights) {
    int piece = threadIdx.x & 15;
    if (first + piece >= eights) return;
#pragma unroll 4
    for (int line = threadIdx.x >> 4; line < min(GRADIENT_TILE, rows - row); line += 8) {
        uint4 eight;
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                     : "r"(gradient_piece(tile, line, piece)));
        d[(i64)(row + line) * eights + first + piece] = eight;
    }
}

// Writes each sample's weight gradient in halves, bounds the squared norms of its tiles, and writes the scale of its numbers. A thread adds up
// 128 squares, which all have the same sign, so it loses at most 2^-16 of their sum. Numbers too small to be squared in single precision add
// at most 2^-67 to the norm of a tile. Grid: tiles of features; tiles of outputs; samples.
extern "C" __global__ void __launch_bounds__(128, 3)
    halved_gradient(const uint4* x, const u32* x_largest, const uint4* g, const u32* g_largest, uint4* d, int features, int out, int rows,
                    float taken, float* scales, int scale_stride, double* partials, int partial_stride) {
    __shared__ double scratch[32];
    u32 ring = (u32)__cvta_generic_to_shared(stages);
    i64 sample = blockIdx.z;
    x += sample * rows * (features / 8);
    g += sample * rows * (out / 8);
    int steps = (rows + GRADIENT_STEP - 1) / GRADIENT_STEP;
    auto copy = [&](int step) {
        u32 stage = ring + step % GRADIENT_STAGES * 2 * GRADIENT_BYTES;
        if (step < steps) {
            copy_columns(stage, g, out / 8, blockIdx.y * GRADIENT_TILE / 8, step * GRADIENT_STEP, rows);
            copy_columns(stage + GRADIENT_BYTES, x, features / 8, blockIdx.x * GRADIENT_TILE / 8, step * GRADIENT_STEP, rows);
        }
        copies_started();
    };
    for (int step = 0; step < GRADIENT_STAGES - 1; ++step) copy(step);
    float c[4][8][4] = {};
    for (int step = 0; step < steps; ++step) {
        copies_done<GRADIENT_STAGES - 2>();
        copy(step + GRADIENT_STAGES - 1);
        u32 stage = ring + step % GRADIENT_STAGES * 2 * GRADIENT_BYTES;
        multiply_step(c, stage, 0);
        if (step * GRADIENT_STEP + 16 < rows) multiply_step(c, stage, 16);
    }
    copies_done<0>();
    float x_back = power_of(largest_of(x_largest, sample), true), g_back = power_of(largest_of(g_largest, sample), true);
    float scale = __fmul_rn(__fmul_rn(x_back, 1.0f / taken), g_back);
    // All threads wait for each other in the sum, so that the tile is complete after it.
    double all = block_sum((double)square_tile(c, ring, taken, scale), scratch), norm = sqrt(all * (1.0 + 0x1p-15)) + 0x1p-67;
    put_tile(d + sample * ((i64)out * features / 8), ring, blockIdx.y * GRADIENT_TILE, out, blockIdx.x * GRADIENT_TILE / 8, features / 8);
    if (threadIdx.x > 0) return;
    int part = blockIdx.y * gridDim.x + blockIdx.x;
    partials[sample * partial_stride + part] = norm * norm;
    if (part == 0) scales[sample * scale_stride] = scale;
}
