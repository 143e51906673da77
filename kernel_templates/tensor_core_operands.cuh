// tensor_core: numbers as operands of tensor cores, and the product of them.

// The larger and the smaller part of a channel, or of two, as words.
__device__ __forceinline__ unsigned larger(float value, float second)
{
    return PAIRED ? to_pair(value, second) : OPERANDS == OPERANDS_FP16X4 ? to_pair(value, lost(value)) : to_tf32(value);
}

__device__ __forceinline__ unsigned smaller(float value, float second)
{
    return PAIRED ? to_pair(lost(value), lost(second)) : __float_as_uint(value - __uint_as_float(to_tf32(value)));
}

#if OPERANDS == OPERANDS_TF32X3 || OPERANDS == OPERANDS_TF32
#define SHAPE "m16n8k8.row.col.f32.tf32.tf32.f32"
#elif OPERANDS == OPERANDS_BF16
#define SHAPE "m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define SHAPE "m16n8k16.row.col.f32.f16.f16.f32"
#endif

// Add one product of 16 pixels x 8 words of terms (a) and 8 words of terms x 8 columns (b), small ones first.
__device__ __forceinline__ void multiply_add(int product, float *sums, const unsigned (*a)[4], const unsigned *b)
{
    const unsigned *x = a[product == 0 && X_PARTS == 2 ? 1 : 0];
    const unsigned *w = b + (PARTS == 2 && product == 1 ? 2 : 0);
    const unsigned half = product == 0 ? 0x3232 : 0x1010;   // the smaller of w twice, then the larger
    const unsigned w0 = SPLIT_W ? __byte_perm(w[0], 0, half) : w[0], w1 = SPLIT_W ? __byte_perm(w[1], 0, half) : w[1];
    asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w0), "r"(w1));
}
