// tensor_core: the convolution as a matrix product on tensor cores, without ever writing the unrolled matrix down.
//
// Matrix product: rows are output pixels, columns output channels, and the sum runs over the filter's terms (c, p, q).
// A warp multiplies 16 pixels x 8 terms by 8 terms x 8 channels at once (mma.sync). Lane (g, t) of the 8 x 4 lanes
// supplies the words of pixels g and g + 8 at terms t and t + 4. It reads them straight from the image in shared memory,
// at the pixel's corner plus the term's offset; offsets are a table, weights lie as the lanes want them. Terms are pairs
// (c, q): what a lane has read of an image row serves every filter row p in turn, since row p + 1 of an output row is
// row p of the next.
//
// Where C and K leave a step of 8 terms half empty, a row of the product can be SHIFTS neighbouring pixels: its columns are
// then (channel, shift), the filter moved on by a word for each. With C = 1 and K = 5, 4 shifts fill all 8 terms, 6 channels
// are 24 columns without a gap, each word of x is read a quarter as often, and lanes have neighbouring pixels to write.
//
// Thread -> output: a warp's task is TILE_ROWS rows x TILE_COLUMNS columns x TILE_M channels. Columns are counted through
// the IMAGES images (or the ROWS rows of one) that a block holds, so no tile ends at a row's end. The block owns all
// groups of TILE_M channels (GRID_LAYOUT B,1,1) or one (B,M,1), and handles SEQUENCE such sets of images one after the
// other; with 2 BUFFERS the next arrives while this one is multiplied.
// fa18/conv2, FP16X3, TILE 3x16x24: 6 pairs of channels x 7 are 42 terms, 6 steps (48). A step is 9 x 8 words of x and
// 7 x 3 x 4 of w a lane for 7 x 3 x 3 x 3 products of 16x8x16. An image of 27 rows has 9 x 27 columns, 16 tasks.
//
// Parameters
//   OPERANDS  what a word of shared memory holds, and so the accuracy; sums are always FP32
//     tf32x3  an FP32 number, split into two TF32 when read: 3 products, as accurate as FP32
//     fp16x3  two channels, each the sum of two FP16, in two words: 3 products for twice the terms, as accurate as FP32
//             where |x|, |w| < 65504 and not tiny        fp16x4  one channel so in one word: 2 instructions, 4 products
//     tf32    rounded to TF32: 1 product      fp16, bf16  two channels, each rounded: 1 product for twice the terms
//   WRITES     lanes exchange sums first, so that a store is TILE_COLUMNS of one row, or a lane has neighbouring columns,
//              or sums are gathered in shared memory until rows are whole, and copied in bulk during the next products
//   WEIGHTS    read from shared memory for each task, or kept in registers for all of a thread's tasks
//   BLOCK_SHAPE threads    MIN_BLOCKS resident at once    CHANNELS staged at once (0: all)    UNROLL  steps
//   STAGING    of w: through registers, or asynchronous, as it is, beside x, and then put where lanes read it
//   SHIFTS     pixels of a row of the product; with more than 1, x that is not finite spoils its neighbours too
//   SPLIT_C    blocks of a cluster that share out the input channels of the same outputs; the first adds up their sums
// Constraints: below, each with its reason.

#define UP(a, b) (((a) + (b) - 1) / (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define H_OUT (LAYER_H - LAYER_K + 1)
#define W_OUT (LAYER_W - LAYER_K + 1)
#define THREADS BLOCK_X
#define WARPS (THREADS / 32)
#define PAIRED (OPERANDS == OPERANDS_FP16X3 || OPERANDS == OPERANDS_FP16 || OPERANDS == OPERANDS_BF16)
#define PARTS (OPERANDS == OPERANDS_TF32X3 || OPERANDS == OPERANDS_FP16X3 ? 2 : 1)   // words of a factor: larger, smaller
#define PRODUCTS (PARTS == 2 ? 3 : OPERANDS == OPERANDS_FP16X4 ? 2 : 1)
#define BLOCK_ROWS (ROWS ? ROWS : H_OUT)
#define IN_ROWS (BLOCK_ROWS + LAYER_K - 1)
#define STAGED_C (CHANNELS ? CHANNELS : LAYER_C)
#define CHUNKS (LAYER_C / STAGED_C)
#define OWN_CHUNKS (CHUNKS / SPLIT_C)
#define WORD_C (PAIRED ? UP(STAGED_C, 2) : STAGED_C)
#define FILTER (LAYER_K * LAYER_K)
#define WINDOW (LAYER_K + SHIFTS - 1)   // words of an image row that the terms of a channel are
#define STEPS UP(WORD_C * WINDOW, 8)

#define OCTETS (TILE_COLUMNS / 8)   // two of them are the 16 pixels of a product
#define M_TILES (OCTETS / 2 * TILE_ROWS)
#define N_TILES (TILE_M * SHIFTS / 8)
#define ROW_TILES UP(BLOCK_ROWS, TILE_ROWS)
#define ROW_COLUMNS UP(W_OUT, SHIFTS)
#define COLUMNS (IMAGES * ROW_TILES * ROW_COLUMNS)
#define COLUMN_TASKS UP(COLUMNS, TILE_COLUMNS)
#define NEIGHBOURS (WRITES == WRITES_VECTOR && SHIFTS == 1)
#define STORED (SHIFTS > 1 && W_OUT % 2 == 0 ? 2 : 1)   // words at once, where a lane has neighbouring columns
#define BULK (WRITES == WRITES_BULK)
#define GROUPS UP(LAYER_M, TILE_M)
#define LOOP_M (GRID_LAYOUT == GRID_LAYOUT_B_1_1)
#define BLOCK_GROUPS (LOOP_M ? GROUPS : 1)
#define BLOCK_N_TILES (BLOCK_GROUPS * N_TILES)
#define TASKS (BLOCK_GROUPS * COLUMN_TASKS)
#define ROUNDS UP(TASKS, WARPS)
#define SUMS (4 * M_TILES * N_TILES)
#define READ_ROWS (TILE_ROWS + LAYER_K - 1)
#define FRAGMENT (2 * PARTS)
// fp16x4: a word of x and the same with its halves swapped meet w, or, where that moves fewer words, x meets halves of w.
#define SWAP_X (OPERANDS == OPERANDS_FP16X4 && OCTETS * READ_ROWS <= LAYER_K * N_TILES)
#define SPLIT_W (OPERANDS == OPERANDS_FP16X4 && !SWAP_X)
#define X_PARTS (SWAP_X ? 2 : PARTS)
#define KEEP_W (WEIGHTS == WEIGHTS_REGISTERS)
#define KEPT (KEEP_W ? LAYER_K * N_TILES : 1)
#define REGISTERS (SUMS + OCTETS / 2 * READ_ROWS * PARTS * 4 + KEPT * FRAGMENT + 40)

#define PLANE (IN_ROWS * LAYER_W)
#define RUN (ROWS == 0 ? PLANE : LAYER_W)   // words that lie together in x and here
#define RUNS (ROWS == 0 ? 1 : IN_ROWS)
#define LOAD_WIDTH (RUN % 4 == 0 ? 4 : RUN % 2 == 0 ? 2 : 1)
#define BEYOND (ROW_COLUMNS * SHIFTS - W_OUT)   // words read past a row, for pixels that are not written
#define X_WORDS (UP(IMAGES * STAGED_C * PLANE + BEYOND, 4) * 4)
#define OVERHANG ((ROW_TILES * TILE_ROWS - BLOCK_ROWS) * LAYER_W)   // read past an image for rows that are not written
#define W_WORDS (STEPS * LAYER_K * BLOCK_N_TILES * 32 * FRAGMENT)
#define W_CHANNELS (BLOCK_GROUPS * TILE_M)
#define W_COLUMNS (WORD_C * LAYER_K * W_CHANNELS)   // of all filters, or pairs of them
#define W_BATCH LEAST(UP(12, LAYER_K), UP(W_COLUMNS, THREADS))
// Gathered sums: of each channel a ring of row tiles, as many as a round touches; lanes t write to banks apart.
#define ROUND_COLUMNS (WARPS * TILE_COLUMNS)
#define ROW_TILE (TILE_ROWS * W_OUT)
#define ROUND_TILES (UP(ROUND_COLUMNS, ROW_COLUMNS) + 1)
#define RING LEAST(ROUND_TILES, IMAGES * ROW_TILES)
#define RING_BANKS (4 * SHIFTS)
#define RING_PITCH ((UP(RING * ROW_TILE + RING_BANKS, 2 * RING_BANKS) * 2 - 1) * RING_BANKS)
#define RING_CHANNELS LEAST(TILE_M, LAYER_M)
#define GROUP_ROUNDS UP(COLUMN_TASKS, WARPS)
#define RING_WORDS (BULK ? RING_CHANNELS * RING_PITCH : 0)
// Filters as they are in w, on their way to fragments, where they arrive with words of x.
#define RAW_W (STAGED_C * FILTER)
#define RAW_WIDTH (RAW_W % 4 == 0 && LAYER_C * FILTER % 4 == 0 ? 4 : RAW_W % 2 == 0 && LAYER_C * FILTER % 2 == 0 ? 2 : 1)
#define RAW_PITCH (UP(RAW_W, 4) * 4 + 4)
#define ASYNC_W (STAGING == STAGING_ASYNC)
#define RAW_WORDS (ASYNC_W ? W_CHANNELS * RAW_PITCH : 0)
#define SHARED_WORDS (BUFFERS * X_WORDS + UP(OVERHANG, 4) * 4 + W_WORDS + STEPS * 4 + RING_WORDS + RAW_WORDS)

REQUIRE(TENSOR_CORES, "this device has no tensor cores for TF32");
REQUIRE(THREADS <= MAX_THREADS, "a block has more threads than the device allows");
REQUIRE(ROWS < H_OUT, "this many rows are the whole image");
REQUIRE(ROWS == 0 || IMAGES == 1, "a block owns bands of one image, or whole images");
REQUIRE(TILE_M * SHIFTS % 8 == 0, "a product is 8 columns wide");
REQUIRE(6 * GROUPS * N_TILES <= 7 * UP(LAYER_M * SHIFTS, 8), "more than a seventh of the channels computed would hang over");
REQUIRE(TILE_ROWS == 1 || 6 * ROW_TILES * TILE_ROWS * UP(H_OUT, BLOCK_ROWS) <= 7 * H_OUT,
        "more than a seventh of the rows computed would hang over");
REQUIRE(TILE_COLUMNS == 16 || 6 * COLUMN_TASKS * TILE_COLUMNS <= 7 * COLUMNS,
        "more than a seventh of the columns computed would hang over");
REQUIRE(SHIFTS == 1 || STEPS == UP(WORD_C * LAYER_K, 8), "the shifted filter takes more steps than the filter");
REQUIRE(SHIFTS == 1 || WRITES != WRITES_EXCHANGE, "lanes have neighbouring columns already");
REQUIRE(6 * ROW_COLUMNS * SHIFTS <= 7 * W_OUT, "more than a seventh of the shifted columns would hang over");
REQUIRE(BEYOND == 0 || (ROWS == 0 && (!PAIRED || OPERANDS == OPERANDS_FP16X3)), "what follows a row of x is no operand");
REQUIRE(!NEIGHBOURS || W_OUT % OCTETS == 0, "a row does not end with a vector of sums");
REQUIRE(!BULK || BULK_COPIES, "this device does not copy in bulk");
REQUIRE(!BULK || (ROW_TILE % 4 == 0 && H_OUT * W_OUT % 4 == 0 && BLOCK_ROWS * W_OUT % 4 == 0),
        "rows to copy in bulk do not begin at multiples of 16 bytes");
REQUIRE(!BULK || BLOCK_GROUPS == 1 || COLUMN_TASKS % WARPS == 0, "sums are gathered of one group of channels at a time");
REQUIRE(LOOP_M || GROUPS > 1, "one group of channels is all of them");
REQUIRE(WARPS == 1 || 4 * ROUNDS * WARPS <= 5 * TASKS, "more than a fifth of the block's warps would idle");
REQUIRE(REGISTERS <= MAX_REGISTERS, "the warp's tile does not fit its registers");
REQUIRE(REGISTERS * THREADS * MIN_BLOCKS <= BLOCK_REGISTERS, "this many blocks do not fit the registers at once");
REQUIRE(MIN_BLOCKS == 1 || 5 * REGISTERS * THREADS * MIN_BLOCKS > 2 * BLOCK_REGISTERS,
        "the warp's tile is too small for a limit of registers to matter");
REQUIRE(CHANNELS < LAYER_C, "this many channels are all of them");
REQUIRE(CHANNELS == 0 || LAYER_C % STAGED_C == 0, "channels are staged in equal parts");
REQUIRE(!ASYNC_W || CHUNKS > 1, "filters that are staged once gain nothing by arriving asynchronously");
REQUIRE(CHUNKS == 1 || ROUNDS == 1, "sums kept from channel to channel allow one task a warp");
REQUIRE(OPERANDS != OPERANDS_FP16X3 || STAGED_C % 2 == 0, "channels come in pairs here");
REQUIRE(!KEEP_W || (STEPS == 1 && BLOCK_GROUPS == 1 && CHUNKS == 1), "registers keep the weights of one step and one group");
REQUIRE(SPLIT_C == 1 || CLUSTERS, "this device has no clusters of blocks");
REQUIRE(SPLIT_C == 1 || CHUNKS % SPLIT_C == 0, "the staged parts of the channels do not share out evenly");
REQUIRE(SPLIT_C == 1 || (SEQUENCE == 1 && !BULK), "sums of a cluster are added once, and written by lanes");
REQUIRE(SPLIT_C == 1 || SUMS * THREADS <= SHARED_WORDS, "the sums to add up do not fit where x and w were");
REQUIRE(BUFFERS == 1 || SEQUENCE * OWN_CHUNKS > 1, "a second buffer serves what comes next");
REQUIRE(SHARED_WORDS * 4 <= MAX_SHARED_BYTES, "the staged x and w do not fit shared memory");
REQUIRE(UNROLL == 1 || UNROLL < STEPS, "fewer steps than are unrolled");
REQUIRE(UNROLL * LAYER_K * N_TILES * M_TILES <= 256, "the unrolled steps hold more than 256 products");

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

// Which channel and filter column term k is; false for the terms that only fill up. PAIRED: c is the first of two.
__device__ __forceinline__ bool locate_term(int k, int *c, int *q)
{
    *q = k % WINDOW;
    *c = k / WINDOW * (PAIRED ? 2 : 1);
    return k < WORD_C * WINDOW;
}

// For lane t of step s: the offsets of terms t (low half) and t + 4 (high half) from a pixel's corner, in words.
__device__ __forceinline__ void fill_offsets(unsigned *offsets)
{
    for (int i = threadIdx.x; i < STEPS * 4; i += THREADS) {
        unsigned word = 0;
        UNROLLED(2)
        for (int half = 0; half < 2; half++) {
            int c, q;
            if (locate_term(i / 4 * 8 + i % 4 + half * 4, &c, &q))
                word |= (unsigned)(c * PLANE + q) << (16 * half);
        }
        offsets[i] = word;
    }
}

// Clear the words of w that stage_w leaves out: terms that only fill up.
__device__ __forceinline__ void clear_w(unsigned *fragments)
{
    const unsigned none[4] = {};
    for (int i = threadIdx.x * 4; i < W_WORDS; i += THREADS * 4)
        COPY(4, fragments + i, none);
}

// Ask for the filters of channels c_first on as they are; they arrive with the words of x that are asked for next.
__device__ __forceinline__ void request_w(float *raw, const float *w, int c_first, int filters)
{
    for (unsigned i = threadIdx.x; i < W_CHANNELS * (RAW_W / RAW_WIDTH); i += THREADS) {
        const unsigned m = i / (RAW_W / RAW_WIDTH), at = i % (RAW_W / RAW_WIDTH) * RAW_WIDTH;
        if ((int)m < filters)
            COPY_ASYNC(RAW_WIDTH, raw + m * RAW_PITCH + at, w + (m * LAYER_C + c_first) * FILTER + at);
    }
}

// Put filters as the lanes read them: [step][p][8 columns][lane][terms t, t + 4]. from: those of the first channel, pitch
// words apart. A thread reads some filters' columns before it uses the first: one by one they would wait for the L2 cache.
__device__ __forceinline__ void stage_w(unsigned *to, const float *from, int pitch, int filters)
{
#define LOCATE_W(j)                                                                                        \
    const unsigned i = begin + (j) * THREADS, q = i % LAYER_K, c = i / LAYER_K % WORD_C;                   \
    const unsigned m = i / LAYER_K / WORD_C
    UNROLLED(1)
    for (unsigned begin = threadIdx.x; begin < W_COLUMNS; begin += W_BATCH * THREADS) {
        float first[W_BATCH][LAYER_K] = {}, second[W_BATCH][LAYER_K] = {};
        UNROLLED(W_BATCH)
        for (int j = 0; j < W_BATCH; j++) {
            LOCATE_W(j);
            const float *const source = from + m * pitch + c * (PAIRED ? 2 : 1) * FILTER + q;
            UNROLLED(LAYER_K)
            for (int p = 0; i < W_COLUMNS && (int)m < filters && p < LAYER_K; p++) {
                first[j][p] = source[p * LAYER_K];
                if (PAIRED && c * 2 + 1 < STAGED_C) second[j][p] = source[p * LAYER_K + FILTER];
            }
        }
        UNROLLED(W_BATCH)
        for (int j = 0; j < W_BATCH; j++) {
            LOCATE_W(j);
            UNROLLED(SHIFTS)
            for (int shift = 0; i < W_COLUMNS && shift < SHIFTS; shift++) {
                const unsigned n = m * SHIFTS + shift, k = c * WINDOW + q + shift;
                unsigned *const target = to + (k / 8 * LAYER_K * BLOCK_N_TILES * 32 + n / 8 * 32 + n % 8 * 4 + k % 4) * FRAGMENT
                                            + k / 4 % 2;
                UNROLLED(LAYER_K)
                for (int p = 0; p < LAYER_K; p++) {
                    target[p * BLOCK_N_TILES * 32 * FRAGMENT] = larger(first[j][p], second[j][p]);
                    if (PARTS == 2) target[p * BLOCK_N_TILES * 32 * FRAGMENT + 2] = smaller(first[j][p], second[j][p]);
                }
            }
        }
    }
}

// Do for each few words that this thread copies: of an image's channel c (or c and the next) and row, from column at on.
#define FOR_EACH_COPY(images, rows)                                                                             \
    for (int i = threadIdx.x; i < IMAGES * WORD_C * RUNS * (RUN / LOAD_WIDTH); i += THREADS)                    \
        if (const int run = i / (RUN / LOAD_WIDTH), row = run % RUNS, at = i % (RUN / LOAD_WIDTH) * LOAD_WIDTH, \
            c = run / RUNS % WORD_C * (PAIRED ? 2 : 1), image = run / RUNS / WORD_C;                            \
            image < (images) && row < (rows))

// Ask for channels c_first on of a set of images; they arrive later.
__device__ __forceinline__ void request_x(unsigned *to, const float *x, int images, int rows)
{
    FOR_EACH_COPY(images, rows) {
        float *target = (float *)to + (image * STAGED_C + c) * PLANE + row * LAYER_W + at;
        const float *source = x + ((image * LAYER_C + c) * LAYER_H + row) * LAYER_W + at;
        COPY_ASYNC(LOAD_WIDTH, target, source);
        if (PAIRED && c + 1 < STAGED_C) COPY_ASYNC(LOAD_WIDTH, target + PLANE, source + LAYER_H * LAYER_W);
    }
    COPY_ASYNC_COMMIT();
}

// Turn what this thread has copied into operands, in place.
__device__ __forceinline__ void convert_x(unsigned *staged, int images, int rows)
{
    FOR_EACH_COPY(images, rows) {
        unsigned *words = staged + (image * STAGED_C + c) * PLANE + row * LAYER_W + at;
        float first[LOAD_WIDTH], second[LOAD_WIDTH] = {};
        unsigned large[LOAD_WIDTH], small[LOAD_WIDTH];
        COPY(LOAD_WIDTH, first, (float *)words);
        if (PAIRED && c + 1 < STAGED_C) COPY(LOAD_WIDTH, second, (float *)words + PLANE);
        UNROLLED(LOAD_WIDTH)
        for (int j = 0; j < LOAD_WIDTH; j++) {
            large[j] = larger(first[j], second[j]);
            small[j] = smaller(first[j], second[j]);
        }
        COPY(LOAD_WIDTH, words, large);
        if (OPERANDS == OPERANDS_FP16X3) COPY(LOAD_WIDTH, words + PLANE, small);
    }
}

// Set words to 0 that follow the last image in a buffer: a row's last pixels read on, times 0.
__device__ __forceinline__ void end_x(unsigned *staged, int images)
{
    for (int image = LEAST(images, IMAGES); BEYOND && image <= IMAGES && threadIdx.x < BEYOND; image++)
        staged[image * STAGED_C * PLANE + threadIdx.x] = 0;
}

// Where a column of the block begins: its image, and row and column in there. Past the last: the first.
__device__ __forceinline__ void locate_column(unsigned column, unsigned *image, unsigned *row, unsigned *at)
{
    column = column < COLUMNS ? column : 0;
    *image = column / (ROW_TILES * ROW_COLUMNS);
    *row = column / ROW_COLUMNS % ROW_TILES * TILE_ROWS;
    *at = column % ROW_COLUMNS * SHIFTS;
}

// The lane's words of w for filter row p and 8 channels n of a step; w: the group's first fragment.
__device__ __forceinline__ void read_w(unsigned *to, const unsigned *w, int step, int p, int n)
{
    COPY(FRAGMENT, to, w + (((step * LAYER_K + p) * BLOCK_N_TILES + n) * 32 + threadIdx.x % 32) * FRAGMENT);
}

// Add all staged terms' products to a task's sums. corners: of the lane's columns; kept: words of w, if registers hold them.
__device__ __forceinline__ void multiply(float *sums, const unsigned *x, const int *corners, const unsigned *w,
                                         const unsigned (*kept)[FRAGMENT], const unsigned *offsets)
{
    UNROLLED(UNROLL)
    for (int step = 0; step < STEPS; step++) {
        const unsigned both = offsets[step * 4 + threadIdx.x % 4];
        const unsigned *near = x + (both & 0xffff), *far = x + (both >> 16);
        unsigned a[OCTETS / 2][READ_ROWS][X_PARTS][4];
        UNROLLED(OCTETS / 2)
        for (int j = 0; j < OCTETS / 2; j++)
            UNROLLED(READ_ROWS)
            for (int row = 0; row < READ_ROWS; row++)
                UNROLLED(4)
                for (int i = 0; i < 4; i++) {
                    const unsigned *word = (i < 2 ? near : far) + corners[2 * j + i % 2] + row * LAYER_W;
#if OPERANDS == OPERANDS_TF32X3
                    a[j][row][0][i] = larger(__uint_as_float(*word), 0.0f);
                    a[j][row][1][i] = smaller(__uint_as_float(*word), 0.0f);
#else
                    UNROLLED(PARTS)
                    for (int part = 0; part < PARTS; part++)
                        a[j][row][part][i] = word[part * PLANE];
                    if (SWAP_X) a[j][row][1][i] = __byte_perm(*word, 0, 0x1032);
#endif
                }
        UNROLLED(LAYER_K)
        for (int p = 0; p < LAYER_K; p++)
            UNROLLED(N_TILES)
            for (int n = 0; n < N_TILES; n++) {
                unsigned read[FRAGMENT];
                if (!KEEP_W) read_w(read, w, step, p, n);
                const unsigned *b = KEEP_W ? kept[p * N_TILES + n] : read;
                UNROLLED(PRODUCTS)
                for (int product = 0; product < PRODUCTS; product++)
                    UNROLLED(OCTETS / 2)
                    for (int j = 0; j < OCTETS / 2; j++)
                        UNROLLED(TILE_ROWS)
                        for (int h = 0; h < TILE_ROWS; h++)
                            multiply_add(product, sums + ((j * TILE_ROWS + h) * N_TILES + n) * 4, a[j][h + p], b);
            }
    }
}

// Exchange values between lanes t: from one channel's value in each octet to each channel's in one octet.
__device__ __forceinline__ void exchange(float *values, int t)
{
    UNROLLED(2)
    for (int bit = 1; bit < OCTETS; bit *= 2)
        UNROLLED(OCTETS)
        for (int j = 0; j < OCTETS; j++)
            if (!(j & bit)) {
                const float taken = __shfl_xor_sync(0xffffffff, t & bit ? values[j] : values[j | bit], bit);
                if (t & bit) values[j] = taken;
                else values[j | bit] = taken;
            }
}

// Where a column's first pixel of channel 0 lies in y, and how many of its rows are to be written.
__device__ __forceinline__ float *locate_y(float *y, unsigned column, int images, int rows, unsigned *at, int *height)
{
    unsigned image, row;
    locate_column(column, &image, &row, at);
    *height = column < COLUMNS && (int)image < images ? rows - (int)row : 0;
    return y + (image * LAYER_M * H_OUT + row) * W_OUT + *at;   // a set of images has less than 2^32 words
}

// Which of a tile's rows and channels are written; what never hangs over is not asked for.
#define HAS_ROW(h) (H_OUT % BLOCK_ROWS || BLOCK_ROWS % TILE_ROWS ? (h) < height : height > 0)
#define HAS_CHANNEL(m) (LAYER_M % TILE_M == 0 || (int)(m) < filters)

// Write a task's sums to y, the first channel of the group in the set of images.
__device__ __forceinline__ void write_task(float *y, float *sums, int first, int images, int rows, int filters)
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    unsigned at;
    int height;
#if SHIFTS > 1
    const unsigned lane_m = t * 2 / SHIFTS, lane_shift = t * 2 % SHIFTS;
    UNROLLED(OCTETS)
    for (int j = 0; j < OCTETS; j++) {
        float *const target = locate_y(y, first + j * 8 + g, images, rows, &at, &height)
                                + lane_m * H_OUT * W_OUT + lane_shift;
        UNROLLED(TILE_ROWS)
        for (int h = 0; h < TILE_ROWS; h++)
            UNROLLED(N_TILES)
            for (int n = 0; n < N_TILES; n++)
                UNROLLED(2 / STORED)
                for (int i = 0; i < 2; i += STORED) {
                    const int m = n * 8 / SHIFTS;
                    if (HAS_ROW(h) && HAS_CHANNEL(m + lane_m) && (BEYOND == 0 || at + lane_shift + i < W_OUT))
                        STREAM(STORED, &target[(m * H_OUT + h) * W_OUT + i],
                               &sums[((j / 2 * TILE_ROWS + h) * N_TILES + n) * 4 + j % 2 * 2 + i]);
                }
    }
#else
    const unsigned lane_m = NEIGHBOURS ? t * 2 : t / OCTETS * OCTETS * 2;
    float *const target = locate_y(y, first + (NEIGHBOURS ? g * OCTETS : t % OCTETS * 8 + g), images, rows, &at, &height)
                            + lane_m * H_OUT * W_OUT;
    UNROLLED(TILE_ROWS)
    for (int h = 0; h < TILE_ROWS; h++)
        UNROLLED(2 * N_TILES)
        for (int n = 0; n < 2 * N_TILES; n++) {   // channels 2t and 2t + 1 of every 8, before lanes exchange
            float values[OCTETS];
            UNROLLED(OCTETS)
            for (int j = 0; j < OCTETS; j++)
                values[j] = sums[((j / 2 * TILE_ROWS + h) * N_TILES + n / 2) * 4 + j % 2 * 2 + n % 2];
            if (!NEIGHBOURS) exchange(values, t);
            UNROLLED(NEIGHBOURS ? 1 : OCTETS)
            for (int j = 0; j < (NEIGHBOURS ? 1 : OCTETS); j++) {
                const int m = n / 2 * 8 + n % 2 + j * 2;
                if (HAS_ROW(h) && HAS_CHANNEL(m + lane_m))
                    STREAM(NEIGHBOURS ? OCTETS : 1, &target[(m * H_OUT + h) * W_OUT], &values[j]);
            }
        }
#endif
}

#if BULK_COPIES
// Keep a task's sums in the ring until their rows are whole. filters: channels that there are.
__device__ __forceinline__ void gather(float *ring, const float *sums, int first, int filters)
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int lane_m = t * 2 / SHIFTS, lane_shift = t * 2 % SHIFTS;
    UNROLLED(OCTETS)
    for (int j = 0; j < OCTETS; j++) {
        const int column = first + j * 8 + g, at = column % ROW_COLUMNS * SHIFTS + lane_shift;
        float *const target = ring + column / ROW_COLUMNS % RING * ROW_TILE + lane_m * RING_PITCH + at;
        UNROLLED(2 * N_TILES / STORED)
        for (int n = 0; n < 2 * N_TILES; n += STORED) {
            const int m = n / 2 * 8 / SHIFTS + (SHIFTS == 1 ? n % 2 : 0), shift = SHIFTS == 1 ? 0 : n % 2;
            UNROLLED(TILE_ROWS)
            for (int h = 0; h < TILE_ROWS; h++)
                if (column < COLUMNS && HAS_CHANNEL(m + lane_m) && (BEYOND == 0 || at + shift < W_OUT))
                    COPY(STORED, &target[m * RING_PITCH + h * W_OUT + shift],
                         &sums[((j / 2 * TILE_ROWS + h) * N_TILES + n / 2) * 4 + j % 2 * 2 + n % 2]);
        }
    }
}

// Copy the rows that a round has finished to y, a lane each channel; a run ends with an image or the ring.
__device__ __forceinline__ void write_finished(float *y, const float *ring, int round, int images, int rows, int filters)
{
    const int ended = (round + 1) * ROUND_COLUMNS < COLUMNS ? (round + 1) * ROUND_COLUMNS / ROW_COLUMNS
                                                               : IMAGES * ROW_TILES;
    for (int m = threadIdx.x; m < filters; m += 32)
        UNROLLED(1)
        for (int tile = round * ROUND_COLUMNS / ROW_COLUMNS, next; tile < ended; tile = next) {
            const int image = tile / ROW_TILES, row = tile % ROW_TILES * TILE_ROWS;
            next = LEAST(ended, LEAST((image + 1) * ROW_TILES, (tile / RING + 1) * RING));
            const int height = LEAST(rows - row, (next - tile) * TILE_ROWS);
            if (image < images && height > 0)
                BULK_STORE(y + (((size_t)image * LAYER_M + m) * H_OUT + row) * W_OUT,
                           ring + m * RING_PITCH + tile % RING * ROW_TILE, height * W_OUT * 4);
        }
    BULK_COMMIT();
}
#endif

#if SPLIT_C > 1
#define CLUSTER __cluster_dims__(1, 1, SPLIT_C)

// Add the cluster's sums up in its first block, by way of the shared memory where x and w were; true for that block.
__device__ __forceinline__ bool add_up(float *sums, float *shared)
{
    const int block = blockIdx.z % SPLIT_C;
    float *const own = shared + threadIdx.x;
    __syncthreads();
    for (int j = 0; block > 0 && j < SUMS; j++)
        own[j * THREADS] = sums[j];
    CLUSTER_SYNC();
    UNROLLED(1)
    for (int other = 1; block == 0 && other < SPLIT_C; other++)
        UNROLLED(SUMS)
        for (int j = 0; j < SUMS; j++) {
            float sum;
            CLUSTER_LOAD(sum, other, own + j * THREADS);
            sums[j] += sum;
        }
    CLUSTER_SYNC();   // a block's shared memory lasts until it has been read
    return block == 0;
}
#else
#define CLUSTER
#endif

__global__ void CLUSTER __launch_bounds__(THREADS, MIN_BLOCKS)
conv_forward(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y,
             int B, int C_, int H_, int W_, int M_, int K_)   // all sizes but B are compile-time constants here
{
    SHARED_MEMORY(unsigned, staged, SHARED_WORDS);
    unsigned *const fragments = staged + BUFFERS * X_WORDS + UP(OVERHANG, 4) * 4, *const offsets = fragments + W_WORDS;
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    const int sets = UP(B, IMAGES), h_first = ROWS ? blockIdx.z / SPLIT_C * BLOCK_ROWS : 0, m_first = LOOP_M ? 0 : blockIdx.y * TILE_M;
    const int rows = H_OUT - h_first < BLOCK_ROWS ? H_OUT - h_first : BLOCK_ROWS;   // of an image, in this block
    x += h_first * LAYER_W;
    w += m_first * LAYER_C * LAYER_K * LAYER_K;
    y += m_first * H_OUT * W_OUT + h_first * W_OUT;
    const int c_first = blockIdx.z % SPLIT_C * OWN_CHUNKS * STAGED_C;
    float sums[SUMS];

// The set of images that step i of the block is about, its x, and how many images are left from it on.
#define SET(i) (blockIdx.x + (i) / OWN_CHUNKS * gridDim.x)
#define C(i) (c_first + (i) % OWN_CHUNKS * STAGED_C)
#define SET_X(i) (x + ((size_t)SET(i) * IMAGES * LAYER_C + C(i)) * LAYER_H * LAYER_W)
#define IMAGES_LEFT(i) (B - (int)SET(i) * IMAGES)
#define RING_BUFFER ((float *)(offsets + STEPS * 4))
#define RAW_BUFFER (RING_BUFFER + RING_WORDS)
#define X_BUFFER(i) (staged + (i) % BUFFERS * X_WORDS)
#define IS_STEP(i) ((i) < SEQUENCE * OWN_CHUNKS && SET(i) < sets)

    if (ASYNC_W) request_w(RAW_BUFFER, w, C(0), LAYER_M - m_first);
    request_x(X_BUFFER(0), SET_X(0), IMAGES_LEFT(0), LAYER_H - h_first);
    fill_offsets(offsets);
    if (STEPS * 8 > WORD_C * LAYER_K) {
        clear_w(fragments);
        __syncthreads();
    }
    if (CHUNKS == 1) stage_w(fragments, w, LAYER_C * FILTER, LAYER_M - m_first);
    UNROLLED(1)
    for (int i = 0; IS_STEP(i); i++) {
        if (BUFFERS == 1 && i > 0) {
            __syncthreads();   // the last one's words have been read
            if (ASYNC_W) request_w(RAW_BUFFER, w, C(i), LAYER_M - m_first);
            request_x(X_BUFFER(i), SET_X(i), IMAGES_LEFT(i), LAYER_H - h_first);
        }
        if (CHUNKS > 1 && !ASYNC_W) {
            if (BUFFERS == 2) __syncthreads();
            stage_w(fragments, w + C(i) * FILTER, LAYER_C * FILTER, LAYER_M - m_first);
        }
        COPY_ASYNC_WAIT(0);
        if (ASYNC_W) {
            __syncthreads();   // other threads' copies are there, and the last one's words have been read
            stage_w(fragments, RAW_BUFFER, RAW_PITCH, LAYER_M - m_first);
        }
        if (OPERANDS != OPERANDS_TF32X3) convert_x(X_BUFFER(i), IMAGES_LEFT(i), LAYER_H - h_first);
        end_x(X_BUFFER(i), IMAGES_LEFT(i));
        __syncthreads();
        if (BUFFERS == 2 && IS_STEP(i + 1)) {
            if (ASYNC_W) request_w(RAW_BUFFER, w, C(i + 1), LAYER_M - m_first);
            request_x(X_BUFFER(i + 1), SET_X(i + 1), IMAGES_LEFT(i + 1), LAYER_H - h_first);
        }

        unsigned kept[KEPT][FRAGMENT];
        UNROLLED(KEPT)
        for (int n = 0; KEEP_W && n < KEPT; n++)
            read_w(kept[n], fragments, 0, n / N_TILES, n % N_TILES);
        UNROLLED(1)
        for (int round = 0; round < ROUNDS; round++) {
            const int task = round * WARPS + warp, group = BLOCK_GROUPS > 1 ? task / COLUMN_TASKS : 0,
                      first = (task - group * COLUMN_TASKS) * TILE_COLUMNS;
            if (!BULK && SPLIT_C == 1 && task >= TASKS) break;
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
            if ((!BULK && SPLIT_C == 1) || task < TASKS)
                multiply(sums, X_BUFFER(i), corners, fragments + group * N_TILES * 32 * FRAGMENT, kept, offsets);
            if (i % OWN_CHUNKS < OWN_CHUNKS - 1) continue;
            const int filters = LAYER_M - m_first - group * TILE_M;
#if BULK_COPIES
            if (BULK) {
                BULK_WAIT_READ();   // what the round before has finished
                __syncthreads();
                gather(RING_BUFFER, sums, first, filters);
                BULK_FENCE();
                __syncthreads();
                float *const set = y + (size_t)SET(i) * IMAGES * LAYER_M * H_OUT * W_OUT;
                if (warp == 0)
                    write_finished(set + group * TILE_M * H_OUT * W_OUT, RING_BUFFER, round % GROUP_ROUNDS, IMAGES_LEFT(i), rows,
                                   LEAST(filters, TILE_M));
                continue;
            }
#endif
#if SPLIT_C > 1
            if (!add_up(sums, (float *)staged) || task >= TASKS) break;
#endif
            write_task(y + (size_t)SET(i) * IMAGES * LAYER_M * H_OUT * W_OUT + group * TILE_M * H_OUT * W_OUT, sums, first,
                       IMAGES_LEFT(i), rows, filters);
        }
    }
#if BULK_COPIES
    if (BULK) BULK_WAIT_READ();
#endif
}
