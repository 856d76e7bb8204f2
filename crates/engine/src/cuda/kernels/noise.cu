// Gaussian noise on a lattice, from ChaCha20. For the same key, every value has the same bits as the host's noise.
//
// Random words, and what they stand for, are laid out as on the host: 1024 coordinates share a stream of 512 words for radii and 512 for
// angles, and pair i has the coordinates i and 512 + i. What the ideal noise rounds to is settled in double precision if its unknown further
// digits cannot matter, and with further digits in twice that precision if they can. Either way the result is that of the ideal numbers, so
// it does not depend on how a processor computes a logarithm.

#define PAIRS 512

struct Key {
    u32 words[8];
};
static_assert(sizeof(Key) == 32, "as on the host");

__device__ __forceinline__ void quarter_round(u32& a, u32& b, u32& c, u32& d) {
    a += b; d = __funnelshift_l(d ^ a, d ^ a, 16);
    c += d; b = __funnelshift_l(b ^ c, b ^ c, 12);
    a += b; d = __funnelshift_l(d ^ a, d ^ a, 8);
    c += d; b = __funnelshift_l(b ^ c, b ^ c, 7);
}

// One block of sixteen words of a stream (Bernstein 2008, with 64 bits of counter and 64 of nonce).
__device__ void chacha20(const Key& key, u64 stream, u32 counter, u32* out) {
    u32 start[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
#pragma unroll
    for (int i = 0; i < 8; ++i) start[4 + i] = key.words[i];
    start[12] = counter;
    start[13] = 0;
    start[14] = (u32)stream;
    start[15] = (u32)(stream >> 32);
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] = start[i];
#pragma unroll 1
    for (int round = 0; round < 10; ++round) {
#pragma unroll
        for (int i = 0; i < 4; ++i) quarter_round(out[i], out[4 + i], out[8 + i], out[12 + i]);
#pragma unroll
        for (int i = 0; i < 4; ++i) quarter_round(out[i], out[4 + (i + 1) % 4], out[8 + (i + 2) % 4], out[12 + (i + 3) % 4]);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) out[i] += start[i];
}

// high + low, with low at most half a unit in the last place of high (Dekker 1971). The compiler must not fuse any of these operations, so
// each is an intrinsic.
struct Double {
    double high, low;
};

__device__ __forceinline__ Double wide(double value) { return {value, 0.0}; }

__device__ __forceinline__ Double exact_sum(double a, double b) {
    double high = __dadd_rn(a, b), part = __dsub_rn(high, a);
    return {high, __dadd_rn(__dsub_rn(a, __dsub_rn(high, part)), __dsub_rn(b, part))};
}

__device__ Double operator-(Double a) { return {-a.high, -a.low}; }

__device__ Double operator+(Double a, Double b) {
    Double high = exact_sum(a.high, b.high), low = exact_sum(a.low, b.low);
    Double middle = exact_sum(high.high, __dadd_rn(high.low, low.high));
    return exact_sum(middle.high, __dadd_rn(middle.low, low.low));
}

__device__ Double operator-(Double a, Double b) { return a + -b; }

__device__ Double operator*(Double a, Double b) {
    double product = __dmul_rn(a.high, b.high), rest = __fma_rn(a.high, b.high, -product);
    return exact_sum(product, __dadd_rn(rest, __fma_rn(a.high, b.low, __dmul_rn(a.low, b.high))));
}

__device__ Double over(Double a, double divisor) {
    double quotient = __ddiv_rn(a.high, divisor);
    double rest = __dadd_rn(__fma_rn(-quotient, divisor, a.high), a.low);
    return exact_sum(quotient, __ddiv_rn(rest, divisor));
}

__device__ Double root(Double a) {
    if (a.high <= 0.0) return wide(0.0);
    double guess = __dsqrt_rn(a.high);
    Double rest = a - wide(guess) * wide(guess);
    return exact_sum(guess, __ddiv_rn(rest.high, __dmul_rn(2.0, guess)));
}

// e^a for values between -700 and 700.
__device__ Double exponential(Double a) {
    const Double ln_2 = {0.693147180559945309417232, 2.3190468138462996e-17};
    double twos = rint(__ddiv_rn(a.high, ln_2.high));
    Double small = a - ln_2 * wide(twos), series = wide(1.0);
    // |small| <= 0.35, and 0.35^29 / 29! < 2^-143.
    for (int n = 28; n >= 1; --n) series = over(series * small, n) + wide(1.0);
    return series * wide(ldexp(1.0, (int)twos));
}

__device__ Double logarithm(Double a) {
    Double guess = wide(log(a.high));
    // a = e^guess (1 + w) with |w| below 2^-40, so ln(1 + w) needs three terms.
    Double w = a * exponential(-guess) - wide(1.0);
    return guess + w - over(w * w, 2.0) + over(w * w * w, 3.0);
}

// Cosine (first = 0) or sine (first = 1, without its leading factor) of an angle within pi / 4, from minus its square.
__device__ Double circular(Double square, int first) {
    Double series = wide(1.0);
    // (pi / 4)^30 / 30! < 2^-118.
    for (int n = 14; n >= 1; --n) series = over(series * square, (2 * n + first) * (2 * n + first - 1)) + wide(1.0);
    return series;
}

// The fraction with these 32-bit digits, plus half a unit of the last.
__device__ Double fraction(const u32* digits) {
    double unit = 1.0;
    Double value = wide(0.0);
    for (int i = 0; i < 6; ++i) {
        unit *= 1.0 / 4294967296.0;
        value = value + wide(digits[i] * unit);
    }
    return value + wide(0.5 * unit);
}

// The first `known` digits of a word, followed by 128 more from four words, of which the lower half of each pair comes first.
__device__ void join(u32 word, int known, const u32* more, u32* digits) {
    u64 first = (u64)more[1] << 32 | more[0], second = (u64)more[3] << 32 | more[2];
    u64 head = (u64)word << 32 | first >> known, middle = first << (64 - known) | second >> known, tail = second << (64 - known);
    u64 all[3] = {head, middle, tail};
    for (int i = 0; i < 3; ++i) {
        digits[2 * i] = (u32)(all[i] >> 32);
        digits[2 * i + 1] = (u32)all[i];
    }
}

__device__ double nearest(Double a) {
    double whole = rint(a.high), rest = __dsub_rn(a.high, whole);
    if (rest == 0.5 && a.low > 0.0) return whole + 1.0;
    if (rest == -0.5 && a.low < 0.0) return whole - 1.0;
    return whole;
}

// Turns a direction by an angle's quarter turns, given the cosine and sine of the place within the quarter.
template <typename T>
__device__ __forceinline__ void turn(u32 quarter, T& cosine, T& sine) {
    T c = cosine, s = sine;
    if (quarter == 1) { cosine = -s; sine = c; }
    if (quarter == 2) { cosine = -c; sine = -s; }
    if (quarter == 3) { cosine = s; sine = -c; }
}

// Both coordinates of round(offset + deviation * noise), with at least 158 digits of each random number.
__device__ __noinline__ double2 round_exactly(const Key& key, u64 pair, u32 radius_word, u32 angle_word, double2 offset,
                                              double deviation) {
    u32 more[16], digits[6];
    chacha20(key, 1ull << 63 | pair, 0, more);
    join(radius_word, 32, more, digits);
    Double radius = root(wide(-2.0) * logarithm(fraction(digits))) * wide(deviation);
    join(angle_word << 2, 30, more + 4, digits);
    const Double half_pi = {1.57079632679489661923132, 6.123233995736766e-17};
    Double angle = (fraction(digits) - wide(0.5)) * half_pi, square = -(angle * angle);
    Double cosine = circular(square, 0), sine = angle * circular(square, 1);
    turn(angle_word >> 30, cosine, sine);
    return make_double2(nearest(wide(offset.x) + radius * cosine), nearest(wide(offset.y) + radius * sine));
}

// Half the width of the interval that 32 digits leave for a radius' uniform number, and that 30 digits leave for an angle, both doubled for
// safety; and sixteen times what double precision may move a result by, for a deviation of at most 2^11.
#define RADIUS_DOUBT (1.0 / 4294967296.0)
#define ANGLE_DOUBT (1.57079632679489661923132 / 1073741824.0)
#define ROUNDING_DOUBT (1.0 / 1073741824.0)
#define EDGE (1.0 / 65536.0)

__device__ double2 round_pair(const Key& key, u64 pair, u32 radius_word, u32 angle_word, double2 offset, double deviation) {
    double uniform = (radius_word + 0.5) * (1.0 / 4294967296.0);
    double radius = sqrt(-2.0 * log(uniform)), cosine, sine;
    sincospi(0.5 * (((angle_word & 0x3fffffffu) + 0.5) * (1.0 / 1073741824.0) - 0.5), &sine, &cosine);
    turn(angle_word >> 30, cosine, sine);
    double first = offset.x + deviation * radius * cosine, second = offset.y + deviation * radius * sine;
    double2 rounded = make_double2(rint(first), rint(second));
    double farthest = fmax(fabs(first - rounded.x), fabs(second - rounded.y));
    double room = 0.5 - farthest - (deviation * ANGLE_DOUBT * radius + ROUNDING_DOUBT);
    bool certain = room * (uniform * radius) > deviation * RADIUS_DOUBT && fmin(uniform, 1.0 - uniform) > EDGE;
    return certain ? rounded : round_exactly(key, pair, radius_word, angle_word, offset, deviation);
}

// How many warps a block of `add_noise` has.
#define NOISE_WARPS 8

// Computes sum = step round(x / step + deviation noise), where the step is a power of two and the deviation counts steps. x / step is
// `scale` times whole numbers below 2^53 that were carried over, or if there are none, times the plain numbers of the sum. `scale` is a
// power of two, so that nothing is rounded. There is one warp for 1024 coordinates, in which every lane makes a block of radii and a block
// of angles, which the lanes exchange so that neighbours have neighbouring coordinates. A plain value that is not finite sets `failed`.
extern "C" __global__ void __launch_bounds__(32 * NOISE_WARPS)
    add_noise(float* sum, const i64* carried, i64 n, const __grid_constant__ Key key, double step, double deviation, double scale,
              int* failed) {
    __shared__ u32 words[NOISE_WARPS][2][PAIRS];
    i64 chunk = global_index() >> 5, start = chunk * 2 * PAIRS;
    if (start >= n) return;
    int lane = threadIdx.x & 31;
    u32 (*own)[PAIRS] = words[threadIdx.x >> 5], made[16];
    for (int part = 0; part < 2; ++part) {
        chacha20(key, chunk, PAIRS / 16 * part + lane, made);
#pragma unroll
        for (int i = 0; i < 16; ++i) own[part][16 * lane + i] = made[i];
    }
    __syncwarp();
    auto steps = [&](i64 at) { return (carried ? (double)carried[at] : (double)sum[at]) * scale; };
    for (int pair = lane; pair < PAIRS && start + pair < n; pair += 32) {
        i64 first = start + pair, second = first + PAIRS;
        bool has_second = second < n;
        double x = steps(first), y = has_second ? steps(second) : 0.0;
        if (!isfinite(x) || !isfinite(y)) {
            *failed = 1;
            continue;
        }
        double2 nearest_step = make_double2(rint(x), rint(y));
        double2 offset = make_double2(x - nearest_step.x, y - nearest_step.y);
        double2 rounded = round_pair(key, (u64)chunk * PAIRS + pair, own[0][pair], own[1][pair], offset, deviation);
        sum[first] = (float)((nearest_step.x + rounded.x) * step);
        if (has_second) sum[second] = (float)((nearest_step.y + rounded.y) * step);
    }
}
