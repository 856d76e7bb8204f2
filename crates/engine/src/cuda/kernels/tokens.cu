// Depthwise convolution of tokens over their grid. An item's first token has no position and is copied as it is. The features of all heads
// lie side by side, and feature i of each head uses filter i. The tables are those of windows.

// The item, token and feature of a flat index over items that have `tokens` tokens each.
struct Token {
    i64 item;
    int at, feature;
};

__device__ __forceinline__ Token token(i64 index, int tokens, int features) {
    u32 row = (u32)index / (u32)features;
    return {row / (u32)tokens, (int)(row % (u32)tokens), (int)((u32)index % (u32)features)};
}

// Visits the taps of a window that lead to a place on a grid of this size, each with the flat index of the place. `reach` says where a tap
// leads along an axis, and whether that is on the grid.
template <typename Reach, typename Visit>
__device__ __forceinline__ void each_tap(const int* table, const int* size, Reach reach, Visit visit) {
    int tap = 0, at[3];
    for (int a = 0; a < table[6]; ++a) {
        bool frame = reach(0, a, at);
        for (int b = 0; b < table[7]; ++b) {
            bool row = frame && reach(1, b, at + 1);
            for (int c = 0; c < table[8]; ++c, ++tap)
                if (row && reach(2, c, at + 2)) visit(tap, flat(at, size));
        }
    }
}

// Copies the filters to a block's shared memory if they fit, because neighbouring threads read different filters, which lie far apart.
__device__ __forceinline__ const float* near_filters(const float* weight, int count, int holds) {
    extern __shared__ float held_filters[];
    if (!holds) return weight;
    for (int i = threadIdx.x; i < count; i += blockDim.x) held_filters[i] = weight[i];
    __syncthreads();
    return held_filters;
}

// Convolves tokens. Each thread makes several values.
KERNEL token_conv(const float* x, const float* weight, float* y, const int* table, int features, int filters, i64 n, int holds) {
    int taps = (int)volume(table + 6), tokens = 1 + (int)volume(table + 3);
    i64 inside = (1 + volume(table)) * features;
    weight = near_filters(weight, filters * taps, holds);
    for (i64 i = global_index(); i < n; i += (i64)gridDim.x * blockDim.x) {
        Token own = token(i, tokens, features);
        const float* from = x + own.item * inside + own.feature;
        if (own.at == 0) {
            y[i] = from[0];
            continue;
        }
        Place out = place(own.at - 1, table + 3);
        const float* filter = weight + own.feature % filters * taps;
        float sum = 0.0f;
        auto reach = [&](int axis, int tap, int* at) {
            *at = out.at[axis] * table[9 + axis] - table[12 + axis] + tap * table[15 + axis];
            return (u32)*at < (u32)table[axis];
        };
        each_tap(table, table, reach, [&](int tap, int at) { sum += filter[tap] * from[(i64)(1 + at) * features]; });
        y[i] = sum;
    }
}

KERNEL token_conv_backward(const float* g, const float* weight, float* dx, const int* table, int features, int filters, i64 n,
                           int holds, int accumulate) {
    int taps = (int)volume(table + 6), tokens = 1 + (int)volume(table);
    i64 outside = (1 + volume(table + 3)) * features;
    weight = near_filters(weight, filters * taps, holds);
    for (i64 i = global_index(); i < n; i += (i64)gridDim.x * blockDim.x) {
        Token own = token(i, tokens, features);
        const float* from = g + own.item * outside + own.feature;
        if (own.at == 0) {
            put(dx + i, from[0], accumulate);
            continue;
        }
        Place in = place(own.at - 1, table);
        const float* filter = weight + own.feature % filters * taps;
        float sum = 0.0f;
        auto reach = [&](int axis, int tap, int* at) {
            int shifted = in.at[axis] + table[12 + axis] - tap * table[15 + axis];
            *at = shifted / table[9 + axis];
            return shifted >= 0 && *at * table[9 + axis] == shifted && *at < table[3 + axis];
        };
        each_tap(table, table + 3, reach, [&](int tap, int at) { sum += filter[tap] * from[(i64)(1 + at) * features]; });
        put(dx + i, sum, accumulate);
    }
}

#define TOKEN_WARPS 8

// Computes a sample's gradient of the filters, which is a sum over its views, heads and positions. Grid: samples; taps; blocks of 32
// filters. Each lane has one filter, and the warps share the positions.
KERNEL token_conv_gradient(const float* x, const float* g, float* d, i64 stride, const int* table, int features, int filters,
                           int views, int accumulate) {
    __shared__ float sums[TOKEN_WARPS][32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, filter = blockIdx.z * 32 + lane;
    int positions = (int)volume(table + 3), taps = (int)volume(table + 6);
    Place tap = place(blockIdx.y, table + 6);
    float sum = 0.0f;
    for (i64 item = (i64)blockIdx.x * views; item < (i64)(blockIdx.x + 1) * views && filter < filters; ++item) {
        const float* inside = x + (item * (1 + volume(table)) + 1) * features + filter;
        const float* outside = g + (item * (1 + positions) + 1) * features + filter;
        for (int p = warp; p < positions; p += TOKEN_WARPS) {
            Place out = place(p, table + 3);
            int at[3];
            bool valid = true;
            for (int axis = 0; axis < 3; ++axis) {
                at[axis] = out.at[axis] * table[9 + axis] - table[12 + axis] + tap.at[axis] * table[15 + axis];
                valid = valid && (u32)at[axis] < (u32)table[axis];
            }
            if (!valid) continue;
            const float *left = inside + (i64)flat(at, table) * features, *right = outside + (i64)p * features;
            for (int head = 0; head < features; head += filters) sum += left[head] * right[head];
        }
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || filter >= filters) return;
    float total = 0.0f;
    for (int part = 0; part < TOKEN_WARPS; ++part) total += sums[part][lane];
    put(d + blockIdx.x * stride + (i64)filter * taps + blockIdx.y, total, accumulate);
}
