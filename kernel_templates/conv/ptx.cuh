// PTX that C++ has no words for, and copies by width, as inline functions; sm_80 and later, but where it says more.

__device__ __forceinline__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
#define LEAST(a, b) ((a) < (b) ? (a) : (b))   // as a function it becomes other code

// The 1, 2 or 4 words at an address as one, for one load or store; the address is a multiple of them.
template <int WORDS, typename Word>
__device__ __forceinline__ auto &words(Word *at)
{
    if constexpr (WORDS == 4) return *(float4 *)at;
    else if constexpr (WORDS == 2) return *(float2 *)at;
    else return *at;
}

// A store that does not stay in the caches.
template <int WORDS>
__device__ __forceinline__ void stream(float *to, const float *from)
{
    if constexpr (WORDS == 4) __stcs((float4 *)to, *(const float4 *)from);
    else if constexpr (WORDS == 2) __stcs((float2 *)to, *(const float2 *)from);
    else __stcs(to, *from);
}

__device__ __forceinline__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

// Copies from global memory to a shared address that pass no register: asked for, closed as a group, waited for.
template <int WORDS>
__device__ __forceinline__ void copy_async(unsigned to, const float *from)
{
    const size_t at = __cvta_generic_to_global(from);
    if constexpr (WORDS == 4) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(at) : "memory");
    else if constexpr (WORDS == 2) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(to), "l"(at) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(at) : "memory");
}

__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void copy_async_wait_all() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Copies of whole runs, a multiple of 16 bytes, by the copy engine (sm_90). What threads wrote to shared memory before
// bulk_fence is what it (and wgmma) reads; a thread that asked for copies waits until they have been read.
__device__ __forceinline__ void bulk_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void bulk_store(float *to, const float *from, int bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}

// A run of global memory on its way to the L2 cache (sm_90).
__device__ __forceinline__ void bulk_prefetch(const float *from, int bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}

// Blocks of a cluster wait for each other, and read a word of another one's shared memory (sm_90).
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ float cluster_load(unsigned from, int block)
{
    float word;
    asm volatile("{.reg .u32 at; mapa.shared::cluster.u32 at, %1, %2; ld.shared::cluster.f32 %0, [at];}"
                 : "=f"(word) : "r"(from), "r"(block) : "memory");
    return word;
}

// Barriers by number, beside that of __syncthreads: some threads wait until `threads` have come, others only come.
__device__ __forceinline__ void barrier_wait(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void barrier_arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

// What tensor cores multiply, and numbers rounded to it.
enum class Mma { tf32, fp16, bf16 };

__device__ __forceinline__ unsigned to_tf32(float value)
{
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
    return word;
}

// Two numbers as a pair of halves, the first in the low one.
template <Mma TYPE>
__device__ __forceinline__ unsigned to_pair(float low, float high)
{
    unsigned word;
    if constexpr (TYPE == Mma::bf16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// What a number loses when rounded to FP16.
__device__ __forceinline__ float lost(float value)
{
    float rounded;
    asm("{.reg .f16 half; cvt.rn.f16.f32 half, %1; cvt.f32.f16 %0, half;}" : "=f"(rounded) : "f"(value));
    return value - rounded;
}

// sums += x * w for 16 pixels x 8 words of terms (x) and 8 words of terms x 8 columns (w).
template <Mma TYPE>
__device__ __forceinline__ void mma_16x8(float *sums, const unsigned *x, unsigned w0, unsigned w1)
{
#define MMA_16X8(shape)                                                                                        \
    asm("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"           \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                           \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w0), "r"(w1))
    if constexpr (TYPE == Mma::tf32) MMA_16X8("m16n8k8.row.col.f32.tf32.tf32.f32");
    else if constexpr (TYPE == Mma::bf16) MMA_16X8("m16n8k16.row.col.f32.bf16.bf16.f32");
    else MMA_16X8("m16n8k16.row.col.f32.f16.f16.f32");
#undef MMA_16X8
}
