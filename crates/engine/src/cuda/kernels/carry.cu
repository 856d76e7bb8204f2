// Sums of more samples than whole numbers of 32 bits hold.

// Adds whole numbers to what was carried over of them, leaves zeros, and moves the result up by so many binary digits.
KERNEL carry(int* sum, i64* carried, int digits, i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    carried[i] = (i64)((u64)(carried[i] + (i64)sum[i]) << digits);
    sum[i] = 0;
}

// One block per filter of n weights: the part along the filter as it is used is taken off a sum of whole numbers, which are already less
// their mean and over the deviation. `d - hat mean(hat d)` is never longer than d, since the squares of `hat` are one in the mean at the most.
KERNEL project_filters(i64* d, const float* used, int n) {
    __shared__ double scratch[32];
    d += (i64)blockIdx.x * n;
    used += (i64)blockIdx.x * n;
    double along = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) along += (double)d[i] * used[i];
    along = block_sum(along, scratch) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = (i64)rint((double)d[i] - used[i] * along);
}

// Whole numbers as what they stand for.
KERNEL to_single(float* sum, const i64* carried, double unit, i64 n) {
    i64 i = global_index();
    if (i < n) sum[i] = (float)((double)carried[i] * unit);
}
