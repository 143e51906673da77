// What kernels here use of CUDA's built-in words, in place of cuda_runtime.h, which takes nvcc longer to read than most
// kernels to compile. A kernel that needs any other word is compiled with that header.
#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include <stddef.h>
#include "crt/host_defines.h"
#include "vector_types.h"
#include "device_launch_parameters.h"

#define NVCC_WORD extern "C" __device__ __device_builtin__
#define NVCC_INLINE static __inline__ __device__

NVCC_WORD float __uint_as_float(unsigned);
NVCC_WORD unsigned __float_as_uint(float);
NVCC_WORD unsigned __byte_perm(unsigned, unsigned, unsigned);
NVCC_WORD unsigned __nvvm_shfl_bfly_sync(unsigned, unsigned, unsigned, unsigned);
NVCC_WORD unsigned __nvvm_shfl_idx_sync(unsigned, unsigned, unsigned, unsigned);
NVCC_WORD float fmaf(float, float, float);
extern "C" __device__ size_t __nv_cvta_generic_to_global_impl(const void *);
extern "C" __device__ size_t __nv_cvta_generic_to_shared_impl(const void *);

NVCC_INLINE size_t __cvta_generic_to_global(const void *at) { return __nv_cvta_generic_to_global_impl(at); }
NVCC_INLINE size_t __cvta_generic_to_shared(const void *at) { return __nv_cvta_generic_to_shared_impl(at); }

NVCC_INLINE float __shfl_xor_sync(unsigned lanes, float value, int bits) {
    return __uint_as_float(__nvvm_shfl_bfly_sync(lanes, __float_as_uint(value), bits, 0x1f));
}

NVCC_INLINE int __shfl_sync(unsigned lanes, int value, int lane) {
    return (int)__nvvm_shfl_idx_sync(lanes, (unsigned)value, (unsigned)lane, 0x1f);
}
NVCC_INLINE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    uint4 words;
    words.x = x; words.y = y; words.z = z; words.w = w;
    return words;
}

NVCC_INLINE void __stcs(float *at, float value) { asm("st.global.cs.f32 [%0], %1;" ::"l"(at), "f"(value) : "memory"); }
NVCC_INLINE void __stcs(float2 *at, float2 value) {
    asm("st.global.cs.v2.f32 [%0], {%1,%2};" ::"l"(at), "f"(value.x), "f"(value.y) : "memory");
}
NVCC_INLINE void __stcs(float4 *at, float4 value) {
    asm("st.global.cs.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
        : "memory");
}
