// The bench's own kernels: fill, compare and checksum buffers, the plain reference convolution, and the activation and
// pooling that turn conv1's output into conv2's input. All walk their elements in one dimension: grid-stride, or with
// OWN_RUNS, on a CPU, each work-item its own run of neighbours, which the compiler turns into vectors.
#ifdef __OPENCL_VERSION__
#define atomicAdd(pointer, value) atomic_add(pointer, value)
#define atomicMin(pointer, value) atomic_min(pointer, value)
#define atomicMax(pointer, value) atomic_max(pointer, value)
#define atomicXor(pointer, value) atomic_xor(pointer, value)
#define BITS(value) as_uint(value)
#define make_float4(a, b, c, d) (float4)(a, b, c, d)
#else
#define BITS(value) __float_as_uint(value)
#define fabs(value) fabsf(value)
#define tanh(value) tanhf(value)
#define fmax(a, b) fmaxf(a, b)
typedef unsigned int uint;
typedef unsigned long ulong;
#endif

#define FIRST ((ulong)blockIdx.x * blockDim.x + threadIdx.x)
#define STRIDE ((ulong)gridDim.x * blockDim.x)
#ifdef OWN_RUNS
#define RUN(n) (((n) + STRIDE - 1) / STRIDE)
#define EACH(i, n) \
    for (ulong i = FIRST * RUN(n), i##_end = i + RUN(n) < (n) ? i + RUN(n) : (n); i < i##_end; i++)
#else
#define EACH(i, n) for (ulong i = FIRST; i < n; i += STRIDE)
#endif

// words[0..n) = bits
__global__ void fill_words(GLOBAL uint *words, ulong n, uint bits)
{
    EACH(i, n) words[i] = bits;
}

// out[0..n) = uniform in [-1, 1), from a hash of seed and index (Murmur3's finaliser, Appleby)
__global__ void fill_random(GLOBAL float *out, ulong n, uint seed)
{
    EACH(i, n)
    {
        uint h = (uint)i * 0x9e3779b1u ^ seed;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        h ^= h >> 16;
        out[i] = (float)(h >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
}

// One output element a step, summed in the order c, p, q; sizes are run-time arguments.
__global__ void reference_conv(GLOBAL const float *x, GLOBAL const float *w, GLOBAL float *y, int B, int C, int H, int W,
                               int M, int K)
{
    int H_out = H - K + 1, W_out = W - K + 1;
    ulong n = (ulong)B * M * H_out * W_out;
    EACH(i, n)
    {
        int column = i % W_out, row = i / W_out % H_out, m = i / ((ulong)W_out * H_out) % M;
        ulong b = i / ((ulong)W_out * H_out * M);
        float sum = 0.0f;
        for (int c = 0; c < C; c++)
            for (int p = 0; p < K; p++)
                for (int q = 0; q < K; q++)
                    sum += x[((b * C + c) * H + row + p) * W + column + q] * w[((m * C + c) * K + p) * K + q];
        y[i] = sum;
    }
}

// out = pool x pool maximum of tanh(in) (or ReLU); planes = B * channels, in is height x width a plane
__global__ void activate_and_pool(GLOBAL const float *in, GLOBAL float *out, ulong planes, int height, int width, int pool,
                                  int relu)
{
    int rows = height / pool, columns = width / pool;
    EACH(i, planes * rows * columns)
    {
        int column = i % columns, row = i / columns % rows;
        ulong plane = i / ((ulong)columns * rows);
        float best = -INFINITY;
        for (int r = 0; r < pool; r++)
            for (int c = 0; c < pool; c++)
                best = fmax(best, in[(plane * height + row * pool + r) * width + column * pool + c]);
        out[i] = relu ? fmax(best, 0.0f) : tanh(best);
    }
}

// report = {wrong elements, index of the first, bits of the largest |y - expected|, elements that are NaN}
__global__ void compare(GLOBAL const float *y, GLOBAL const float *expected, ulong n, float tolerance, GLOBAL uint *report)
{
    uint wrong = 0, first = 0xffffffffu, nan = 0;
    float largest = 0.0f;
    EACH(i, n)
    {
        float error = fabs(y[i] - expected[i]);
        if (error <= tolerance) {
            largest = fmax(largest, error);
            continue;
        }
        wrong++;
        if (first == 0xffffffffu) first = (uint)i;
        if (error != error) nan++;
        else largest = fmax(largest, error);
    }
    if (wrong) {
        atomicAdd(&report[0], wrong);
        atomicMin(&report[1], first);
        atomicAdd(&report[3], nan);
    }
    if (BITS(largest) > report[2]) atomicMax(&report[2], BITS(largest));
}

// report = {words of [begin, end) that differ from bits, index of the first, index of the last, unused}
__global__ void check_words(GLOBAL const uint *words, ulong begin, ulong end, uint bits, GLOBAL uint *report)
{
    EACH(i, end - begin)
    {
        if (words[begin + i] == bits) continue;
        atomicAdd(&report[0], 1u);
        atomicMin(&report[1], (uint)i);
        atomicMax(&report[2], (uint)i);
    }
}

// report[0] ^= a hash over index and word: any changed word changes it (but for one chance in 2^32)
__global__ void checksum(GLOBAL const uint *words, ulong n, GLOBAL uint *report)
{
    uint sum = 0;
    EACH(i, n)
    {
        uint h = (words[i] ^ (uint)i * 0x9e3779b1u) * 0x85ebca6bu;
        sum ^= (h ^ h >> 15) * 0xc2b2ae35u;
    }
    atomicXor(&report[0], sum);
}

// report[2] = bits of the largest |value|
__global__ void largest(GLOBAL const float *values, ulong n, GLOBAL uint *report)
{
    float found = 0.0f;
    EACH(i, n) found = fmax(found, fabs(values[i]));
    atomicMax(&report[2], BITS(found));
}

// out[0..n) = in[0..n), four words a step: the copy bandwidth, counted as bytes read plus bytes written
__global__ void copy_words(GLOBAL const float4 *in, GLOBAL float4 *out, ulong n)
{
    EACH(i, n) out[i] = in[i];
}

// out[0..n) = value, four words a step: the write bandwidth; layers that mostly write y come nearer to it than to a copy's
__global__ void write_words(GLOBAL float4 *out, ulong n, float value)
{
    EACH(i, n) out[i] = make_float4(value, value, value, value);
}

// Independent chains of float32 multiply-adds, `rounds` steps each: the arithmetic peak. A thread is one lane on a GPU;
// a CPU's cores want whole vectors from it, and as many as their registers hold: 16 where these have 8 words.
#ifdef __OPENCL_VERSION__
#if NATIVE_WORDS >= 16
#define LANES float16
#define LANE_SUM(v) ((v).s0 + (v).sf)
#elif NATIVE_WORDS >= 8
#define LANES float8
#define LANE_SUM(v) ((v).s0 + (v).s7)
#else
#define LANES float4
#define LANE_SUM(v) ((v).x + (v).w)
#endif
#define CHAINS 12
#else
#define LANES float
#define LANE_SUM(v) (v)
#define CHAINS 16
#endif

__global__ void multiply_add(GLOBAL float *out, int rounds, float a, float b)
{
    LANES sum[CHAINS];
    UNROLLED(CHAINS)
    for (int i = 0; i < CHAINS; i++) sum[i] = (LANES)(a * (float)i);
    for (int round = 0; round < rounds; round++) {
        UNROLLED(CHAINS)
        for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * a + b;
    }
    float total = 0.0f;
    UNROLLED(CHAINS)
    for (int i = 0; i < CHAINS; i++) total += LANE_SUM(sum[i]);
    out[FIRST] = total;
}

// The same for tensor cores: independent chains of mma.sync on registers alone, `rounds` steps each. A warp multiplies
// 16 x 8 by 8 x 8 (TF32, 2,048 FLOP) or 16 x 16 by 16 x 8 (FP16, 4,096 FLOP) at a step; the operands differ by lane.
#if !defined(__OPENCL_VERSION__) && TENSOR_CORES
#define MMA_CHAINS 8
#define MMA(shape, types, sum, a, b)                                                                                  \
    asm volatile("mma.sync.aligned." shape ".row.col." types                                                          \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_PEAK(name, shape, types, first, step)                                                                     \
    __global__ void name(GLOBAL float *out, int rounds)                                                               \
    {                                                                                                                 \
        float sum[MMA_CHAINS][4] = {};                                                                                \
        uint lane = threadIdx.x % 32, a[4], b[2];                                                                     \
        for (int i = 0; i < 4; i++) a[i] = first + (lane * 4 + i) * step;                                             \
        for (int i = 0; i < 2; i++) b[i] = first + (lane * 2 + i) * step;                                             \
        for (int round = 0; round < rounds; round++) {                                                                \
            UNROLLED(MMA_CHAINS)                                                                                      \
            for (int i = 0; i < MMA_CHAINS; i++) MMA(shape, types, sum[i], a, b);                                     \
        }                                                                                                             \
        float total = 0.0f;                                                                                           \
        for (int i = 0; i < MMA_CHAINS; i++) total += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];                  \
        out[FIRST] = total;                                                                                           \
    }
MMA_PEAK(multiply_tf32, "m16n8k8", "f32.tf32.tf32.f32", 0x3c000000u, 0x00012000u)
MMA_PEAK(multiply_fp16, "m16n8k16", "f32.f16.f16.f32", 0x20002000u, 0x00030005u)
#endif

// And for products of a warpgroup, 64 x 16 by 16 x 64 (FP16) or 64 x 8 by 8 x 64 (TF32): a from registers, b from shared
// memory, `rounds` times WARPGROUP_STEPS of them in two chains.
#if !defined(__OPENCL_VERSION__) && WARPGROUP_PRODUCTS
#define WARPGROUP_STEPS 8
#define FOUR(sum, i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SIXTEEN(sum, i) FOUR(sum, i), FOUR(sum, i + 4), FOUR(sum, i + 8), FOUR(sum, i + 12)
#define WARPGROUP(shape, transposed, sum, a, b)                                                                        \
    asm volatile("{.reg .pred add; setp.eq.u32 add, 0, 0; wgmma.mma_async.sync.aligned." shape                         \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20,"    \
                 " %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, add, 1, 1"       \
                 transposed ";}"                                                                                       \
                 : SIXTEEN(sum, 0), SIXTEEN(sum, 16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WARPGROUP_PEAK(name, shape, transposed, first, step)                                                           \
    __global__ void name(GLOBAL float *out, int rounds)                                                                \
    {                                                                                                                  \
        __shared__ uint4 words[2 * 64];                                                                                \
        float sum[2][32] = {};                                                                                         \
        uint a[4], *const word = (uint *)words;                                                                        \
        for (uint i = threadIdx.x; i < 4 * 2 * 64; i += blockDim.x) word[i] = first + i % 64 * step;                   \
        for (int i = 0; i < 4; i++) a[i] = first + (threadIdx.x % 32 * 4 + i) * step;                                  \
        BULK_FENCE();                                                                                                  \
        __syncthreads();                                                                                               \
        const unsigned long long b = 8ull << 32 | 64u << 16 | (uint)__cvta_generic_to_shared(words) / 16;              \
        for (int round = 0; round < rounds; round++) {                                                                 \
            WARPGROUP_FENCE();                                                                                         \
            UNROLLED(WARPGROUP_STEPS)                                                                                  \
            for (int i = 0; i < WARPGROUP_STEPS; i++) WARPGROUP(shape, transposed, sum[i % 2], a, b);                  \
            WARPGROUP_COMMIT();                                                                                        \
            WARPGROUP_WAIT();                                                                                          \
        }                                                                                                              \
        float total = 0.0f;                                                                                            \
        for (int i = 0; i < 32; i++) total += sum[0][i] + sum[1][i];                                                   \
        out[FIRST] = total;                                                                                            \
    }
WARPGROUP_PEAK(warpgroup_tf32, "m64n64k8.f32.tf32.tf32", "", 0x3c000000u, 0x00012000u)
WARPGROUP_PEAK(warpgroup_fp16, "m64n64k16.f32.f16.f16", ", 0", 0x20002000u, 0x00030005u)
#endif
