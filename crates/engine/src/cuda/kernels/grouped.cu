// Each sample's weight gradient of a layer over tokens, as in gradient.cu, on cards whose tensor cores multiply for groups of four warps.
//
// A block has a multiprocessor to itself and makes one tile of 128 outputs by 256 features after the other. Two groups multiply, each for 64
// outputs, a thread has the hardware copy, and a warp adds up the gradient of the bias. A sample's rows lie in shared memory in slices of 16:
// its inputs in the tile's features, which stay for all tiles of the same features, and its gradients in the tile's outputs, for two tiles at
// a time where there is room. The groups multiply in turns, so that one rounds, squares and writes its numbers while the other multiplies.

#define GROUP_TILE 64
#define GROUP_OUT 128
#define GROUP_FEATURES 256
#define GROUP_SLICE 16
// How many bytes 16 rows of 64 columns take, a slice of inputs, and one of gradients.
#define GROUP_BYTES 2048
#define GROUP_INPUTS (4 * GROUP_BYTES)
#define GROUP_GRADIENTS (2 * GROUP_BYTES)
// How many slices are multiplied before others are waited for.
#define GROUP_TOGETHER 4
// How many slices fit, and how many if there is room for the gradients of two tiles.
#define GROUP_MOST_SLICES 18
#define GROUP_DOUBLE_SLICES 13
#define GROUP_MOST_PLACES (2 * GROUP_DOUBLE_SLICES)

// What a block works on: the layer's sizes, its own tiles, the gradients of how many it has room for, and where slices and barriers lie in
// shared memory.
struct GroupWork {
    int features, out, rows, slices, strips, outputs, first, end, depth;
    u32 base, barriers;
    __device__ __forceinline__ u32 inputs(int slice) const { return base + slice * GROUP_INPUTS; }
    __device__ __forceinline__ u32 gradients(int place) const { return base + slices * GROUP_INPUTS + place * GROUP_GRADIENTS; }
    // The barrier at which the slices of a place are there, the one at which nobody needs them, and the one at which it is a group's turn.
    __device__ __forceinline__ u32 filled(int place) const { return barriers + 16 * place; }
    __device__ __forceinline__ u32 emptied(int place) const { return barriers + 16 * place + 8; }
    __device__ __forceinline__ u32 turn(int group) const { return barriers + 16 * GROUP_MOST_PLACES + 8 * group; }
};

// A tile: its sample, features and outputs, the first place of its gradients, and the parity of how often that was used. Tiles of the same
// sample and features follow one another.
struct GroupTile {
    int sample, strip, output, place;
    u32 parity;
    __device__ __forceinline__ void next(const GroupWork& work) {
        if (++output == work.outputs) {
            output = 0;
            if (++strip == work.strips) strip = 0, ++sample;
        }
        place = place == 0 && work.depth > 1 ? work.slices : 0;
        if (place == 0) parity ^= 1;
    }
};

__device__ __forceinline__ GroupTile first_tile(const GroupWork& work) {
    int both = work.first / work.outputs;
    return {both / work.strips, both % work.strips, work.first % work.outputs, 0, 0};
}

// A tensor of samples, rows and columns, as the host describes it to the hardware that copies.
struct __align__(128) TensorMap {
    u64 of[16];
};
static_assert(sizeof(TensorMap) == 128, "as on the host");

// Waits until the phase of this parity has ended.
__device__ __forceinline__ void await_barrier(u32 barrier, u32 parity) {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ended;\n"
        "bra again;\n"
        "ended:}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void start_barrier(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Says that all lanes of a warp have come this far.
__device__ __forceinline__ void arrive(u32 barrier) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Starts to copy 16 rows of 64 columns. What is not there becomes zero.
__device__ __forceinline__ void copy_rows(u32 target, const TensorMap& from, int column, int row, int sample, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(target),
                 "l"(&from), "r"(column), "r"(row), "r"(sample), "r"(barrier)
                 : "memory");
}

// Copies the slices of all tiles of a block, in one thread.
__device__ __forceinline__ void copy_tiles(const GroupWork& work, const TensorMap& x, const TensorMap& g) {
    GroupTile tile = first_tile(work), before = tile;
    for (int count = 0; count < work.end - work.first; ++count) {
        bool other = count == 0 || tile.output == 0;
        for (int slice = 0; slice < work.slices; ++slice) {
            int place = tile.place + slice, row = slice * GROUP_SLICE;
            u32 barrier = work.filled(place);
            if (count >= work.depth) await_barrier(work.emptied(place), tile.parity ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                         "r"(other ? GROUP_GRADIENTS + GROUP_INPUTS : GROUP_GRADIENTS)
                         : "memory");
#pragma unroll
            for (int part = 0; part < 2; ++part)
                copy_rows(work.gradients(place) + part * GROUP_BYTES, g, tile.output * GROUP_OUT + 64 * part, row, tile.sample, barrier);
            if (!other) continue;
            // The inputs of the tile before have the same place.
            if (count > 0) await_barrier(work.emptied(before.place + slice), before.parity);
#pragma unroll
            for (int part = 0; part < 4; ++part)
                copy_rows(work.inputs(slice) + part * GROUP_BYTES, x, tile.strip * GROUP_FEATURES + 64 * part, row, tile.sample, barrier);
        }
        before = tile;
        tile.next(work);
    }
}

// Where a piece of 16 bytes lies among 16 rows of 64 columns, in an order that the tensor cores and the hardware that copies know.
__device__ __forceinline__ u32 group_piece(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }

// Adds up g over the rows of each tile of the first features, if the gradient of a bias is wanted, in one warp. Each lane has four outputs.
__device__ __forceinline__ void add_rows(const GroupWork& work, float* bias, i64 stride) {
    int lane = threadIdx.x & 31;
    GroupTile tile = first_tile(work);
    for (int count = work.end - work.first; count > 0; --count, tile.next(work)) {
        bool sums = bias && tile.strip == 0;
        float sum[4] = {};
        for (int place = tile.place; place < tile.place + work.slices; ++place) {
            await_barrier(work.filled(place), tile.parity);
            u32 own = work.gradients(place) + (lane >> 4) * GROUP_BYTES + 8 * (lane & 1);
#pragma unroll
            for (int row = 0; row < GROUP_SLICE; ++row) {
                if (!sums) continue;
                u32 pairs[2];
                asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(pairs[0]), "=r"(pairs[1]) : "r"(own + group_piece(row, lane >> 1 & 7)));
#pragma unroll
                for (int pair = 0; pair < 2; ++pair) {
                    float low, high;
                    from_halves(pairs[pair], &low, &high);
                    sum[2 * pair] += low;
                    sum[2 * pair + 1] += high;
                }
            }
            arrive(work.emptied(place));
        }
        int output = tile.output * GROUP_OUT + 4 * lane;
        if (!sums || output >= work.out) continue;
#pragma unroll
        for (int v = 0; v < 4; ++v) bias[tile.sample * stride + output + v] = sum[v];
    }
}

// Describes 16 rows of columns to the tensor cores.
__device__ __forceinline__ u64 group_matrix(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(GROUP_BYTES >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

#define FOUR_SUMS(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define SIXTEEN_SUMS(n) FOUR_SUMS(n), FOUR_SUMS(n + 1), FOUR_SUMS(n + 2), FOUR_SUMS(n + 3)

// Starts c = g^T x, or c += g^T x if what is there is kept, over 16 rows, for a group's 64 by 256 numbers.
__device__ __forceinline__ void multiply_group(float (*c)[4], u64 g, u64 x, int keep) {
    asm volatile(
        "{.reg .pred kept; setp.ne.b32 kept, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32." HALF_FACTORS " {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, kept, 1, 1, 1, 1;}"
        : SIXTEEN_SUMS(0), SIXTEEN_SUMS(4), SIXTEEN_SUMS(8), SIXTEEN_SUMS(12), SIXTEEN_SUMS(16), SIXTEEN_SUMS(20), SIXTEEN_SUMS(24),
          SIXTEEN_SUMS(28)
        : "l"(g), "l"(x), "r"(keep));
}

// Waits until a group has at most LEFT products on their way.
template <int LEFT>
__device__ __forceinline__ void products_done() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Multiplies COUNT slices of a tile for one group, of which `first` is the first, when they are there.
template <int COUNT>
__device__ __forceinline__ void multiply_slices(float (*c)[4], const GroupWork& work, const GroupTile& tile, int group, int first) {
    for (int i = 0; i < COUNT; ++i) await_barrier(work.filled(tile.place + first + i), tile.parity);
    u32 gradients = work.gradients(tile.place + first) + group * GROUP_BYTES, inputs = work.inputs(first);
    // Between these no other instruction may stand, or the tensor cores would wait for each product.
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        multiply_group(c, group_matrix(gradients + i * GROUP_GRADIENTS), group_matrix(inputs + i * GROUP_INPUTS), first + i > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Multiplies all slices of a tile for one group, a few at a time.
__device__ __forceinline__ void multiply_tile(float (*c)[4], const GroupWork& work, const GroupTile& tile, int group) {
    int slice = 0, released = 0;
    auto release = [&](int end) {
        for (; released < end; ++released) arrive(work.emptied(tile.place + released));
    };
    for (; slice + GROUP_TOGETHER <= work.slices; slice += GROUP_TOGETHER) {
        multiply_slices<GROUP_TOGETHER>(c, work, tile, group, slice);
        products_done<1>();
        release(slice);
    }
    for (; slice < work.slices; ++slice) {
        multiply_slices<1>(c, work, tile, group, slice);
        products_done<1>();
        release(slice);
    }
    arrive(work.turn(1 - group));
    products_done<0>();
    release(work.slices);
    // No number may be read before it is there.
#pragma unroll
    for (int n = 0; n < 32; ++n) asm volatile("" : FOUR_SUMS(n)::"memory");
}

// Four words of each of four lanes, turned so that lane l has word l of each.
__device__ __forceinline__ uint4 turned(const u32* words) {
    bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    u32 low = __shfl_xor_sync(0xffffffffu, odd ? words[0] : words[1], 1), high = __shfl_xor_sync(0xffffffffu, odd ? words[2] : words[3], 1);
    u32 a = odd ? low : words[0], b = odd ? words[1] : low, c = odd ? high : words[2], d = odd ? words[3] : high;
    low = __shfl_xor_sync(0xffffffffu, upper ? a : c, 2);
    high = __shfl_xor_sync(0xffffffffu, upper ? b : d, 2);
    return upper ? make_uint4(low, high, c, d) : make_uint4(a, b, low, high);
}

// Rounds a thread's numbers to halves, writes them, and adds up their squares as `square_tile` does. The first is in row `row`, and in piece
// `piece` once numbers are turned.
__device__ __forceinline__ float put_numbers(const float (*c)[4], uint4* d, int row, int out, int piece, int eights, float taken, float scale) {
    float sum[4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            u32 words[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                words[n] = two_halves(scaled(c[4 * i + n][2 * half], taken), scaled(c[4 * i + n][2 * half + 1], taken));
                float low, high;
                from_halves(words[n], &low, &high);
                low = scaled(low, scale);
                high = scaled(high, scale);
                sum[2 * half] = __fmaf_rn(low, low, sum[2 * half]);
                sum[2 * half + 1] = __fmaf_rn(high, high, sum[2 * half + 1]);
            }
            uint4 eight = turned(words);
            if (row + 8 * half < out && piece + 4 * i < eights) d[(i64)(row + 8 * half) * eights + piece + 4 * i] = eight;
        }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Does the same as `halved_gradient`, which says how far a norm may be off. A group's part of a tile has a partial sum of its own. Grid: as
// many blocks as run at once.
extern "C" __global__ void __launch_bounds__(320, 1)
    grouped_gradient(const __grid_constant__ TensorMap x, const u32* x_largest, const __grid_constant__ TensorMap g, const u32* g_largest,
                     uint4* d, int features, int out, int rows, float taken, float* bias, i64 bias_stride, float* scales, int scale_stride,
                     double* partials, int partial_stride, int samples) {
    __shared__ u64 barriers[2 * GROUP_MOST_PLACES + 2];
    // What a group's warps have. Tiles take turns, since a warp may have the next before another has read the last.
    __shared__ double squares[2][2][4];
    int slices = (rows + GROUP_SLICE - 1) / GROUP_SLICE, depth = slices > GROUP_DOUBLE_SLICES ? 1 : 2;
    int strips = (features + GROUP_FEATURES - 1) / GROUP_FEATURES, outputs = (out + GROUP_OUT - 1) / GROUP_OUT;
    i64 tiles = (i64)samples * strips * outputs;
    int first = (int)(tiles * blockIdx.x / gridDim.x), end = (int)(tiles * (blockIdx.x + 1) / gridDim.x);
    u32 base = ((u32)__cvta_generic_to_shared(stages) + 1023) & ~1023u;
    GroupWork work = {features, out, rows, slices, strips, outputs, first, end, depth, base, (u32)__cvta_generic_to_shared(barriers)};
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = warp >> 2, own = warp & 3;
    if (threadIdx.x < 2) start_barrier(work.turn(threadIdx.x), 4);
    if (threadIdx.x < depth * slices) {
        start_barrier(work.filled(threadIdx.x), 1);
        start_barrier(work.emptied(threadIdx.x), 9);
    }
    // The hardware that copies arrives at these barriers, too.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (warp == 9) return add_rows(work, bias, bias_stride);
    if (warp == 8) {
        if (lane == 0) copy_tiles(work, x, g);
        return;
    }
    float c[32][4];
    GroupTile tile = first_tile(work);
    u32 turn = 0;
    for (int count = 0; count < end - first; ++count, tile.next(work), turn ^= 1) {
        if (group == 1 || count > 0) await_barrier(work.turn(group), turn ^ group ^ 1);
        multiply_tile(c, work, tile, group);
        i64 sample = tile.sample;
        int output = tile.output * GROUP_OUT + group * GROUP_TILE;
        float x_back = power_of(largest_of(x_largest, sample), true), g_back = power_of(largest_of(g_largest, sample), true);
        float scale = __fmul_rn(__fmul_rn(x_back, 1.0f / taken), g_back);
        double square = warp_sum((double)put_numbers(c, d + sample * ((i64)out * features / 8), output + 16 * own + (lane >> 2), out,
                                                     tile.strip * (GROUP_FEATURES / 8) + (lane & 3), features / 8, taken, scale));
        if (lane == 0) squares[turn][group][own] = square;
        asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
        if (own > 0 || lane > 0) continue;
        const double* parts = squares[turn][group];
        double norm = sqrt(((parts[0] + parts[1]) + (parts[2] + parts[3])) * (1.0 + 0x1p-16)) + 0x1p-67;
        partials[sample * partial_stride + (tile.output * strips + tile.strip) * 2 + group] = norm * norm;
        if (output == 0 && tile.strip == 0) scales[sample * scale_stride] = scale;
    }
}
