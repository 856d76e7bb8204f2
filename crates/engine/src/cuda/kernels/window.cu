// Pooling and resampling. Every backward kernel gathers, so that sums have one order.
// A window table holds, for three axes each: input sizes, output sizes, kernel, stride, padding, dilation.

struct Place {
    i64 plane;
    int at[3];
};

// Item-and-channel, and the three coordinates, of a flat index over planes of `size`.
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

// Where a tap of an output position reads; false outside of the input.
__device__ bool source(const int* table, const int* out, const int* tap, int* in) {
    for (int axis = 0; axis < 3; ++axis) {
        in[axis] = out[axis] * table[9 + axis] - table[12 + axis] + tap[axis] * table[15 + axis];
        if (in[axis] < 0 || in[axis] >= table[axis]) return false;
    }
    return true;
}

// Which output position reads an input position with this tap; false if none does.
__device__ bool reader(const int* table, const int* in, const int* tap, int* out) {
    for (int axis = 0; axis < 3; ++axis) {
        int shifted = in[axis] + table[12 + axis] - tap[axis] * table[15 + axis];
        if (shifted < 0 || shifted % table[9 + axis]) return false;
        out[axis] = shifted / table[9 + axis];
        if (out[axis] >= table[3 + axis]) return false;
    }
    return true;
}

#define FOR_TAPS(table, tap)                            \
    for (tap[0] = 0; tap[0] < (table)[6]; ++tap[0])     \
        for (tap[1] = 0; tap[1] < (table)[7]; ++tap[1]) \
            for (tap[2] = 0; tap[2] < (table)[8]; ++tap[2])

// Keeps the flat index of the first largest input of each window.
KERNEL max_pool(const float* x, float* y, int* kept, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    int tap[3], in[3], best = -1;
    float largest = 0.0f;
    FOR_TAPS(table, tap) {
        if (!source(table, out.at, tap, in)) continue;
        float value = x[flat(in, table)];
        if (best < 0 || value > largest) {
            best = flat(in, table);
            largest = value;
        }
    }
    y[i] = largest;
    if (kept) kept[i] = best;
}

KERNEL max_pool_backward(const float* g, const int* kept, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    i64 base = in.plane * volume(table + 3);
    int tap[3], out[3], self = flat(in.at, table);
    float sum = 0.0f;
    FOR_TAPS(table, tap) {
        if (!reader(table, in.at, tap, out)) continue;
        i64 index = base + flat(out, table + 3);
        if (kept[index] == self) sum += g[index];
    }
    put(dx + i, sum, accumulate);
}

KERNEL average_pool(const float* x, float* y, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    int tap[3], in[3];
    float sum = 0.0f;
    FOR_TAPS(table, tap) {
        if (source(table, out.at, tap, in)) sum += x[flat(in, table)];
    }
    y[i] = sum / (float)volume(table + 6);
}

KERNEL average_pool_backward(const float* g, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    i64 base = in.plane * volume(table + 3);
    int tap[3], out[3];
    float sum = 0.0f;
    FOR_TAPS(table, tap) {
        if (reader(table, in.at, tap, out)) sum += g[base + flat(out, table + 3)];
    }
    put(dx + i, sum / (float)volume(table + 6), accumulate);
}

// First input and one past the last input of an adaptive window.
__device__ int adaptive_start(int out, int from, int to) { return (int)((i64)out * from / to); }
__device__ int adaptive_end(int out, int from, int to) { return (int)(((i64)(out + 1) * from + to - 1) / to); }

KERNEL adaptive_pool(const float* x, float* y, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    int start[3], end[3], in[3], count = 1;
    for (int axis = 0; axis < 3; ++axis) {
        start[axis] = adaptive_start(out.at[axis], table[axis], table[3 + axis]);
        end[axis] = adaptive_end(out.at[axis], table[axis], table[3 + axis]);
        count *= end[axis] - start[axis];
    }
    float sum = 0.0f;
    for (in[0] = start[0]; in[0] < end[0]; ++in[0])
        for (in[1] = start[1]; in[1] < end[1]; ++in[1])
            for (in[2] = start[2]; in[2] < end[2]; ++in[2]) sum += x[flat(in, table)];
    y[i] = sum / (float)count;
}

KERNEL adaptive_pool_backward(const float* g, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    g += in.plane * volume(table + 3);
    int low[3], high[3], out[3];
    for (int axis = 0; axis < 3; ++axis) {
        // Output o reads input i exactly if floor(i to / from) <= o < ceil((i + 1) to / from).
        low[axis] = (int)((i64)in.at[axis] * table[3 + axis] / table[axis]);
        high[axis] = (int)(((i64)(in.at[axis] + 1) * table[3 + axis] + table[axis] - 1) / table[axis]);
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

struct Blend {
    int low, high;
    float share;
};

// The two inputs that a resampled position lies between.
__device__ Blend blend(int out, int from, int to) {
    double at = fmax((out + 0.5) * from / to - 0.5, 0.0);
    Blend blend;
    blend.low = min((int)at, from - 1);
    blend.high = min(blend.low + 1, from - 1);
    blend.share = (float)(at - blend.low);
    return blend;
}

__device__ float weight_of(Blend b, int in) { return (b.low == in ? 1.0f - b.share : 0.0f) + (b.high == in ? b.share : 0.0f); }

KERNEL upsample(const float* x, float* y, const int* table, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    Place out = place(i, table + 3);
    x += out.plane * volume(table);
    Blend row = blend(out.at[1], table[1], table[4]), column = blend(out.at[2], table[2], table[5]);
    const float *low = x + row.low * table[2], *high = x + row.high * table[2];
    float first = low[column.low] * (1.0f - column.share) + low[column.high] * column.share;
    float second = high[column.low] * (1.0f - column.share) + high[column.high] * column.share;
    y[i] = first * (1.0f - row.share) + second * row.share;
}

// The outputs that may read an input: those whose place lies less than one input away, one more on each side for rounding.
__device__ void readers(int in, int from, int to, int* low, int* high) {
    *low = max(0, (int)floor((in - 0.5) * to / from - 0.5) - 1);
    *high = min(to - 1, (int)ceil((in + 1.5) * to / from - 0.5) + 1);
}

KERNEL upsample_backward(const float* g, float* dx, const int* table, i64 n, int accumulate) {
    i64 i = global_index();
    if (i >= n) return;
    Place in = place(i, table);
    g += in.plane * volume(table + 3);
    int top, bottom, left, right;
    readers(in.at[1], table[1], table[4], &top, &bottom);
    readers(in.at[2], table[2], table[5], &left, &right);
    float sum = 0.0f;
    for (int row = top; row <= bottom; ++row) {
        float down = weight_of(blend(row, table[1], table[4]), in.at[1]);
        if (down == 0.0f) continue;
        for (int column = left; column <= right; ++column)
            sum += g[row * table[5] + column] * down * weight_of(blend(column, table[2], table[5]), in.at[2]);
    }
    put(dx + i, sum, accumulate);
}

// Images as columns: for every channel and tap a row of what each output position reads there, zeros in the padding and behind the last
// position. Grid: blocks of positions, of rows, and items, which lie `item_len` apart.
#define UNFOLDED_ROWS 16
KERNEL unfold(const float* x, float* columns, const int* table, i64 item_len, int taps, int rows, int positions, int pitch) {
    int p = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * UNFOLDED_ROWS, end = min(row + UNFOLDED_ROWS, rows);
    if (p >= pitch) return;
    int start[3], tap[3], channel = row / taps, rest = row % taps, plane = (int)volume(table);
    Place out = place(p, table + 3);
    for (int axis = 2; axis >= 0; --axis) {
        start[axis] = out.at[axis] * table[9 + axis] - table[12 + axis];
        tap[axis] = rest % table[6 + axis];
        rest /= table[6 + axis];
    }
    x += blockIdx.z * item_len;
    columns += ((i64)blockIdx.z * rows + row) * pitch + p;
    for (; row < end; ++row, columns += pitch) {
        int in[3];
        bool valid = p < positions;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            in[axis] = start[axis] + tap[axis] * table[15 + axis];
            valid = valid && (u32)in[axis] < (u32)table[axis];
        }
        *columns = valid ? x[(i64)channel * plane + flat(in, table)] : 0.0f;
        // The next tap, and behind the last one the next channel.
        if (++tap[2] < table[8]) continue;
        tap[2] = 0;
        if (++tap[1] < table[7]) continue;
        tap[1] = 0;
        if (++tap[0] < table[6]) continue;
        tap[0] = 0;
        ++channel;
    }
}
