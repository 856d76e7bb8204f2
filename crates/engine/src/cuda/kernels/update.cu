// The optimiser's updates. Every operation is rounded by itself, as on the host, so that both get the same bits.

enum { PLAIN, MOMENTUM, ADAM, CORRECTED_ADAM, MEAN };

// The numbers of one update.
struct Rule {
    float rate, keep, share;          // learning rate, what weight decay leaves, one over the expected batch
    float momentum;                   // of MOMENTUM
    float root, betas[2], rest[2];    // of both kinds of Adam; of MEAN, the first decay and the first rest
    float eps;                        // of ADAM
    float noise, floor;               // of CORRECTED_ADAM
    int nesterov;
};
static_assert(sizeof(Rule) == 52, "as on the host");

// A stretch of trainable values: its start in the sum, its length, and its start among the values.
struct UpdateBlock {
    int start, len, target;
};
static_assert(sizeof(UpdateBlock) == 12, "as on the host");

// Moves values against the noisy sum, with one block of threads for each block of values.
KERNEL update_values(int kind, float* values, const float* sum, float* first, float* second, const UpdateBlock* blocks,
                     const __grid_constant__ Rule rule) {
    const UpdateBlock& block = blocks[blockIdx.x];
    for (int i = threadIdx.x; i < block.len; i += blockDim.x) {
        int at = block.start + i;
        float g = __fmul_rn(sum[at], rule.share), kept = __fmul_rn(values[block.target + i], rule.keep), move;
        if (kind == PLAIN) {
            move = __fmul_rn(rule.rate, g);
        } else if (kind == MOMENTUM) {
            float b = __fadd_rn(__fmul_rn(rule.momentum, first[at]), g);
            first[at] = b;
            move = __fmul_rn(rule.rate, rule.nesterov ? __fadd_rn(g, __fmul_rn(rule.momentum, b)) : b);
        } else if (kind == MEAN) {
            float m = __fadd_rn(__fmul_rn(rule.betas[0], first[at]), __fmul_rn(rule.rest[0], g));
            first[at] = m;
            move = __fmul_rn(rule.rate, m);
        } else {
            float m = __fadd_rn(__fmul_rn(rule.betas[0], first[at]), __fmul_rn(rule.rest[0], g));
            float v = __fadd_rn(__fmul_rn(rule.betas[1], second[at]), __fmul_rn(__fmul_rn(rule.rest[1], g), g));
            first[at] = m;
            second[at] = v;
            float left = kind == ADAM ? v : fmaxf(__fsub_rn(v, rule.noise), rule.floor);
            float scale = __fmul_rn(__fsqrt_rn(left), rule.root);
            if (kind == ADAM) scale = __fadd_rn(scale, rule.eps);
            move = __fdiv_rn(__fmul_rn(rule.rate, m), scale);
        }
        values[block.target + i] = __fsub_rn(kept, move);
    }
}

// mean += rest (value - mean)
KERNEL move_mean(float* mean, const float* values, float rest, i64 n) {
    i64 i = global_index();
    if (i < n) mean[i] = __fadd_rn(mean[i], __fmul_rn(rest, __fsub_rn(values[i], mean[i])));
}

KERNEL exchange(float* a, float* b, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    float kept = a[i];
    a[i] = b[i];
    b[i] = kept;
}
