// warpgroup: the convolution as a matrix product of four warps at once (wgmma), both operands read from shared memory.
//
// Matrix product: rows are pixels, columns output channels; the sum runs over the channels of one filter term (p, q) after
// the other. A pixel's channels lie together in shared memory, 16 bytes at a time, and pixels follow each other as in the
// image. So the rows of a term are those of the first one, p * W + q pixels on: a term is a number added to an address, no
// word is moved and none is read by a thread. Pixels at a row's end, where the filter hangs over, are computed and left out.
//
// With few output channels the tensor cores wait for x. A row of the product can then be PIXELS_PER_ROW neighbouring pixels: its
// columns are (channel, shift), the filter moved on by a pixel for each, so that each word of x is read less often.
//
// Thread -> output: a warpgroup owns OWN_TILES tiles of 64 pixels x TILE_M channels of a band of pixels, or of IMAGES images.
// A block's x arrives by CHANNELS at once; while the products of one part run, threads round and place the next one.
// B=64, C=128, 56x56, M=128, K=3, FP16: 64 filters are 147 KB and stay; 16 channels of 512 pixels and their surroundings are
// 20 KB. Two warpgroups multiply 4 tiles each, 36 products of 64x64x16 for a part.
//
// Parameters
//   MMA_TYPE   fp16, bf16, tf32: rounded to, sums are FP32      fp16x3  the sum of two FP16 each: 3 products, as accurate as
//              FP32 where |x|, |w| < 65504 and not tiny
//   TILE_M     output channels of a block; blocks along y share out the others
//   PIXELS_PER_ROW     pixels of a row of the product; with more than 1, x that is not finite spoils its neighbours too
//   BAND       tiles of one image that a block owns (0: all)    IMAGES  whole images of a block at once
//   BLOCK_SHAPE  128 threads a warpgroup    MIN_BLOCKS  resident at once    CHANNELS  staged at once (0: all)
//   WEIGHTS    all channels of the block's filters stay resident, or come in parts with those of x
//   STAGES    sets of staged words    TILES_PER_BLOCK  bands or images that a block handles in turn
//   PRODUCER_THREADS    threads that only stage what the others multiply next (0: all threads do both)
//   EPILOGUE     a store is 8 pixels of 4 channels, as lanes have them, or 32 pixels of one, by way of shared memory
//   ASKED      units of 8 channels of a pixel that a thread asks for at once
// Constraints, sizes and launch: in warpgroup.py.

#include "ptx.cuh"
#include "ptx_wgmma.cuh"
#include "warpgroup_staging.cuh"
#include "warpgroup_writes.cuh"

static_assert(WARPGROUPS > 0, "some threads have to multiply");
static_assert(C_UNITS % 2 == 0, "a product takes two units of channels");

// An operand's beginning, in units of 16 bytes, and how many units on the second 16 bytes of its rows begin. Rows follow
// each other by a unit (the layout without swizzle), so an operand may begin at any of them.
__device__ __forceinline__ unsigned operand(const uint4 *at, unsigned second)
{
    return shared_address(at) / 16 | second << 16;
}

// Step i of a block: which part of the batch, from which image and row of the product on, which channels; the barriers of
// its buffer, filled by producers and emptied by consumers. Expressions, since nvcc makes other code of the same functions.
#define WORK(i) (blockIdx.x + (i) / CHUNKS * gridDim.x)
#define IMAGE(i) (WORK(i) / BANDS * IMAGES)
#define ROW(i) (WORK(i) % BANDS * BAND_TILES * 64)
#define CHANNEL(i) ((i) % CHUNKS * STAGED_C)
#define X_BUFFER(i) (staged + (i) % STAGES * PARTS * X_UNITS)
#define W_BUFFER(i) (staged_w + (i) % (KEEP_W ? CHUNKS : STAGES) * PARTS * W_UNITS)
#define FULL(i) (1 + (i) % STAGES)
#define EMPTY(i) (1 + STAGES + (i) % STAGES)

// Stage what step i multiplies, and w where it does not stay.
#define STAGE(i)                                                                                                     \
    do {                                                                                                             \
        stage_x(X_BUFFER(i), x + (size_t)IMAGE(i) * LAYER_C * LAYER_H * LAYER_W, CHANNEL(i), B - (int)IMAGE(i),      \
                ROW(i), stager);                                                                                     \
        if (!KEEP_W) stage_w(W_BUFFER(i), w, CHANNEL(i), LAYER_M - m_first, stager, STAGERS);                        \
        bulk_fence();   /* what threads have written is read by the tensor cores */                                  \
    } while (0)

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
conv_forward(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y,
             int B, int C_, int H_, int W_, int M_, int K_)   // all sizes but B are compile-time constants here
{
    SHARED_MEMORY(uint4, staged, SHARED_UNITS);
    uint4 *const staged_w = staged + STAGES * PARTS * X_UNITS;
    const int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);   // as one number of the warp, not one of each lane
    const int m_first = blockIdx.y * TILE_M, work = ceil_div(B, IMAGES) * BANDS;
    w += m_first * LAYER_C * FILTER;
    y += m_first * H_OUT * W_OUT;
    const unsigned stager = threadIdx.x - (THREADS - STAGERS);
    float sums[OWN_TILES][COLUMNS / 2];


    // Prologue: filters that stay, and the first words.
    if constexpr (PIXELS_PER_ROW > 1) {
        clear_w(staged_w);
        __syncthreads();
    }
    UNROLLED(1)
    for (int i = 0; KEEP_W && i < CHUNKS; i++)
        stage_w(W_BUFFER(i), w, CHANNEL(i), LAYER_M - m_first, threadIdx.x, THREADS);
    if constexpr (PRODUCER_THREADS > 0) {
        bulk_fence();
        __syncthreads();
        if (group >= WARPGROUPS) {   // producers: they fill buffers that consumers have emptied, and are done
            UNROLLED(1)
            for (int i = 0; i < BLOCK_STEPS && WORK(i) < work; i++) {
                if (i >= STAGES) barrier_wait(EMPTY(i), THREADS);
                STAGE(i);
                barrier_arrive(FULL(i), THREADS);
            }
            return;
        }
    } else {
        STAGE(0);
        __syncthreads();
    }

    // Mainloop: a step is a part of the channels of a part of the batch.
    UNROLLED(1)
    for (int i = 0; i < BLOCK_STEPS && WORK(i) < work; i++) {
        if constexpr (PRODUCER_THREADS > 0) barrier_wait(FULL(i), THREADS);
        else if (STAGES == 1 && i > 0) {
            STAGE(i);
            __syncthreads();
        }
        const unsigned a = operand(X_BUFFER(i), PIXELS_PER_ROW * PITCH), b = operand(W_BUFFER(i), COLUMNS);
        int add = i % CHUNKS > 0;
        UNROLLED(1)
        for (int unit = 0; unit < C_UNITS; unit += 2)
            UNROLLED(1)
            for (int p = 0; p < LAYER_K; p++) {
                wgmma_fence();
                UNROLLED(TERMS)
                for (int q = 0; q < TERMS; q++)
                    UNROLLED(PRODUCTS)
                    for (int product = 0; product < PRODUCTS; product++) {   // the small ones first
                        const int x_part = PARTS == 2 && product == 0, w_part = PARTS == 2 && product == 1;
                        UNROLLED(OWN_TILES)
                        for (int j = 0; j < OWN_TILES; j++) {
                            const int tile = LEAST(group * OWN_TILES + j, TILES - 1);
                            const int corner = tile / BAND_TILES * C_UNITS * PIXELS_PER_ROW * PITCH + tile % BAND_TILES * 64;
                            const int step = (unit * PIXELS_PER_ROW + q % PIXELS_PER_ROW) * PITCH + p * (ROW_PIXELS / PIXELS_PER_ROW) + q / PIXELS_PER_ROW;
                            wgmma<MMA, COLUMNS>(sums[j], a + x_part * X_UNITS + corner + step,
                                                b + w_part * W_UNITS + (p * TERMS + q) * W_PITCH + unit * COLUMNS, add);
                        }
                        add = 1;
                    }
                wgmma_commit();
            }
        if (PRODUCER_THREADS == 0 && STAGES == 2 && i + 1 < BLOCK_STEPS && WORK(i + 1) < work) STAGE(i + 1);
        wgmma_wait();
        if constexpr (PRODUCER_THREADS == 0) __syncthreads();   // these words have been read, the next ones are there
        else if (i + STAGES < BLOCK_STEPS && WORK(i + STAGES) < work) barrier_arrive(EMPTY(i), THREADS);

        // Epilogue, after the last part of the channels.
        UNROLLED(OWN_TILES)
        for (int j = 0; j < OWN_TILES; j++) {
            UNROLLED(COLUMNS / 2)
            for (int n = 0; n < COLUMNS / 2; n++)
                wgmma_arrived(sums[j][n]);
            const int tile = group * OWN_TILES + j, image = tile / BAND_TILES;
            if (i % CHUNKS == CHUNKS - 1 && tile < TILES && IMAGE(i) + image < B)
                write_tile(y + (size_t)(IMAGE(i) + image) * LAYER_M * H_OUT * W_OUT, sums[j],
                           (float *)(staged_w + W_SETS * PARTS * W_UNITS), ROW(i) + tile % BAND_TILES * 64,
                           LAYER_M - m_first, group);
        }
    }
}
