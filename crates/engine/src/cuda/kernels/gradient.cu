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

// One side of the product: a thread's piece of the next row that it copies, how many eights a row has, and whether the piece is there.
struct GradientSide {
    const uint4* next;
    int eights;
    bool there;
};

// A thread's share of a side whose tile begins with column `first`.
__device__ __forceinline__ GradientSide gradient_side(const uint4* rows, int columns, int first) {
    int piece = first / 8 + (threadIdx.x & 15), eights = columns / 8;
    return {rows + (i64)(threadIdx.x >> 4) * eights + piece, eights, piece < eights};
}

// Starts to copy a step of rows, of which `left` are left. What is not there is not read, and becomes zero.
__device__ __forceinline__ void copy_columns(u32 tile, GradientSide& side, int left) {
    u32 target = gradient_piece(tile, threadIdx.x >> 4, threadIdx.x & 15);
    left = side.there ? left - (int)(threadIdx.x >> 4) : 0;
#pragma unroll
    for (int i = 0; i < GRADIENT_STEP / 8; ++i) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target + 8 * i * GRADIENT_ROW), "l"(side.next),
                     "r"(8 * i < left ? 16 : 0));
        side.next += 8 * side.eights;
    }
}

__device__ __forceinline__ void load_columns(u32* to, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

// c += g^T x over 16 rows, for a warp's 64 by 64 numbers. `left` and `right` are where a lane's first piece of each side lies. The next piece
// but one differs from it in one bit, since the order of pieces follows from the row alone.
__device__ __forceinline__ void multiply_step(float (*c)[8][4], u32 left, u32 right) {
    u32 a[4][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) load_columns(a[m], left ^ (m << 5));
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        u32 b[4];
        load_columns(b, right ^ (n << 5));
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            multiply_halves(c[m][2 * n], a[m], b[0], b[1]);
            multiply_halves(c[m][2 * n + 1], a[m], b[2], b[3]);
        }
    }
}

// Adds up two columns of g over half of a stage's rows, for the gradient of a bias.
__device__ __forceinline__ void add_columns(float2& sum, u32 stage) {
    int pair = threadIdx.x & 63, first = (threadIdx.x >> 6) * (GRADIENT_STEP / 2);
#pragma unroll 4
    for (int row = first; row < first + GRADIENT_STEP / 2; ++row) {
        u32 both;
        float low, high;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(both) : "r"(gradient_piece(stage, row, pair >> 2) + 4 * (pair & 3)));
        from_halves(both, &low, &high);
        sum.x += low;
        sum.y += high;
    }
}

// Writes such sums as the gradient of a bias, of which the tile has outputs from `first` on.
__device__ __forceinline__ void put_columns(float* bias, float2 sum, int first, int out) {
    __shared__ float2 halves_of[64];
    int pair = threadIdx.x & 63;
    if (threadIdx.x >= 64) halves_of[pair] = sum;
    __syncthreads();
    if (threadIdx.x >= 64 || first + 2 * pair >= out) return;
    bias[first + 2 * pair] = sum.x + halves_of[pair].x;
    bias[first + 2 * pair + 1] = sum.y + halves_of[pair].y;
}

// Rounds a warp's numbers to halves, which it puts into the tile, and adds up their squares. Each is multiplied by `taken` before it is
// rounded, and what is squared is the half times the scale, as it will be added.
__device__ __forceinline__ float square_tile(const float (*c)[8][4], u32 tile, float taken, float scale) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    // Four sums at a time, so that an addition need not wait for the one before it.
    float sum[4] = {};
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                u32 pair = two_halves(scaled(c[m][n][2 * half], taken), scaled(c[m][n][2 * half + 1], taken));
                int row = 64 * (warp & 1) + 16 * m + 8 * half + (lane >> 2), piece = 8 * (warp >> 1) + n;
                asm volatile("st.shared.u32 [%0], %1;" ::"r"(gradient_piece(tile, row, piece) + 4 * (lane & 3)), "r"(pair));
                float low, high;
                from_halves(pair, &low, &high);
                low = scaled(low, scale);
                high = scaled(high, scale);
                sum[2 * half] = __fmaf_rn(low, low, sum[2 * half]);
                sum[2 * half + 1] = __fmaf_rn(high, high, sum[2 * half + 1]);
            }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
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
// four sums of 32 squares, which all have the same sign, so it loses at most 2^-18 of them. Numbers too small to be squared in single precision add
// at most 2^-67 to the norm of a tile. If `bias` is given, it becomes the sum of g over the rows, which is only right for numbers without
// powers. Grid: tiles of features; tiles of outputs; samples.
extern "C" __global__ void __launch_bounds__(128, 3)
    halved_gradient(const uint4* x, const u32* x_largest, const uint4* g, const u32* g_largest, uint4* d, int features, int out, int rows,
                    float taken, float* bias, i64 bias_stride, float* scales, int scale_stride, double* partials, int partial_stride) {
    __shared__ double scratch[32];
    bool sums = bias && blockIdx.x == 0;
    u32 ring = (u32)__cvta_generic_to_shared(stages);
    i64 sample = blockIdx.z;
    GradientSide outputs = gradient_side(g + sample * rows * (out / 8), out, blockIdx.y * GRADIENT_TILE);
    GradientSide inputs = gradient_side(x + sample * rows * (features / 8), features, blockIdx.x * GRADIENT_TILE);
    int steps = (rows + GRADIENT_STEP - 1) / GRADIENT_STEP;
    auto stage = [&](int step) { return ring + step % GRADIENT_STAGES * 2 * GRADIENT_BYTES; };
    auto copy = [&](int step) {
        u32 target = stage(step);
        if (step < steps) {
            copy_columns(target, outputs, rows - step * GRADIENT_STEP);
            copy_columns(target + GRADIENT_BYTES, inputs, rows - step * GRADIENT_STEP);
        }
        copies_started();
    };
    for (int step = 0; step < GRADIENT_STAGES - 1; ++step) copy(step);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
    u32 left = gradient_piece(0, low + 8 * high, 8 * (warp & 1) + middle);
    u32 right = GRADIENT_BYTES + gradient_piece(0, low + 8 * middle, 8 * (warp >> 1) + high);
    float c[4][8][4] = {};
    float2 sum = {};
    for (int step = 0; step < steps; ++step) {
        copies_done<GRADIENT_STAGES - 2>();
        copy(step + GRADIENT_STAGES - 1);
        if (sums) add_columns(sum, stage(step));
        multiply_step(c, stage(step) + left, stage(step) + right);
        u32 second = stage(step) + 16 * GRADIENT_ROW;
        if (step * GRADIENT_STEP + 16 < rows) multiply_step(c, second + left, second + right);
    }
    copies_done<0>();
    if (sums) put_columns(bias + sample * bias_stride, sum, blockIdx.y * GRADIENT_TILE, out);
    float x_back = power_of(largest_of(x_largest, sample), true), g_back = power_of(largest_of(g_largest, sample), true);
    float scale = __fmul_rn(__fmul_rn(x_back, 1.0f / taken), g_back);
    // All threads wait for each other in the sum, so that the tile is complete after it.
    double all = block_sum((double)square_tile(c, ring, taken, scale), scratch), norm = sqrt(all * (1.0 + 0x1p-16)) + 0x1p-67;
    put_tile(d + sample * ((i64)out * features / 8), ring, blockIdx.y * GRADIENT_TILE, out, blockIdx.x * GRADIENT_TILE / 8, features / 8);
    if (threadIdx.x > 0) return;
    int part = blockIdx.y * gridDim.x + blockIdx.x;
    partials[sample * partial_stride + part] = norm * norm;
    if (part == 0) scales[sample * scale_stride] = scale;
}
