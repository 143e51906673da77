// OpenCL C prelude: CUDA's words for threads, memory and arithmetic.
#define GLOBAL __global
#define SHARED __local
#define CONSTANT __constant
#define __global__ __kernel __attribute__((reqd_work_group_size(LAUNCH_X, LAUNCH_Y, LAUNCH_Z)))
#define __device__ static
#define __forceinline__ inline
#define __restrict__ restrict
#define __launch_bounds__(...)
#define __syncthreads()                             /* a block of one waits for nobody, and PoCL keeps in memory */ \
    do {                                            /* whatever lives on beyond a barrier */                      \
        if (LAUNCH_X * LAUNCH_Y * LAUNCH_Z > 1) barrier(CLK_LOCAL_MEM_FENCE);                                     \
    } while (0)
#define threadIdx ((int3)(get_local_id(0), get_local_id(1), get_local_id(2)))
#define blockIdx ((int3)(get_group_id(0), get_group_id(1), get_group_id(2)))
#define blockDim ((int3)(get_local_size(0), get_local_size(1), get_local_size(2)))
#define gridDim ((int3)(get_num_groups(0), get_num_groups(1), get_num_groups(2)))
#define fmaf(a, b, c) ((a) * (b) + (c))           // fma() is a library call on some devices; -cl-mad-enable fuses this
#define __ldg(pointer) (*(pointer))
#define SHARED_MEMORY(type, name, count) __local type name[count] __attribute__((aligned(64)))
#define WEIGHTS_IN_CONSTANT(count)
#define CONSTANT_WEIGHTS(w) w                     // the kernel's argument itself is __constant here

// A device's limits are known to the host alone here.
#define WARP 1
#define MAX_REGISTERS 640                         // 32 registers of 16 words, and some that stay in a cache
#define BLOCK_REGISTERS 0x7fffffff
#define MAX_THREADS 0x7fffffff
#define MAX_CONSTANT_BYTES 0x7fffffff
#define MAX_SHARED_BYTES 0x7fffffff
#define REQUIRE(condition, reason) _Static_assert(condition, reason)

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)                // a name of two parts, each of which may be a macro
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(unroll (n))

// FP32 words of a vector register: as the host says, else as wide as this compiler may make it.
#ifdef NATIVE_WORDS
#elif defined(__AVX512F__)
#define NATIVE_WORDS 16
#elif defined(__AVX__)
#define NATIVE_WORDS 8
#else
#define NATIVE_WORDS 4
#endif

// Vectors at addresses of words. vload and vstore are functions of the compiler's library, and calls wherever it was made
// for another CPU; functions that hand vectors over depend on the CPU too. So an address alone passes through one here.
#ifdef __clang__
#define WORDS_IN(n, words)                                                                                  \
    typedef float##n words_##n __attribute__((aligned(4)));                                                 \
    WORDS_AT(n, __global) WORDS_AT(n, const __global) WORDS_AT(n, __local) WORDS_AT(n, const __local)       \
    WORDS_AT(n, __private) WORDS_AT(n, const __private) WORDS_AT(n, __constant)
#define WORDS_AT(n, space)                                                                                  \
    static inline space words_##n *__attribute__((overloadable, always_inline)) words_at_##n(space float *at) \
    {                                                                                                       \
        return (space words_##n *)at;                                                                       \
    }
WORDS_IN(2, ) WORDS_IN(4, ) WORDS_IN(8, ) WORDS_IN(16, )
#define LOAD_WORDS(n, from) (*JOINED(words_at_, n)(from))
#define STORE_WORDS(n, to, value) (*JOINED(words_at_, n)(to) = (value))
#else
#define LOAD_WORDS(n, from) JOINED(vload, n)(0, from)
#define STORE_WORDS(n, to, value) JOINED(vstore, n)(value, 0, to)
#endif

#define COPY1(to, from) (*(to) = *(from))
#define COPY2(to, from) STORE_WORDS(2, to, LOAD_WORDS(2, from))
#define COPY4(to, from) STORE_WORDS(4, to, LOAD_WORDS(4, from))
#define COPY(width, to, from)                         \
    do {                                              \
        if ((width) == 4) COPY4(to, from);            \
        else if ((width) == 2) COPY2(to, from);       \
        else COPY1(to, from);                         \
    } while (0)
#define STREAM(width, to, from) COPY(width, to, from)
#define COPY_ASYNC(width, to, from) COPY(width, to, from)
#define COPY_ASYNC_COMMIT()
#define COPY_ASYNC_WAIT(groups)

// Rows of any length in vectors, 13 words as 8 + 4 + 1: sums[i] += factor * x[i], and to[i] = from[i].
#define MULTIPLY_ADD(count, sums, factor, x) BY_VECTORS(MULTIPLY_ADD, count, sums, factor, x)
#define COPY_ROW(count, to, from) BY_VECTORS(COPY_ROW, count, to, 0, from)
#define MULTIPLY_ADD_VECTOR(n, at, to, factor, from) \
    STORE_WORDS(n, (to) + (at), (factor) * LOAD_WORDS(n, (from) + (at)) + LOAD_WORDS(n, (to) + (at)))
#define MULTIPLY_ADD_WORD(at, to, factor, from) (to)[at] = (factor) * (from)[at] + (to)[at]
#define COPY_ROW_VECTOR(n, at, to, unused, from) STORE_WORDS(n, (to) + (at), LOAD_WORDS(n, (from) + (at)))
#define COPY_ROW_WORD(at, to, unused, from) (to)[at] = (from)[at]
#define BY_VECTORS(word, count, to, factor, from)                                        \
    do {                                                                                 \
        WIDE_VECTORS(word, count, to, factor, from)                                      \
        if ((count) & 4) word##_VECTOR(4, (count) / 8 * 8, to, factor, from);            \
        UNROLLED(4)                                                                      \
        for (int i = (count) / 4 * 4; i < (count); i++)                                  \
            word##_WORD(i, to, factor, from);                                            \
    } while (0)
#if NATIVE_WORDS >= 16
#define WIDE_VECTORS(word, count, to, factor, from)                                      \
        UNROLLED(16)                                                                     \
        for (int i = 0; i + 16 <= (count); i += 16)                                      \
            word##_VECTOR(16, i, to, factor, from);                                      \
        if ((count) & 8) word##_VECTOR(8, (count) / 16 * 16, to, factor, from);
#elif NATIVE_WORDS >= 8
#define WIDE_VECTORS(word, count, to, factor, from)                                      \
        UNROLLED(16)                                                                     \
        for (int i = 0; i + 8 <= (count); i += 8)                                        \
            word##_VECTOR(8, i, to, factor, from);
#else
#define WIDE_VECTORS(word, count, to, factor, from)                                      \
        UNROLLED(16)                                                                     \
        for (int i = 0; i + 4 <= (count) / 8 * 8; i += 4)                                \
            word##_VECTOR(4, i, to, factor, from);
#endif
