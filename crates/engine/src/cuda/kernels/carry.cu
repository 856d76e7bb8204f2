// Sums of more samples than whole numbers of 32 bits hold.

// Adds whole numbers to what was carried over of them, leaves zeros there, and shifts the result up by `digits` binary digits.
KERNEL carry(int* sum, i64* carried, int digits, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    carried[i] = (i64)((u64)(carried[i] + (i64)sum[i]) << digits);
    sum[i] = 0;
}

// Takes the part along each standardised filter `hat` of n weights off a sum d of whole numbers, which already have their mean taken off and
// are divided by the deviation. `d - hat mean(hat d)` is never longer than d, because the mean square of `hat` is at most one. There is one
// block for each filter.
KERNEL project_filters(i64* d, const float* used, int n) {
    __shared__ double scratch[32];
    d += (i64)blockIdx.x * n;
    used += (i64)blockIdx.x * n;
    double along = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) along += (double)d[i] * used[i];
    along = block_sum(along, scratch) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = (i64)rint((double)d[i] - used[i] * along);
}

// Converts whole numbers to what they stand for.
KERNEL to_single(float* sum, const i64* carried, double unit, i64 n) {
    i64 i = global_index();
    if (i < n) sum[i] = (float)((double)carried[i] * unit);
}
