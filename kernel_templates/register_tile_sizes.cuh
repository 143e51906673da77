// register_tile: the sizes that follow from layer and parameters, named as in register_tile.py, and what they must fulfil.

#include "layer_sizes.cuh"

#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define WIDEST(a, b) (VECTOR >= 4 && (a) % 4 == 0 && (b) % 4 == 0 ? 4 : VECTOR >= 2 && (a) % 2 == 0 && (b) % 2 == 0 ? 2 : 1)
#define THREADS BLOCK_X
#define BLOCK_ROWS (ROWS ? ROWS : H_OUT)
#define IN_ROWS (BLOCK_ROWS + LAYER_K - 1)
#define STRIPS UP(W_OUT, TILE_W)
#define ROW_TILES UP(BLOCK_ROWS, TILE_H)
#define GROUPS UP(LAYER_M, TILE_M)
#define LOOP_M (GRID_LAYOUT == GRID_LAYOUT_B_1_1)
#define BLOCK_GROUPS (LOOP_M ? GROUPS : 1)
#define IMAGE_TASKS (STRIPS * ROW_TILES)
#define GROUP_TASKS (IMAGES * IMAGE_TASKS)
#define TASKS (BLOCK_GROUPS * GROUP_TASKS)
#define ROUNDS UP(TASKS, THREADS)
#define SUMS (TILE_H * TILE_W * TILE_M)
#define SLIDE_H (TILE_H > TILE_W)
#define READ_H (TILE_H + (SLIDE_H ? LAYER_K - 1 : 0))       // rows and columns of x held at once
#define READ_W (SLIDE_H ? TILE_W : UP(TILE_W + LAYER_K - 1, X_WIDTH) * X_WIDTH)
#define REGISTERS (SUMS + (SLIDE_H ? READ_H * TILE_W : TILE_H * (TILE_W + LAYER_K - 1)) + (TILE_M < 8 ? TILE_M : 8) + 20)

#define STAGED_C (CHANNELS ? CHANNELS : LAYER_C)
#define CHUNKS (LAYER_C / STAGED_C)
#define ASYNC (STAGING == STAGING_ASYNC)
#define BUFFERS (ASYNC && CHUNKS > 1 ? 2 : 1)
#define PITCH (ROW_PITCH == ROW_PITCH_PACKED ? LAYER_W : ROW_PITCH == ROW_PITCH_ODD ? LAYER_W | 1 : UP(LAYER_W + 1, 4) * 4)
#define PLANE (IN_ROWS * PITCH)
#define WHOLE (ROWS == 0 && PITCH == LAYER_W)   // an image's staged channels are one run of words, else a run is a row
#define RUN (WHOLE ? STAGED_C * LAYER_H * LAYER_W : LAYER_W)
#define RUNS (WHOLE ? 1 : STAGED_C * IN_ROWS)
#define X_WORDS (UP(IMAGES * STAGED_C * PLANE, 4) * 4)
#define OVERHANG (UP((ROW_TILES * TILE_H - BLOCK_ROWS) * PITCH + MAX_OF(0, STRIPS * TILE_W + LAYER_K + 2 - PITCH), 4) * 4)
#define M_WORDS (TILE_M < 3 ? TILE_M : UP(TILE_M, 4) * 4)   // channels of a group in shared memory
#define M_WIDTH (TILE_M < 3 ? TILE_M : 4)
#define W_PITCH (BLOCK_GROUPS * M_WORDS + (BLOCK_GROUPS * M_WORDS % 8 == 0 ? 4 : 0))   // spreads the transposed writes
#define STAGE_W (WEIGHTS == WEIGHTS_SHARED)
#define W_WORDS (STAGE_W ? UP(STAGED_C * FILTER * W_PITCH, 4) * 4 : 0)
#define SHARED_WORDS (BUFFERS * (X_WORDS + W_WORDS) + OVERHANG)

#define LOAD_WIDTH (WHOLE ? WIDEST(RUN, RUN) : WIDEST(LAYER_W, PITCH))
#define X_WIDTH (SLIDE_H || X_READS == X_READS_EACH ? 1 : WIDEST(TILE_W, PITCH))
#define Y_WIDTH WIDEST(TILE_W, W_OUT)

REQUIRE(THREADS <= MAX_THREADS, "a block has more threads than the device allows");
REQUIRE(THREADS >= WARP, "a block does not fill one warp");
REQUIRE(TILE_W <= W_OUT && TILE_H <= BLOCK_ROWS && TILE_M <= LAYER_M, "the thread's tile is larger than the output");
REQUIRE(ROWS < H_OUT, "this many rows are the whole image");
REQUIRE(ROWS == 0 || WARP == 1 || 2 * STAGED_C * LAYER_H * LAYER_W * 4 > MAX_SHARED_BYTES,
        "bands of rows serve images that fill half of the shared memory");
REQUIRE(ROWS == 0 || IMAGES == 1, "a block owns bands of one image, or whole images");
REQUIRE(6 * STRIPS * TILE_W <= 7 * W_OUT, "more than a seventh of the columns computed would hang over");
REQUIRE(6 * ROW_TILES * TILE_H * UP(H_OUT, BLOCK_ROWS) <= 7 * H_OUT, "more than a seventh of the rows computed would hang over");
REQUIRE(6 * GROUPS * TILE_M <= 7 * LAYER_M, "more than a seventh of the channels computed would hang over");
REQUIRE(LOOP_M || GROUPS > 1, "one group of channels is all of them");
REQUIRE(THREADS == WARP || 7 * ROUNDS * THREADS <= 8 * TASKS, "more than an eighth of the block's threads would idle");
REQUIRE(TILE_W <= 2 || TILE_H <= 2, "a tile longer than 2 pixels both ways holds more words than it reuses");
REQUIRE(SUMS >= 4, "with fewer than 4 sums a thread this is the shared_tile template");
REQUIRE(REGISTERS <= MAX_REGISTERS, "the thread's tile does not fit its registers");
REQUIRE(REGISTERS * THREADS * MIN_BLOCKS <= BLOCK_REGISTERS, "this many blocks do not fit the registers at once");
REQUIRE(MIN_BLOCKS == 1 || 5 * REGISTERS * THREADS * MIN_BLOCKS > 2 * BLOCK_REGISTERS,
        "the thread's tile is too small for a limit of registers to matter");
REQUIRE(CHANNELS < LAYER_C, "this many channels are all of them");
REQUIRE(CHANNELS == 0 || LAYER_C % STAGED_C == 0, "channels are staged in equal parts");
REQUIRE(CHANNELS == 0 || ASYNC || WARP == 1, "parts of the channels gain by arriving while others are multiplied");
REQUIRE(CHUNKS == 1 || ROUNDS == 1, "sums kept from channel to channel allow one task a thread");
REQUIRE(WEIGHTS != WEIGHTS_GLOBAL || WARP == 1, "a warp reads w faster from shared or constant memory");
REQUIRE(!ASYNC || WARP > 1, "this device copies to shared memory through registers alone");
REQUIRE(MIN_BLOCKS == 1 || WARP > 1, "this device has no limit of registers to set");
REQUIRE(WARP > 1 || ROW_PITCH == ROW_PITCH_PACKED, "this device's shared memory has no banks");
REQUIRE(X_READS == X_READS_SLIDE || WARP == 1, "this device's threads have no vectors to read x in");
REQUIRE(X_READS == X_READS_SLIDE || (!SLIDE_H && TILE_W >= 4), "a vector of x lies along W and has at least 4 words");
REQUIRE(ROW_PITCH != ROW_PITCH_ODD || LAYER_W % 2 == 0, "rows of x are odd already");
REQUIRE(ROW_PITCH != ROW_PITCH_PADDED || X_WIDTH == 4, "padded rows serve reads of 4 words");
REQUIRE(VECTOR == 1 || LOAD_WIDTH == VECTOR || X_WIDTH == VECTOR || Y_WIDTH == VECTOR,
        "no copy is aligned to this many words");
REQUIRE(WEIGHTS != WEIGHTS_CONSTANT || LAYER_M * LAYER_C * FILTER * 4 <= MAX_CONSTANT_BYTES,
        "the weights do not fit constant memory");
REQUIRE(SHARED_WORDS * 4 <= MAX_SHARED_BYTES, "the staged x and w do not fit shared memory");
REQUIRE(UNROLL == UNROLL_ROW || LAYER_K > 1, "a 1x1 filter has nothing to unroll");
REQUIRE((UNROLL == UNROLL_FILTER ? FILTER : LAYER_K) * SUMS <= 4096, "the unrolled loops are longer than 4096 terms");
