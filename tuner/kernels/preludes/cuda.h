// CUDA C prelude: words that are empty or plain here and carry an address space or another name in OpenCL C.
#define GLOBAL                                    // pointer into device memory
#define SHARED                                    // pointer into the block's shared memory
#define CONSTANT                                  // pointer into constant memory
#define SHARED_MEMORY(type, name, count) \
    extern __shared__ float4 name##_bytes[];      \
    type *name = (type *)name##_bytes             // dynamic: may exceed 48 KB; 16-byte aligned
#define WEIGHTS_IN_CONSTANT(count) __constant__ float w_constant[count];   // filled with w before the launch
#define CONSTANT_WEIGHTS(w) w_constant

// What the device allows, as far as the compiler knows it, for a REQUIRE: a static assertion.
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

// Rows of any length: sums[i] += factor * x[i], and to[i] = from[i].
#define MULTIPLY_ADD(count, sums, factor, x)                   \
    UNROLLED(count)                                            \
    for (int i = 0; i < (count); i++)                          \
        (sums)[i] = fmaf(factor, (x)[i], (sums)[i])
#define COPY_ROW(count, to, from)                              \
    UNROLLED(count)                                            \
    for (int i = 0; i < (count); i++)                          \
        (to)[i] = (from)[i]
