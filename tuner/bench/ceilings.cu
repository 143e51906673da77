// What measures a device's ceilings: the bandwidth of copies and of writes, and the arithmetic peaks. It follows
// bench.cu, whose words it uses.

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
#if __CUDA_ARCH__ >= 800
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
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WARPGROUP_ASM(text) asm volatile(text ";" ::: "memory")
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
        WARPGROUP_ASM("fence.proxy.async.shared::cta");                                                                \
        __syncthreads();                                                                                               \
        const unsigned long long b = 8ull << 32 | 64u << 16 | (uint)__cvta_generic_to_shared(words) / 16;              \
        for (int round = 0; round < rounds; round++) {                                                                 \
            WARPGROUP_ASM("wgmma.fence.sync.aligned");                                                                 \
            UNROLLED(WARPGROUP_STEPS)                                                                                  \
            for (int i = 0; i < WARPGROUP_STEPS; i++) WARPGROUP(shape, transposed, sum[i % 2], a, b);                  \
            WARPGROUP_ASM("wgmma.commit_group.sync.aligned");                                                          \
            WARPGROUP_ASM("wgmma.wait_group.sync.aligned 0");                                                          \
        }                                                                                                              \
        float total = 0.0f;                                                                                            \
        for (int i = 0; i < 32; i++) total += sum[0][i] + sum[1][i];                                                   \
        out[FIRST] = total;                                                                                            \
    }
WARPGROUP_PEAK(warpgroup_tf32, "m64n64k8.f32.tf32.tf32", "", 0x3c000000u, 0x00012000u)
WARPGROUP_PEAK(warpgroup_fp16, "m64n64k16.f32.f16.f16", ", 0", 0x20002000u, 0x00030005u)
#endif
