// Pooling, resampling and unfolding. Every backward kernel gathers, so that sums have a fixed order.
// A window table holds the input sizes, output sizes, kernel, stride, padding and dilation, each for three axes.

struct Place {
    i64 plane;
    int at[3];
};

// The plane (item and channel) and the three coordinates of a flat index over planes of `size`.
__device__ Place place(i64 index, const int* size) {
    Place place;
    u32 i = (u32)index;
    for (int axis = 2; axis >= 0; --axis) {
        place.at[axis] = (int)(i % (u32)size[axis]);
        i /= (u32)size[axis];
    }
    place.plane = i;
    return place;
}

__device__ int flat(const int* at, const int* size) { return (at[0] * size[1] + at[1]) * size[2] + at[2]; }
__device__ i64 volume(const int* size) { return (i64)size[0] * size[1] * size[2]; }

// Positions from first to last along an axis, step by step.
struct Span {
    int first, last, step;
};

// The inputs that an output's window meets along an axis.
__device__ __forceinline__ Span window(const int* table, int axis, int out) {
    int first = out * table[9 + axis] - table[12 + axis], step = table[15 + axis];
    int last = min(first + (table[6 + axis] - 1) * step, table[axis] - 1);
    if (first < 0) first += (step - 1 - first) / step * step;
    return {first, last, step};
}

// The range of outputs whose windows may meet an input along an axis. If windows have no gaps, all of them do.
__device__ __forceinline__ Span readers(const int* table, int axis, int in) {
    int shifted = in + table[12 + axis], stride = table[9 + axis], reach = (table[6 + axis] - 1) * table[15 + axis];
    int first = shifted > reach ? (shifted - reach + stride - 1) / stride : 0;
    return {first, min(shifted / stride, table[3 + axis] - 1), table[15 + axis]};
}

__device__ __forceinline__ bool meets(const int* table, int axis, int in, int out, int dilation) {
    return dilation == 1 || (in + table[12 + axis] - out * table[9 + axis]) % dilation == 0;
}

// Visits the flat index of every input of an output's window, in their order.
template <typename Visit>
__device__ __forceinline__ void each_input(const int* table, const Place& out, Visit visit) {
    Span depth = window(table, 0, out.at[0]), rows = window(table, 1, out.at[1]), columns = window(table, 2, out.at[2]);
    for (int z = depth.first; z <= depth.last; z += depth.step)
        for (int y = rows.first; y <= rows.last; y += rows.step)
            for (int x = columns.first; x <= columns.last; x += columns.step) visit((z * table[1] + y) * table[2] + x);
}

// Visits the flat index of every output whose window holds an input, in their order.
template <typename Visit>
__device__ __forceinline__ void each_output(const int* table, const Place& in, Visit visit) {
    Span depth = readers(table, 0, in.at[0]), rows = readers(table, 1, in.at[1]), columns = readers(table, 2, in.at[2]);
    for (int z = depth.first; z <= depth.last; ++z) {
        if (!meets(table, 0, in.at[0], z, depth.step)) continue;
        for (int y = rows.first; y <= rows.last; ++y) {
            if (!meets(table, 1, in.at[1], y, rows.step)) continue;
            for (int x = columns.first; x <= columns.last; ++x)
                if (meets(table, 2, in.at[2], x, columns.step)) visit((z * table[4] + y) * table[5] + x);
        }
    }
}

// Keeps the flat index of the first largest input of each window.
KERNEL max_pool(const float* x, float* y, int* kept, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    int best = -1;
    float largest = 0.0f;
    each_input(table, out, [&](int at) {
        float value = x[at];
        if (best < 0 || value > largest) {
            best = at;
            largest = value;
        }
    });
    y[i] = largest;
    if (kept) kept[i] = best;
}

KERNEL max_pool_backward(const float* g, const int* kept, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    i64 base = in.plane * volume(table + 3);
    int self = flat(in.at, table);
    float sum = 0.0f;
    each_output(table, in, [&](int at) {
        if (kept[base + at] == self) sum += g[base + at];
    });
    put(dx + i, sum, accumulate);
}

KERNEL average_pool(const float* x, float* y, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    float sum = 0.0f;
    each_input(table, out, [&](int at) { sum += x[at]; });
    y[i] = sum / (float)volume(table + 6);
}

KERNEL average_pool_backward(const float* g, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    g += in.plane * volume(table + 3);
    float sum = 0.0f;
    each_output(table, in, [&](int at) { sum += g[at]; });
    put(dx + i, sum / (float)volume(table + 6), accumulate);
}

// a from / to, rounded down or up, for a up to `to`. If 32 bits are enough they are used, because they divide faster.
__device__ __forceinline__ int scaled_down(int a, int from, int to) {
    return (from | to) < 1 << 15 ? (int)((u32)a * (u32)from / (u32)to) : (int)((i64)a * from / to);
}
__device__ __forceinline__ int scaled_up(int a, int from, int to) {
    return (from | to) < 1 << 15 ? (int)(((u32)a * (u32)from + (u32)to - 1) / (u32)to) : (int)(((i64)a * from + to - 1) / to);
}

// The first input of an adaptive window, and one past the last.
__device__ int adaptive_start(int out, int from, int to) { return scaled_down(out, from, to); }
__device__ int adaptive_end(int out, int from, int to) { return scaled_up(out + 1, from, to); }

// Takes the mean of every adaptive window, with one warp for each.
KERNEL adaptive_pool(const float* x, float* y, const int* table, i64 n) {
    i64 i = global_index() >> 5;
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    int start[3], size[3];
    for (int axis = 0; axis < 3; ++axis) {
        start[axis] = adaptive_start(out.at[axis], table[axis], table[3 + axis]);
        size[axis] = adaptive_end(out.at[axis], table[axis], table[3 + axis]) - start[axis];
    }
    int count = size[0] * size[1] * size[2];
    float sum = 0.0f;
    for (int at = threadIdx.x & 31; at < count; at += 32) {
        int row = at / size[2], in[3] = {start[0] + row / size[1], start[1] + row % size[1], start[2] + at % size[2]};
        sum += x[flat(in, table)];
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) y[i] = sum / (float)count;
}

KERNEL adaptive_pool_backward(const float* g, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    g += in.plane * volume(table + 3);
    int low[3], high[3], out[3];
    for (int axis = 0; axis < 3; ++axis) {
        // Output o reads input i exactly if floor(i to / from) <= o < ceil((i + 1) to / from).
        low[axis] = scaled_down(in.at[axis], table[3 + axis], table[axis]);
        high[axis] = scaled_up(in.at[axis] + 1, table[3 + axis], table[axis]);
    }
    float sum = 0.0f;
    for (out[0] = low[0]; out[0] < high[0]; ++out[0])
        for (out[1] = low[1]; out[1] < high[1]; ++out[1])
            for (out[2] = low[2]; out[2] < high[2]; ++out[2]) {
                int count = 1;
                for (int axis = 0; axis < 3; ++axis)
                    count *= adaptive_end(out[axis], table[axis], table[3 + axis]) -
                             adaptive_start(out[axis], table[axis], table[3 + axis]);
                sum += g[flat(out, table + 3)] / (float)count;
            }
    put(dx + i, sum, accumulate);
}

// A table of bilinear resampling begins with the height and width of input and output and the most outputs that read an input along either
// axis, filled up with zeros to eight numbers. Then come {low, high, share of high, 0} for every output row and column, and for every input
// row and column the first of the outputs that read it and the weights from there on.
KERNEL upsample(const float* x, float* y, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    u32 width = (u32)table[3], rest = (u32)i / width, height = (u32)table[2];
    const int4* rows = (const int4*)(table + 8);
    int4 row = rows[rest % height], column = rows[height + (u32)i % width];
    x += (i64)(rest / height) * table[0] * table[1];
    const float *low = x + row.x * table[1], *high = x + row.y * table[1];
    float right = __int_as_float(column.z), down = __int_as_float(row.z);
    float first = low[column.x] * (1.0f - right) + low[column.y] * right;
    float second = high[column.x] * (1.0f - right) + high[column.y] * right;
    y[i] = first * (1.0f - down) + second * down;
}

KERNEL upsample_backward(const float* g, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    int width = table[3], most_rows = table[4], most_columns = table[5];
    u32 rest = (u32)i / (u32)table[1];
    const int* rows = table + 8 + 4 * (table[2] + width);
    const int* columns = rows + table[0] * (most_rows + 1) + (u32)i % (u32)table[1] * (most_columns + 1);
    rows += rest % (u32)table[0] * (most_rows + 1);
    g += (i64)(rest / (u32)table[0]) * table[2] * width + rows[0] * width + columns[0];
    float sum = 0.0f;
    for (int row = 1; row <= most_rows; ++row, g += width) {
        float down = __int_as_float(rows[row]), along = 0.0f;
        if (down == 0.0f) continue;
        for (int column = 0; column < most_columns; ++column) along += g[column] * __int_as_float(columns[column + 1]);
        sum += along * down;
    }
    put(dx + i, sum, accumulate);
}

// Where a thread is in unfolding: where its position's window starts in the image, and the tap and channel of the next row.
struct Unfolding {
    int start[3], tap[3], channel;
};

__device__ __forceinline__ Unfolding unfolding(const int* table, int p, int row, int taps) {
    Unfolding from;
    int rest = row % taps;
    from.channel = row / taps;
    Place out = place(p, table + 3);
    for (int axis = 2; axis >= 0; --axis) {
        from.start[axis] = out.at[axis] * table[9 + axis] - table[12 + axis];
        from.tap[axis] = rest % table[6 + axis];
        rest /= table[6 + axis];
    }
    return from;
}

// Returns what the row reads, which is zero in the padding, and goes on to the next tap, or after the last one to the next channel.
__device__ __forceinline__ float next_row(Unfolding& from, const int* table, const float* x, int plane) {
    int in[3];
    bool valid = true;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        in[axis] = from.start[axis] + from.tap[axis] * table[15 + axis];
        valid = valid && (u32)in[axis] < (u32)table[axis];
    }
    float value = valid ? x[(i64)from.channel * plane + flat(in, table)] : 0.0f;
    if (++from.tap[2] < table[8]) return value;
    from.tap[2] = 0;
    if (++from.tap[1] < table[7]) return value;
    from.tap[1] = 0;
    if (++from.tap[0] < table[6]) return value;
    from.tap[0] = 0;
    ++from.channel;
    return value;
}

// Unfolds images into columns: for every channel and tap, a row of what each output position reads there, with zeros in the padding and after
// the last position. Grid: blocks of positions; blocks of rows; items, which lie `item_len` apart.
#define UNFOLDED_ROWS 16
KERNEL unfold(const float* x, float* columns, const int* table, i64 item_len, int taps, int rows, int positions, int pitch) {
    int p = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * UNFOLDED_ROWS, end = min(row + UNFOLDED_ROWS, rows);
    if (p >= pitch) return;
    int plane = (int)volume(table);
    Unfolding from = unfolding(table, p, row, taps);
    x += blockIdx.z * item_len;
    columns += ((i64)blockIdx.z * rows + row) * pitch + p;
    for (; row < end; ++row, columns += pitch) {
        float value = p < positions ? next_row(from, table, x, plane) : 0.0f;
        *columns = value;
    }
}
