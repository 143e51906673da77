// tensor_core: the convolution as a matrix product on tensor cores, without ever writing the unrolled matrix down.
//
// Matrix product: rows are output pixels, columns output channels, and the sum runs over the filter's terms (c, p, q).
// A warp multiplies 16 pixels x 8 terms by 8 terms x 8 channels at once (mma.sync). Lane (g, t) of the 8 x 4 lanes
// supplies the words of pixels g and g + 8 at terms t and t + 4. It reads them straight from the image in shared memory,
// at the pixel's corner plus the term's offset; offsets are a table, weights lie as the lanes want them. Terms are pairs
// (c, q): what a lane has read of an image row serves every filter row p in turn, since row p + 1 of an output row is
// row p of the next.
//
// Where C and K leave a step of 8 terms half empty, a row of the product can be PIXELS_PER_ROW neighbouring pixels: its columns are
// then (channel, shift), the filter moved on by a word for each. With C = 1 and K = 5, 4 shifts fill all 8 terms, 6 channels
// are 24 columns without a gap, each word of x is read a quarter as often, and lanes have neighbouring pixels to write.
//
// Thread -> output: a warp's task is TILE_ROWS rows x TILE_COLUMNS columns x TILE_M channels. Columns are counted through
// the IMAGES images (or the ROWS rows of one) that a block holds, so no tile ends at a row's end. The block owns all
// groups of TILE_M channels (GRID_LAYOUT B,1,1) or one (B,M,1), and handles TILES_PER_BLOCK such sets of images one after the
// other; with 2 STAGES the next arrives while this one is multiplied.
// fa18/conv2, FP16X3, TILE 3x16x24: 6 pairs of channels x 7 are 42 terms, 6 steps (48). A step is 9 x 8 words of x and
// 7 x 3 x 4 of w a lane for 7 x 3 x 3 x 3 products of 16x8x16. An image of 27 rows has 9 x 27 columns, 16 tasks.
//
// Parameters
//   MMA_TYPE  what a word of shared memory holds, and so the accuracy; sums are always FP32
//     tf32x3  an FP32 number, split into two TF32 when read: 3 products, as accurate as FP32
//     fp16x3  two channels, each the sum of two FP16, in two words: 3 products for twice the terms, as accurate as FP32
//             where |x|, |w| < 65504 and not tiny        fp16x4  one channel so in one word: 2 instructions, 4 products
//     tf32    rounded to TF32: 1 product      fp16, bf16  two channels, each rounded: 1 product for twice the terms
//   EPILOGUE     lanes exchange sums first, so that a store is TILE_COLUMNS of one row, or a lane has neighbouring columns,
//              or sums are gathered in shared memory until rows are whole, and copied in bulk during the next products
//   WEIGHTS    read from shared memory for each task, or kept in registers: a warp's tasks are then all of one group
//   PREFETCH   bring the x of so many sets into the L2 cache in one burst, ahead, where writing is most of the work: the
//              memory turns from writing to reading rarely, not all the time
//   BLOCK_SHAPE threads    MIN_BLOCKS resident at once    CHANNELS staged at once (0: all)    UNROLL  steps
//   COPY_BY    of w: through registers, or asynchronous, as it is, beside x, and then put where lanes read it
//   PIXELS_PER_ROW     pixels of a row of the product; with more than 1, x that is not finite spoils its neighbours too
//   SPLIT_K    blocks of a cluster that share out the input channels of the same outputs; the first adds up their sums
// Constraints, sizes and launch: in tensor_core.py.

#include "ptx.cuh"
#include "tensor_core_operands.cuh"
#include "tensor_core_staging.cuh"
#include "tensor_core_product.cuh"
#include "tensor_core_writes.cuh"

static_assert(N_TILES * 8 == TILE_M * PIXELS_PER_ROW, "a product is 8 columns wide");
static_assert(STEPS * 8 >= WORD_C * WINDOW, "every term is in a step");
static_assert(!KEEP_W || (STEPS == 1 && CHUNKS == 1), "registers keep the weights of one step");

#if SPLIT_K > 1
#define CLUSTER __cluster_dims__(1, 1, SPLIT_K)
#else
#define CLUSTER
#endif

// Step i of a block: its set of images, and its channels. As expressions, since nvcc makes other code of the same functions.
#define SET(i) (blockIdx.x + (i) / OWN_CHUNKS * gridDim.x)
#define CHANNEL(i) (c_first + (i) % OWN_CHUNKS * STAGED_C)

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, MIN_BLOCKS)
conv_forward(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y,
             int B, int C_, int H_, int W_, int M_, int K_)   // all sizes but B are compile-time constants here
{
    SHARED_MEMORY(unsigned, staged, SHARED_WORDS);
    unsigned *const fragments = staged + STAGES * X_WORDS + OVERHANG, *const offsets = fragments + W_WORDS;
    float *const ring = (float *)(offsets + STEPS * 4), *const raw = ring + RING_WORDS;
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    const int sets = ceil_div(B, IMAGES), m_first = LOOP_M ? 0 : blockIdx.y * TILE_M;
    const int h_first = ROWS ? blockIdx.z / SPLIT_K * BLOCK_ROWS : 0;
    const int rows = H_OUT - h_first < BLOCK_ROWS ? H_OUT - h_first : BLOCK_ROWS;   // of an image, in this block
    x += h_first * LAYER_W;
    w += m_first * LAYER_C * FILTER;
    y += m_first * H_OUT * W_OUT + h_first * W_OUT;
    const int c_first = blockIdx.z % SPLIT_K * OWN_CHUNKS * STAGED_C;
    float sums[SUMS];

    // Of step i: how many images are left, its words, and where its sums go.
    const auto images_left = [=](int i) { return B - (int)SET(i) * IMAGES; };
    const auto x_buffer = [=](int i) { return staged + i % STAGES * X_WORDS; };
    const auto y_of = [=](int i) { return y + (size_t)SET(i) * IMAGES * LAYER_M * H_OUT * W_OUT; };
    const auto request = [=](int i) {
        if constexpr (ASYNC_W) request_w(raw, w, CHANNEL(i), LAYER_M - m_first);
        request_x(x_buffer(i), x + ((size_t)SET(i) * IMAGES * LAYER_C + CHANNEL(i)) * LAYER_H * LAYER_W, images_left(i),
                  LAYER_H - h_first);
    };

    // Prologue: the first words are on their way, tables and weights that stay are made.
    request(0);
#if PREFETCH
    prefetch_x(x, B);
#endif
    fill_offsets(offsets);
    if constexpr (!KEEP_W && STEPS * 8 > WORD_C * LAYER_K) {
        clear_w(fragments);
        __syncthreads();
    }
    unsigned kept[KEPT][FRAGMENT];
    if constexpr (KEEP_W) {
        const int first = warp % BLOCK_GROUPS * TILE_M;
        load_w(kept, w + first * LAYER_C * FILTER, LAYER_M - m_first - first);
    } else if constexpr (CHUNKS == 1) stage_w(fragments, w, LAYER_C * FILTER, LAYER_M - m_first);

    // Mainloop: a step is a part of the channels of a set of images; its words become operands, its tasks are multiplied.
    UNROLLED(1)
    for (int i = 0; i < BLOCK_STEPS && SET(i) < sets; i++) {
        if (STAGES == 1 && i > 0) {
            __syncthreads();   // the last one's words have been read
            request(i);
        }
        if constexpr (CHUNKS > 1 && !ASYNC_W) {
            if constexpr (STAGES == 2) __syncthreads();
            stage_w(fragments, w + CHANNEL(i) * FILTER, LAYER_C * FILTER, LAYER_M - m_first);
        }
        copy_async_wait_all();
        if constexpr (ASYNC_W) {
            __syncthreads();   // other threads' copies are there, and the last one's words have been read
            stage_w(fragments, (const float *)raw, RAW_PITCH, LAYER_M - m_first);
        }
        if constexpr (MMA_TYPE != MMA_TYPE_TF32X3) convert_x(x_buffer(i), images_left(i), LAYER_H - h_first);
        end_x(x_buffer(i), images_left(i));
        __syncthreads();
        if (STAGES == 2 && i + 1 < BLOCK_STEPS && SET(i + 1) < sets) request(i + 1);

        UNROLLED(1)
        for (int round = 0; round < ROUNDS; round++) {
            const int task = round * WARPS + warp,
                      group = KEEP_W ? warp % BLOCK_GROUPS : BLOCK_GROUPS > 1 ? task / COLUMN_TASKS : 0,
                      column = KEEP_W ? round * (WARPS / BLOCK_GROUPS) + warp / BLOCK_GROUPS : task - group * COLUMN_TASKS,
                      first = column * TILE_COLUMNS;
            const bool is_task = KEEP_W ? column < COLUMN_TASKS : task < TASKS;
            if (!TOGETHER && !is_task) break;
            int corners[OCTETS];
            unsigned image, row, at;
            UNROLLED(OCTETS)
            for (int j = 0; j < OCTETS; j++) {
                locate_column(first + (NEIGHBOURS ? g * OCTETS : j * 8 + g), &image, &row, &at);
                corners[j] = image * STAGED_C * PLANE + row * LAYER_W + at + (NEIGHBOURS ? j : 0);
            }
            if (i % OWN_CHUNKS == 0)
                UNROLLED(SUMS)
                for (int j = 0; j < SUMS; j++)
                    sums[j] = 0.0f;
            if (!TOGETHER || is_task)
                multiply(sums, x_buffer(i), corners, fragments + group * N_TILES * 32 * FRAGMENT, kept, offsets);
            if (i % OWN_CHUNKS < OWN_CHUNKS - 1) continue;

            // Epilogue: the sums of all channels are there.
            const int filters = LAYER_M - m_first - group * TILE_M;
            if constexpr (BULK) {
                bulk_wait_read();   // what the round before has finished
                __syncthreads();
                gather(ring, sums, first, filters);
                bulk_fence();
                __syncthreads();
                float *const set = y_of(i);
                if (warp == 0)
                    write_finished(set + group * TILE_M * H_OUT * W_OUT, ring, round % GROUP_ROUNDS, images_left(i), rows,
                                   LEAST(filters, TILE_M));
            } else {
                if constexpr (SPLIT_K > 1)
                    if (!add_up(sums, (float *)staged) || !is_task) break;
                write_task(y_of(i) + group * TILE_M * H_OUT * W_OUT, sums, first, images_left(i), rows, filters);
            }
        }
    }
    if constexpr (BULK) bulk_wait_read();
}
