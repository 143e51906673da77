// tensor_core: the sizes that follow from layer and parameters, named as in tensor_core.py, and what they must fulfil.

#include "layer_sizes.cuh"

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
#define SUM(j, h, n) sums[(((j) / 2 * TILE_ROWS + (h)) * N_TILES + (n) / 2) * 4 + (j) % 2 * 2 + (n) % 2]   // of a lane's octet j
#define READ_ROWS (TILE_ROWS + LAYER_K - 1)
#define FRAGMENT (2 * PARTS)
// fp16x4: a word of x and the same with its halves swapped meet w, or, where that moves fewer words, x meets halves of w.
#define SWAP_X (OPERANDS == OPERANDS_FP16X4 && OCTETS * READ_ROWS <= LAYER_K * N_TILES)
#define SPLIT_W (OPERANDS == OPERANDS_FP16X4 && !SWAP_X)
#define X_PARTS (SWAP_X ? 2 : PARTS)
#define KEEP_W (WEIGHTS == WEIGHTS_REGISTERS)
#define KEPT (KEEP_W ? LAYER_K * N_TILES : 1)
#define SHARE 8   // sets of images whose x one block asks for, ahead
#define REGISTERS (SUMS + OCTETS / 2 * READ_ROWS * PARTS * 4 + KEPT * FRAGMENT + 40)

#define PLANE (IN_ROWS * LAYER_W)
#define RUN (ROWS == 0 ? PLANE : LAYER_W)   // words that lie together in x and here
#define RUNS (ROWS == 0 ? 1 : IN_ROWS)
#define LOAD_WIDTH (RUN % 4 == 0 ? 4 : RUN % 2 == 0 ? 2 : 1)
#define BEYOND (ROW_COLUMNS * SHIFTS - W_OUT)   // words read past a row, for pixels that are not written
#define X_WORDS (UP(IMAGES * STAGED_C * PLANE + BEYOND, 4) * 4)
#define OVERHANG ((ROW_TILES * TILE_ROWS - BLOCK_ROWS) * LAYER_W)   // read past an image for rows that are not written
#define W_WORDS (KEEP_W ? 0 : STEPS * LAYER_K * BLOCK_N_TILES * 32 * FRAGMENT)
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
REQUIRE(BULK_COPIES || (!BULK && !PREFETCH), "this device does not copy in bulk");
REQUIRE(!BULK || (ROW_TILE % 4 == 0 && H_OUT * W_OUT % 4 == 0 && BLOCK_ROWS * W_OUT % 4 == 0),
        "rows to copy in bulk do not begin at multiples of 16 bytes");
REQUIRE(!BULK || BLOCK_GROUPS == 1 || (COLUMN_TASKS % WARPS == 0 && !KEEP_W), "sums are gathered of one group of channels at a time");
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
REQUIRE(!KEEP_W || (STEPS == 1 && CHUNKS == 1), "registers keep the weights of one step");
REQUIRE(!KEEP_W || WARPS % BLOCK_GROUPS == 0, "each warp keeps the weights of one group of channels");
REQUIRE(SPLIT_C == 1 || CLUSTERS, "this device has no clusters of blocks");
REQUIRE(SPLIT_C == 1 || CHUNKS % SPLIT_C == 0, "the staged parts of the channels do not share out evenly");
REQUIRE(SPLIT_C == 1 || (SEQUENCE == 1 && !BULK), "sums of a cluster are added once, and written by lanes");
REQUIRE(SPLIT_C == 1 || SUMS * THREADS <= SHARED_WORDS, "the sums to add up do not fit where x and w were");
REQUIRE(!PREFETCH || (ROWS == 0 && CHUNKS == 1 && LOOP_M && SEQUENCE == 1),
        "a block asks ahead for whole images of blocks to come");
REQUIRE(BUFFERS == 1 || SEQUENCE * OWN_CHUNKS > 1, "a second buffer serves what comes next");
REQUIRE(SHARED_WORDS * 4 <= MAX_SHARED_BYTES, "the staged x and w do not fit shared memory");
REQUIRE(UNROLL == 1 || UNROLL < STEPS, "fewer steps than are unrolled");
REQUIRE(UNROLL * LAYER_K * N_TILES * M_TILES <= 256, "the unrolled steps hold more than 256 products");
