// Tiles of attention: rows of a head in shared memory, and products of 16 rows with them.
//
// A head of up to W features lies in rows of W numbers, and zeros follow its last feature. In SPLIT the numbers are floats, each split into
// three products as product.cu explains, and the sum over every 16 of them is added in single precision. Otherwise they are halves, as
// halves.cu explains. Rows are 16 bytes longer than their numbers, so that the same piece of eight rows lies in different banks.
//
// Products have the layout of the tensor cores: lane l has rows l / 4 and l / 4 + 8, and of every 8 columns 2 (l % 4) and the next. c[n][v]
// is row l / 4 + 8 (v / 2) and column 8 n + 2 (l % 4) + v % 2.

// How many numbers 16 bytes hold.
#define HEAD_PIECE (PRECISION == SPLIT ? 4 : 8)

// The tiles of heads of up to W features, which the host knows as HeadTiles. Each warp of a block has 16 rows of its own, and OTHERS rows of
// the other side pass by at a time.
template <int W>
struct HeadTiles {
    static constexpr int BYTES = 16 * W / HEAD_PIECE, ROW = BYTES + 16;
    static constexpr int WARPS = BYTES > 384 ? 2 : 4, OTHERS = BYTES > 256 ? 16 : BYTES > 192 ? 32 : 64;
    static constexpr int OWN = 16 * WARPS, THREADS = 32 * WARPS;
    // Whether a warp holds its own rows in registers. Wide heads leave no room there.
    static constexpr bool HELD = PRECISION != SPLIT && W <= 64;
};

// The rows of one head: `row` pieces of 16 bytes lie between the beginnings of two.
struct HeadRows {
    const uint4* pieces;
    i64 row;
    int tokens;
};

// Starts to copy rows first..first + ROWS of a head, and zeros for rows after the last one and for features after the last one.
template <int W, int ROWS>
__device__ __forceinline__ void copy_head(u32 tile, const HeadRows& rows, int first, int width) {
    constexpr int PIECES = W / HEAD_PIECE, THREADS = HeadTiles<W>::THREADS;
#pragma unroll
    for (int i = 0; i < (ROWS * PIECES + THREADS - 1) / THREADS; ++i) {
        int at = threadIdx.x + i * THREADS, line = at / PIECES, piece = at % PIECES;
        if (ROWS * PIECES % THREADS != 0 && line >= ROWS) continue;
        bool there = first + line < rows.tokens && piece * HEAD_PIECE < width;
        const uint4* from = rows.pieces + (there ? (first + line) * rows.row + piece : 0);
        u32 target = tile + line * HeadTiles<W>::ROW + 16 * piece;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(there ? 16 : 0));
    }
}

#if PRECISION == SPLIT

// 16 rows and 16 columns of a left factor, in two halves of 8 columns.
struct LeftPiece {
    float high[2][4], low[2][4];
};

__device__ __forceinline__ float in_tile(u32 address) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
    return value;
}

__device__ __forceinline__ void split_piece(LeftPiece& a) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int v = 0; v < 4; ++v) a.low[j][v] = split(&a.high[j][v]);
}

// A warp's own rows and features 16 k..16 k + 16 of a tile.
template <int W>
__device__ __forceinline__ LeftPiece piece_of_tile(u32 tile, int k) {
    constexpr int ROW = HeadTiles<W>::ROW;
    int lane = threadIdx.x & 31;
    u32 at = tile + ((threadIdx.x >> 5) * 16 + (lane >> 2)) * ROW + 4 * (16 * k + (lane & 3));
    LeftPiece a;
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int v = 0; v < 4; ++v) a.high[j][v] = in_tile(at + (v & 1) * 8 * ROW + 4 * (8 * j + 4 * (v >> 1)));
    split_piece(a);
    return a;
}

// Columns 16 k..16 k + 16 of a product as a left factor. Which column a lane has as which may be chosen, if the right factor's rows follow.
__device__ __forceinline__ LeftPiece piece_of_product(const float (*p)[4], int k) {
    LeftPiece a;
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int v = 0; v < 4; ++v) a.high[j][v] = p[2 * k + j][2 * (v & 1) + (v >> 1)];
    split_piece(a);
    return a;
}

// c += a b for 16 columns. `at` is where a lane reads the right factor; the others lie so many bytes from there: the second number of a
// product, the next 8 rows, and the next 8 columns.
__device__ __forceinline__ void multiply_piece(float (*c)[4], const LeftPiece& a, u32 at, int second, int rows, int columns) {
    float part[2][4] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        float b[2][2], low[2][2];
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int v = 0; v < 2; ++v) {
                b[n][v] = in_tile(at + j * rows + n * columns + v * second);
                low[n][v] = split(&b[n][v]);
            }
#pragma unroll
        for (int n = 0; n < 2; ++n) multiply_add(part[n], a.low[j], b[n]);
#pragma unroll
        for (int n = 0; n < 2; ++n) multiply_add(part[n], a.high[j], low[n]);
#pragma unroll
        for (int n = 0; n < 2; ++n) multiply_add(part[n], a.high[j], b[n]);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int v = 0; v < 4; ++v) c[n][v] += part[n][v];
}

// c += a b^T for features 16 k..16 k + 16 of rows 16 n..16 n + 16 of a tile.
template <int W>
__device__ __forceinline__ void multiply_row_piece(float (*c)[4], const LeftPiece& a, u32 tile, int n, int k) {
    constexpr int ROW = HeadTiles<W>::ROW;
    int lane = threadIdx.x & 31;
    multiply_piece(c, a, tile + (16 * n + (lane >> 2)) * ROW + 4 * (16 * k + (lane & 3)), 16, 32, 8 * ROW);
}

// c += a b for rows 16 k..16 k + 16 and features 16 n..16 n + 16 of a tile.
template <int W>
__device__ __forceinline__ void multiply_column_piece(float (*c)[4], const LeftPiece& a, u32 tile, int k, int n) {
    constexpr int ROW = HeadTiles<W>::ROW;
    int lane = threadIdx.x & 31;
    multiply_piece(c, a, tile + (16 * k + 2 * (lane & 3)) * ROW + 4 * (16 * n + (lane >> 2)), ROW, 8 * ROW, 32);
}

#else

// 16 rows and 16 columns of a left factor.
struct LeftPiece {
    u32 of[4];
};

__device__ __forceinline__ void load_matrices(u32* to, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ __forceinline__ void load_transposed(u32* to, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

template <int W>
__device__ __forceinline__ LeftPiece piece_of_tile(u32 tile, int k) {
    int lane = threadIdx.x & 31, row = (threadIdx.x >> 5) * 16 + (lane & 15);
    LeftPiece a;
    load_matrices(a.of, tile + row * HeadTiles<W>::ROW + 16 * (2 * k + (lane >> 4)));
    return a;
}

__device__ __forceinline__ LeftPiece piece_of_product(const float (*p)[4], int k) {
    const float *one = p[2 * k], *next = p[2 * k + 1];
    return {{two_halves(one[0], one[1]), two_halves(one[2], one[3]), two_halves(next[0], next[1]), two_halves(next[2], next[3])}};
}

template <int W>
__device__ __forceinline__ void multiply_row_piece(float (*c)[4], const LeftPiece& a, u32 tile, int n, int k) {
    int lane = threadIdx.x & 31, row = 16 * n + (lane & 7) + ((lane >> 4) << 3);
    u32 b[4];
    load_matrices(b, tile + row * HeadTiles<W>::ROW + 16 * (2 * k + ((lane >> 3) & 1)));
    multiply_halves(c[0], a.of, b[0], b[1]);
    multiply_halves(c[1], a.of, b[2], b[3]);
}

template <int W>
__device__ __forceinline__ void multiply_column_piece(float (*c)[4], const LeftPiece& a, u32 tile, int k, int n) {
    int lane = threadIdx.x & 31, row = 16 * k + (lane & 7) + (((lane >> 3) & 1) << 3);
    u32 b[4];
    load_transposed(b, tile + row * HeadTiles<W>::ROW + 16 * (2 * n + (lane >> 4)));
    multiply_halves(c[0], a.of, b[0], b[1]);
    multiply_halves(c[1], a.of, b[2], b[3]);
}

#endif

// A warp's 16 rows of a tile, as a left factor of products along the features.
template <int W>
struct OwnRows {
    u32 tile;
    LeftPiece held[HeadTiles<W>::HELD ? W / 16 : 1];

    __device__ __forceinline__ void load(u32 from) {
        tile = from;
        if (HeadTiles<W>::HELD)
#pragma unroll
            for (int k = 0; k < W / 16; ++k) held[k] = piece_of_tile<W>(from, k);
    }

    __device__ __forceinline__ LeftPiece piece(int k) const {
        return HeadTiles<W>::HELD ? held[HeadTiles<W>::HELD ? k : 0] : piece_of_tile<W>(tile, k);
    }
};

// Computes c = a b^T along the features, for those rows of a tile that are there, of which `left` are left. If the tile is WHOLE, these are
// all of its rows.
template <int W, bool WHOLE>
__device__ __forceinline__ void multiply_rows(float (*c)[4], const OwnRows<W>& own, u32 tile, int left) {
    constexpr int OTHERS = HeadTiles<W>::OTHERS;
#pragma unroll
    for (int n = 0; n < OTHERS / 8; ++n)
#pragma unroll
        for (int v = 0; v < 4; ++v) c[n][v] = 0.0f;
#pragma unroll
    for (int k = 0; k < W / 16; ++k) {
        LeftPiece a = own.piece(k);
#pragma unroll
        for (int n = 0; n < OTHERS / 16; ++n) {
            if (!WHOLE && 16 * n >= left) continue;
            multiply_row_piece<W>(c + 2 * n, a, tile, n, k);
        }
    }
}

// Computes c += p b along those rows of a tile that are there. p has 16 rows of OTHERS numbers, which are rounded to halves here unless they
// are split, and c has all features.
template <int W, bool WHOLE>
__device__ __forceinline__ void multiply_columns_of(float (*c)[4], const float (*p)[4], u32 tile, int left) {
#pragma unroll
    for (int k = 0; k < HeadTiles<W>::OTHERS / 16; ++k) {
        if (!WHOLE && 16 * k >= left) continue;
        LeftPiece a = piece_of_product(p, k);
#pragma unroll
        for (int n = 0; n < W / 16; ++n) multiply_column_piece<W>(c + 2 * n, a, tile, k, n);
    }
}

// Multiplies a warp's 16 rows of a head by `scale`, and writes them or adds them to what is there. y is where the head begins, if numbers
// are halves two to a word; then nothing can be added. Rows are `row` numbers apart.
template <int W>
__device__ __forceinline__ void put_rows(u32* y, i64 row, int first, int tokens, int width, const float (*c)[4], float scale, int narrow,
                                         int accumulate) {
    int lane = threadIdx.x & 31, own = first + (threadIdx.x >> 5) * 16 + (lane >> 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (own + 8 * half >= tokens) continue;
        i64 at = (own + 8 * half) * row + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < W / 8; ++n) {
            if (8 * n >= width) continue;
            float one = c[n][2 * half] * scale, next = c[n][2 * half + 1] * scale;
            if (PRECISION == BF16 && narrow) y[at / 2 + 4 * n] = two_halves(one, next);
            else put_two((float*)y + at + 8 * n, one, next, accumulate);
        }
    }
}

// The largest value, or below the sum, of the four lanes that share a row.
__device__ __forceinline__ float row_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float row_sum(float value) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Two to this power, off by 2^-22 of it; results below 2^-126 are zero.
__device__ __forceinline__ float power_of_two(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}
