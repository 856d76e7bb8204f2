// Sums of successive steps, which are released together.

// Double precision holds all whole numbers up to twice this.
#define MOST_TOGETHER 4503599627370496.0

// The row of what was made k steps before the one in row `row`, of `rows` that are written in turns.
__device__ __forceinline__ i64 row_before(int row, int k, int rows) { return (row + rows - k) % rows; }

// Computes together = sum_k c_k x_k over the coefficients c and the whole numbers x_k of k steps ago, and puts x_0 into its row of `sums`. x_0
// is what was carried over, or zero if nothing was. Of the steps before this one the last `before` are added. Numbers that grow beyond what
// double precision holds set `failed`.
KERNEL add_steps(i64* together, i64* sums, const i64* carried, const int* coefficients, int before, int row, int rows, i64 n,
                 int* failed) {
    i64 i = global_index();
    if (i >= n) return;
    i64 x = carried ? carried[i] : 0, sum = coefficients[0] * x;
    double size = fabs((double)coefficients[0] * (double)x);
    sums[row * n + i] = x;
    for (int k = 1; k <= before; ++k) {
        i64 earlier = sums[row_before(row, k, rows) * n + i];
        sum += coefficients[k] * earlier;
        size += fabs((double)coefficients[k] * (double)earlier);
    }
    together[i] = sum;
    if (size >= MOST_TOGETHER) *failed = 1;
}

// Takes off what was learned from the last `before` steps, times their coefficients in multiples of `unit`, and puts the rest, which is the
// gradient of this step, into its row of `gradients` as well. Every operation is rounded by itself, as on the host.
KERNEL take_off_learned(float* released, float* gradients, const int* coefficients, double unit, int before, int row, int rows,
                        i64 n) {
    i64 i = global_index();
    if (i >= n) return;
    double value = released[i];
    for (int k = 1; k <= before; ++k) {
        double learned = gradients[row_before(row, k, rows) * n + i];
        value = __dsub_rn(value, __dmul_rn(__dmul_rn((double)coefficients[k], unit), learned));
    }
    released[i] = gradients[row * n + i] = (float)value;
}
