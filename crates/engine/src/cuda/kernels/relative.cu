// What relative positions add to attention. A table holds the sizes of the queries' and of the keys' grid along three axes, two zeros, and
// for each axis and each pair of a query's place and a key's place {low, high, share of high, 0}, which says what rows of the axis's values
// make the row of the pair. The queries and the keys of an item follow a first token that has no position. The heads of a token lie side by
// side. A query has one term for each place of a key along each axis.

// A query that has a position, found by its number among the queries of all items and heads.
struct Query {
    i64 set, token;
    int head, at[3];
};

__device__ __forceinline__ Query query(i64 row, const int* table, int heads) {
    Query own;
    i64 positions = volume(table), item;
    own.set = row / positions;
    Place place_of = place(row - own.set * positions, table);
    for (int axis = 0; axis < 3; ++axis) own.at[axis] = place_of.at[axis];
    item = own.set / heads;
    own.head = (int)(own.set - item * heads);
    own.token = item * (1 + positions) + 1 + flat(own.at, table);
    return own;
}

__device__ __forceinline__ int terms_of_query(const int* table) { return table[3] + table[4] + table[5]; }

// Visits all terms of a query, with the pair and the axis of each.
template <typename Visit>
__device__ __forceinline__ void each_term(const Query& own, const int* table, Visit visit) {
    const int4* pairs = (const int4*)(table + 8);
    int term = 0;
    for (int axis = 0; axis < 3; ++axis) {
        int keys = table[3 + axis];
        for (int key = 0; key < keys; ++key, ++term) visit(term, axis, pairs[own.at[axis] * keys + key]);
        pairs += table[axis] * keys;
    }
}

// One value of the row of a pair.
__device__ __forceinline__ float row_value(const float* values, int4 pair, int width, int i) {
    float share = __int_as_float(pair.z), low = values[(i64)pair.x * width + i];
    return share == 0.0f ? low : low * (1.0f - share) + values[(i64)pair.y * width + i] * share;
}

// Makes the terms of a query that has a position, which are its products with the rows of all places. Each query has a warp.
KERNEL relative_terms(const float* q, const float* time, const float* height, const float* breadth, float* terms, const int* table,
                      int heads, int width, i64 rows) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    Query own = query(row, table, heads);
    q += (own.token * heads + own.head) * width;
    terms += row * terms_of_query(table);
    each_term(own, table, [&](int term, int axis, int4 pair) {
        const float* values = axis == 0 ? time : axis == 1 ? height : breadth;
        float sum = 0.0f;
        for (int i = lane; i < width; i += 32) sum += q[i] * row_value(values, pair, width, i);
        sum = warp_sum(sum);
        if (lane == 0) terms[term] = sum;
    });
}

// Sets the scores of a query to what its terms add to them, which is zero for the first query and the first key. Each query has a warp.
KERNEL relative_scores(const float* terms, float* scores, const int* table, int leading, i64 rows) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    i64 positions = volume(table), set = row / (1 + positions), at = row - set * (1 + positions);
    int keys = 1 + (int)volume(table + 3), height = table[4], width = table[5];
    terms += (set * positions + at - 1) * terms_of_query(table);
    scores += row * leading;
    for (int key = threadIdx.x & 31; key < keys; key += 32) {
        float sum = 0.0f;
        if (at > 0 && key > 0) {
            int line = (key - 1) / width;
            sum = terms[line / height] + terms[table[3] + line % height] + terms[table[3] + height + (key - 1) % width];
        }
        scores[key] = sum;
    }
}

// Makes the gradients of a query's terms from those of its scores, for queries that have a position. Each query has a warp.
KERNEL relative_sums(const float* scores, float* terms, const int* table, int leading, i64 rows) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31, keys = (int)volume(table + 3), after = keys;
    i64 positions = volume(table), set = row / positions;
    // This row comes after the first token of every set up to this one. In the row, the scores come after that of the first key.
    scores += (row + set + 1) * leading + 1;
    terms += row * terms_of_query(table);
    for (int axis = 0; axis < 3; ++axis) {
        int places = table[3 + axis], count = keys / places;
        after /= places;
        for (int at = 0; at < places; ++at, ++terms) {
            float sum = 0.0f;
            for (int i = lane; i < count; i += 32) {
                int before = i / after;
                sum += scores[(before * places + at) * after + i - before * after];
            }
            sum = warp_sum(sum);
            if (lane == 0) *terms = sum;
        }
    }
}

// Adds to the gradient of a query that has a position what comes through its terms, and what comes through the output that it was added to.
// Each query has a warp.
KERNEL relative_queries(const float* terms, const float* g, const float* time, const float* height, const float* breadth, float* dq,
                        const int* table, int heads, int width, i64 rows) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    Query own = query(row, table, heads);
    i64 start = (own.token * heads + own.head) * width;
    terms += row * terms_of_query(table);
    for (int i = threadIdx.x & 31; i < width; i += 32) {
        float sum = g[start + i];
        each_term(own, table, [&](int term, int axis, int4 pair) {
            const float* values = axis == 0 ? time : axis == 1 ? height : breadth;
            sum += terms[term] * row_value(values, pair, width, i);
        });
        dq[start + i] += sum;
    }
}

#define RELATIVE_WARPS 8

// Computes a sample's gradient of an axis's values, which is a sum over its views, heads and queries. `readers` says for each row where the
// pairs that read it begin, and after the last row where they end; then follow, for every such pair, the query's place, the key's place,
// and the row's share. Grid: samples; rows; blocks of 32 features. Each lane has one feature, and the warps share the queries.
KERNEL relative_values(const float* terms, const float* q, float* d, i64 stride, const int* table, const int* readers, int axis,
                       int heads, int width, int views, int accumulate) {
    __shared__ float sums[RELATIVE_WARPS][32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, feature = blockIdx.z * 32 + lane;
    int positions = (int)volume(table), of_query = terms_of_query(table), first = 0, after = 1;
    for (int other = 0; other < axis; ++other) first += table[3 + other];
    for (int other = axis + 1; other < 3; ++other) after *= table[other];
    int places = table[axis], count = positions / places;
    i64 begin = (i64)blockIdx.x * views, end = begin + views;
    float sum = 0.0f;
    for (int reader = readers[blockIdx.y]; reader < readers[blockIdx.y + 1] && feature < width; ++reader) {
        const int* pair = readers + gridDim.y + 1 + 3 * reader;
        int at = pair[0], key = pair[1];
        float part = 0.0f;
        for (i64 set = begin * heads; set < end * heads; ++set) {
            i64 item = set / heads, head = set - item * heads;
            for (int i = warp; i < count; i += RELATIVE_WARPS) {
                int before = i / after, p = (before * places + at) * after + i - before * after;
                float term = terms[(set * positions + p) * of_query + first + key];
                part += term * q[((item * (1 + positions) + 1 + p) * heads + head) * width + feature];
            }
        }
        sum += part * __int_as_float(pair[2]);
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || feature >= width) return;
    float total = 0.0f;
    for (int part = 0; part < RELATIVE_WARPS; ++part) total += sums[part][lane];
    put(d + blockIdx.x * stride + (i64)blockIdx.y * width + feature, total, accumulate);
}

// Copies the values of every item, but sets the first ones to zero.
KERNEL behind_first(const float* x, float* y, int first, int len, i64 n) {
    i64 i = global_index();
    if (i < n) y[i] = (u32)i % (u32)len < (u32)first ? 0.0f : x[i];
}
