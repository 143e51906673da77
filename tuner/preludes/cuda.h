// CUDA C prelude: words that are empty or plain here and carry an address space or another name in OpenCL C.
#define GLOBAL                                    // pointer into device memory
#define SHARED                                    // pointer into the block's shared memory
#define CONSTANT                                  // pointer into constant memory
#define SHARED_MEMORY(type, name, count) \
    extern __shared__ float4 name##_bytes[];      \
    type *name = (type *)name##_bytes             // dynamic: may exceed 48 KB; 16-byte aligned
#define WEIGHTS_IN_CONSTANT(count) __constant__ float w_constant[count];   // filled with w before the launch
#define CONSTANT_WEIGHTS(w) w_constant

// What the device allows, as far as the compiler knows it; REQUIRE repeats a template's constraints.
#define WARP 32
#define MAX_REGISTERS 255                         // of a thread, 65536 of a block
#define BLOCK_REGISTERS 65536
#define MAX_THREADS 1024
#define MAX_CONSTANT_BYTES 65536
#ifndef __CUDA_ARCH__
#define MAX_SHARED_BYTES 232448
#elif __CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)
#define MAX_SHARED_BYTES 232448
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 870
#define MAX_SHARED_BYTES 166912
#elif __CUDA_ARCH__ >= 800
#define MAX_SHARED_BYTES 101376
#elif __CUDA_ARCH__ == 700
#define MAX_SHARED_BYTES 98304
#else
#define MAX_SHARED_BYTES 65536
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define TENSOR_CORES 1                            // that multiply TF32 and BF16
#else
#define TENSOR_CORES 0
#endif
#define REQUIRE(condition, reason) static_assert(condition, reason)

#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(unroll (n))            // unroll the next loop n times; 1 keeps it rolled

// Words copied at once, by width (4: one 128-bit load and store, both sides 16-byte aligned).
#define COPY1(to, from) (*(to) = *(from))
#define COPY2(to, from) (*(float2 *)(to) = *(const float2 *)(from))
#define COPY4(to, from) (*(float4 *)(to) = *(const float4 *)(from))
#define STREAM1(to, from) __stcs(to, *(from))
#define STREAM2(to, from) __stcs((float2 *)(to), *(const float2 *)(from))
#define STREAM4(to, from) __stcs((float4 *)(to), *(const float4 *)(from))
#define BY_WIDTH(word, width, to, from)               \
    do {                                              \
        if ((width) == 4) word##4(to, from);          \
        else if ((width) == 2) word##2(to, from);     \
        else word##1(to, from);                       \
    } while (0)
#define COPY(width, to, from) BY_WIDTH(COPY, width, to, from)
#define STREAM(width, to, from) BY_WIDTH(STREAM, width, to, from)   // a store that does not stay in the caches

// Copies from global to shared memory that pass no register and need no waiting (sm_80 and later).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define COPY_ASYNC_(kind, bytes, to, from) \
    asm volatile("cp.async." kind ".shared.global [%0], [%1], " bytes ";" \
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory")
#define COPY_ASYNC1(to, from) COPY_ASYNC_("ca", "4", to, from)
#define COPY_ASYNC2(to, from) COPY_ASYNC_("ca", "8", to, from)
#define COPY_ASYNC4(to, from) COPY_ASYNC_("cg", "16", to, from)
#define COPY_ASYNC(width, to, from) BY_WIDTH(COPY_ASYNC, width, to, from)
#define COPY_ASYNC_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPY_ASYNC_WAIT(groups) asm volatile("cp.async.wait_group " #groups ";" ::: "memory")
#else
#define COPY_ASYNC(width, to, from) COPY(width, to, from)
#define COPY_ASYNC_COMMIT()
#define COPY_ASYNC_WAIT(groups)
#endif

// Copies of whole runs, a multiple of 16 bytes, from shared to global memory, by the copy engine (sm_90 and later). What
// it reads is written before BULK_FENCE; a thread that asked for copies waits until they have been read. A run of global
// memory that is prefetched arrives in the L2 cache some time later.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define BULK_COPIES 1
#define BULK_FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define BULK_STORE(to, from, bytes) \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \
                 :: "l"(__cvta_generic_to_global(to)), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(bytes) : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define BULK_PREFETCH(from, bytes) \
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory")
#else
#define BULK_COPIES 0
#endif

// Blocks of a cluster (sm_90 and later) wait for each other, and read a word of another one's shared memory.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CLUSTERS 1
#define CLUSTER_SYNC() \
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define CLUSTER_LOAD(word, block, from) \
    asm volatile("{.reg .u32 at; mapa.shared::cluster.u32 at, %1, %2; ld.shared::cluster.f32 %0, [at];}" \
                 : "=f"(word) : "r"((unsigned)__cvta_generic_to_shared(from)), "r"(block) : "memory")
#else
#define CLUSTERS 0
#endif

// Barriers by number, beside that of __syncthreads: some threads wait until `threads` have come, others only come.
#define BARRIER_WAIT(number, threads) asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory")
#define BARRIER_ARRIVE(number, threads) asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory")

// Products of a warpgroup, four warps, from shared memory; they run while threads go on (sm_90a alone).
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPGROUP_PRODUCTS 1
#define WARPGROUP_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WARPGROUP_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WARPGROUP_WAIT() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define WARPGROUP_ARRIVED(sum) asm volatile("" : "+f"(sum) :: "memory")   // no use of a sum moves before its wait
#else
#define WARPGROUP_PRODUCTS 0
#endif

// Rows of any length: sums[i] += factor * x[i], and to[i] = from[i].
#define MULTIPLY_ADD(count, sums, factor, x)                   \
    UNROLLED(count)                                            \
    for (int i = 0; i < (count); i++)                          \
        (sums)[i] = fmaf(factor, (x)[i], (sums)[i])
#define COPY_ROW(count, to, from)                              \
    UNROLLED(count)                                            \
    for (int i = 0; i < (count); i++)                          \
        (to)[i] = (from)[i]
