// Numbers rounded to what tensor cores multiply.

__device__ __forceinline__ unsigned to_tf32(float value)
{
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
    return word;
}

// Two numbers as a pair of halves, the first in the low one; BF16 where that is what operands are.
__device__ __forceinline__ unsigned to_pair(float low, float high)
{
    unsigned word;
#if OPERANDS == OPERANDS_BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
    return word;
}

// What a number loses when rounded to FP16.
__device__ __forceinline__ float lost(float value)
{
    float rounded;
    asm("{.reg .f16 half; cvt.rn.f16.f32 half, %1; cvt.f32.f16 %0, half;}" : "=f"(rounded) : "f"(value));
    return value - rounded;
}
