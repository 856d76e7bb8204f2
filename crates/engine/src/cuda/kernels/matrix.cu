// Softmax, the loss, and the addresses of batched matrix products.

// Takes the softmax of every row, with one warp for each. The values are multiplied by `scale` first.
KERNEL softmax(const float* x, float* y, int features, int leading, i64 rows, float scale) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    x += row * leading;
    y += row * leading;
    float largest = -INFINITY;
    for (int i = lane; i < features; i += 32) largest = fmaxf(largest, x[i] * scale);
    largest = warp_max(largest);
    float total = 0.0f;
    for (int i = lane; i < features; i += 32) total += expf(x[i] * scale - largest);
    total = warp_sum(total);
    for (int i = lane; i < features; i += 32) y[i] = expf(x[i] * scale - largest) / total;
}

KERNEL softmax_backward(const float* y, const float* g, float* dx, int features, int leading, i64 rows, float scale,
                        int accumulate) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    y += row * leading;
    g += row * leading;
    dx += row * leading;
    float along = 0.0f;
    for (int i = lane; i < features; i += 32) along += y[i] * g[i];
    along = warp_sum(along);
    for (int i = lane; i < features; i += 32) put(dx + i, y[i] * (g[i] - along) * scale, accumulate);
}

// Lists the addresses of the matrices of n products: first those of a, then of b, then of c. Each matrix lies `outer` numbers after that of
// the item before, and `inner` numbers after that of the head before.
KERNEL matrix_addresses(const float* a, const float* b, float* c, u64* addresses, i64 a_outer, i64 a_inner, i64 b_outer, i64 b_inner,
                        i64 c_outer, i64 c_inner, int heads, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    i64 item = i / heads, head = i % heads;
    addresses[i] = (u64)(a + item * a_outer + head * a_inner);
    addresses[n + i] = (u64)(b + item * b_outer + head * b_inner);
    addresses[2 * n + i] = (u64)(c + item * c_outer + head * c_inner);
}

#define IGNORED 0xffffffffu
enum { CLASSES, PROBABILITIES, VALUES };

// Counts the labels in each part of an item's positions. The grid is the same as that of `loss`.
KERNEL count_labels(const u32* labels, int* counts, int positions) {
    __shared__ int scratch[32];
    int begin = (int)((i64)positions * blockIdx.y / gridDim.y), end = (int)((i64)positions * (blockIdx.y + 1) / gridDim.y);
    labels += (i64)blockIdx.x * positions;
    int count = 0;
    for (int p = begin + (int)threadIdx.x; p < end; p += blockDim.x) count += labels[p] != IGNORED;
    count = block_sum(count, scratch);
    if (threadIdx.x == 0) counts[(i64)blockIdx.x * gridDim.y + blockIdx.y] = count;
}

// Up to this many classes, a thread keeps their exponentials.
#define FEW_CLASSES 32

// Computes `weight` times the loss of each part of an item's positions, and `scale` times the gradient of that. Logits are
// [classes, positions]. Grid: items; parts of their positions, each of which has a sum. counts: the number of labels in each part.
extern "C" __global__ void __launch_bounds__(256, 2)
    loss(int kind, const float* output, const u32* targets, const int* counts, float* gradient, double* sums, int classes,
         int positions, float smoothing, double weight, double scale) {
    __shared__ double scratch[32];
    i64 item = blockIdx.x;
    int begin = (int)((i64)positions * blockIdx.y / gridDim.y), end = (int)((i64)positions * (blockIdx.y + 1) / gridDim.y);
    output += item * classes * positions;
    gradient += item * classes * positions;
    const u32* labels = targets + item * positions;
    const float* values = (const float*)targets + item * classes * positions;
    double counted = kind == VALUES ? (double)classes * positions : positions;
    if (kind == CLASSES) {
        double labelled = 0.0;
        for (int part = threadIdx.x; part < (int)gridDim.y; part += blockDim.x) labelled += counts[item * gridDim.y + part];
        counted = fmax(block_sum(labelled, scratch), 1.0);
    }
    double sum = 0.0, share = (double)smoothing / classes;
    scale *= weight / counted;
    for (int p = begin + (int)threadIdx.x; p < end; p += blockDim.x) {
        if (kind == VALUES) {
            for (int c = 0; c < classes; ++c) {
                i64 i = (i64)c * positions + p;
                double difference = (double)output[i] - values[i];
                sum += difference * difference;
                gradient[i] = (float)(2.0 * difference * scale);
            }
            continue;
        }
        u32 label = kind == CLASSES ? labels[p] : 0;
        if (kind == CLASSES && label == IGNORED) {
            for (int c = 0; c < classes; ++c) gradient[(i64)c * positions + p] = 0.0f;
            continue;
        }
        auto wanted = [&](int c) {
            return share + (1.0 - smoothing) * (kind == CLASSES ? (double)((u32)c == label) : (double)values[(i64)c * positions + p]);
        };
        float largest = -INFINITY;
        double total = 0.0, all = 0.0;
        for (int c = 0; c < classes; ++c) largest = fmaxf(largest, output[(i64)c * positions + p]);
        if (classes <= FEW_CLASSES) {
            double powers[FEW_CLASSES];
#pragma unroll
            for (int c = 0; c < FEW_CLASSES; ++c) {
                if (c >= classes) break;
                powers[c] = exp((double)output[(i64)c * positions + p] - largest);
                total += powers[c];
                all += wanted(c);
            }
            double log_total = largest + log(total), part = all / total;
#pragma unroll
            for (int c = 0; c < FEW_CLASSES; ++c) {
                if (c >= classes) break;
                double mass = wanted(c);
                if (mass > 0.0) sum += mass * (log_total - output[(i64)c * positions + p]);
                gradient[(i64)c * positions + p] = (float)(scale * (part * powers[c] - mass));
            }
            continue;
        }
        for (int c = 0; c < classes; ++c) {
            total += exp((double)output[(i64)c * positions + p] - largest);
            all += wanted(c);
        }
        double log_total = largest + log(total);
        for (int c = 0; c < classes; ++c) {
            double logit = output[(i64)c * positions + p], mass = wanted(c);
            if (mass > 0.0) sum += mass * (log_total - logit);
            gradient[(i64)c * positions + p] = (float)(scale * (all * exp(logit - log_total) - mass));
        }
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) sums[item * gridDim.y + blockIdx.y] = weight * sum / counted;
}

// Adds the parts of each item's loss, in their order.
KERNEL add_losses(const double* sums, double* losses, int parts, int items, int accumulate) {
    i64 item = global_index();
    if (item >= items) return;
    double total = accumulate ? losses[item] : 0.0;
    for (int part = 0; part < parts; ++part) total += sums[item * parts + part];
    losses[item] = total;
}
