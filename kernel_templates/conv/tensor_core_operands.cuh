// tensor_core: numbers as operands of tensor cores, and the product of them.

constexpr Mma MMA = TF32 ? Mma::tf32 : MMA_TYPE == MMA_TYPE_BF16 ? Mma::bf16 : Mma::fp16;

// The larger and the smaller part of a channel, or of two, as words.
__device__ __forceinline__ unsigned larger(float value, float second)
{
    if constexpr (PAIRED) return to_pair<MMA>(value, second);
    else if constexpr (MMA_TYPE == MMA_TYPE_FP16X4) return to_pair<MMA>(value, lost(value));
    else return to_tf32(value);
}

__device__ __forceinline__ unsigned smaller(float value, float second)
{
    if constexpr (PAIRED) return to_pair<MMA>(lost(value), lost(second));
    else return __float_as_uint(value - __uint_as_float(to_tf32(value)));
}

// Add one product of 16 pixels x 8 words of terms (a) and 8 words of terms x 8 columns (b), small ones first.
// fp16x4: a word of x and the same with its halves swapped meet w, or, where that moves fewer words, x meets halves of w.
__device__ __forceinline__ void multiply_add(int product, float *sums, const unsigned (*a)[4], const unsigned *b)
{
    const unsigned *x = a[product == 0 && X_PARTS == 2 ? 1 : 0];
    const unsigned *w = b + (PARTS == 2 && product == 1 ? 2 : 0);
    const unsigned half = product == 0 ? 0x3232 : 0x1010;   // the smaller of w twice, then the larger
    mma_16x8<MMA>(sums, x, SPLIT_W ? __byte_perm(w[0], 0, half) : w[0], SPLIT_W ? __byte_perm(w[1], 0, half) : w[1]);
}
