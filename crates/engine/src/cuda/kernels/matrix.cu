// Softmax, and the loss.

// One warp per row; the values are multiplied by `scale` first.
KERNEL softmax(const float* x, float* y, int features, i64 rows, float scale) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    x += row * features;
    y += row * features;
    float largest = -INFINITY;
    for (int i = lane; i < features; i += 32) largest = fmaxf(largest, x[i] * scale);
    largest = warp_max(largest);
    float total = 0.0f;
    for (int i = lane; i < features; i += 32) total += expf(x[i] * scale - largest);
    total = warp_sum(total);
    for (int i = lane; i < features; i += 32) y[i] = expf(x[i] * scale - largest) / total;
}

KERNEL softmax_backward(const float* y, const float* g, float* dx, int features, i64 rows, float scale, int accumulate) {
    i64 row = global_index() >> 5;
    if (row >= rows) return;
    int lane = threadIdx.x & 31;
    y += row * features;
    g += row * features;
    dx += row * features;
    float along = 0.0f;
    for (int i = lane; i < features; i += 32) along += y[i] * g[i];
    along = warp_sum(along);
    for (int i = lane; i < features; i += 32) put(dx + i, y[i] * (g[i] - along) * scale, accumulate);
}

#define IGNORED 0xffffffffu
enum { CLASSES, PROBABILITIES, VALUES };

// One block per item: `weight` times its loss, and the gradient of that times `scale`. Logits are [classes, positions].
KERNEL loss(int kind, const float* output, const void* targets, float* gradient, double* losses, int classes, int positions,
            float smoothing, double weight, double scale, int accumulate) {
    __shared__ double scratch[32];
    i64 item = blockIdx.x;
    output += item * classes * positions;
    gradient += item * classes * positions;
    const u32* labels = (const u32*)targets + item * positions;
    const float* values = (const float*)targets + item * classes * positions;
    double sum = 0.0;
    scale *= weight;
    if (kind == VALUES) {
        double count = (double)classes * positions;
        for (int i = threadIdx.x; i < classes * positions; i += blockDim.x) {
            double difference = (double)output[i] - values[i];
            sum += difference * difference;
            gradient[i] = (float)(2.0 * difference * scale / count);
        }
        sum = block_sum(sum, scratch) / count;
    } else {
        double counted = positions;
        if (kind == CLASSES) {
            double labelled = 0.0;
            for (int p = threadIdx.x; p < positions; p += blockDim.x) labelled += labels[p] != IGNORED;
            counted = fmax(block_sum(labelled, scratch), 1.0);
        }
        double share = (double)smoothing / classes;
        for (int p = threadIdx.x; p < positions; p += blockDim.x) {
            u32 label = kind == CLASSES ? labels[p] : 0;
            if (kind == CLASSES && label == IGNORED) {
                for (int c = 0; c < classes; ++c) gradient[(i64)c * positions + p] = 0.0f;
                continue;
            }
            double largest = -INFINITY, total = 0.0, all = 0.0;
            for (int c = 0; c < classes; ++c) largest = fmax(largest, (double)output[(i64)c * positions + p]);
            for (int c = 0; c < classes; ++c) {
                total += exp(output[(i64)c * positions + p] - largest);
                all += share + (1.0 - smoothing) *
                                   (kind == CLASSES ? (double)((u32)c == label) : (double)values[(i64)c * positions + p]);
            }
            double log_total = largest + log(total);
            for (int c = 0; c < classes; ++c) {
                double logit = output[(i64)c * positions + p];
                double wanted = share + (1.0 - smoothing) * (kind == CLASSES ? (double)((u32)c == label)
                                                                               : (double)values[(i64)c * positions + p]);
                if (wanted > 0.0) sum += wanted * (log_total - logit);
                gradient[(i64)c * positions + p] = (float)(scale / counted * (all * exp(logit - log_total) - wanted));
            }
        }
        sum = block_sum(sum, scratch) / counted;
    }
    if (threadIdx.x == 0) losses[item] = weight * sum + (accumulate ? losses[item] : 0.0);
}
