// warpgroup: the sizes that follow from layer and parameters, named as in warpgroup.py, and what they must fulfil.

#include "layer_sizes.cuh"

#define THREADS BLOCK_X
#define WARPGROUPS ((THREADS - LOADERS) / 128)   // that multiply
#define STAGERS (LOADERS ? LOADERS : THREADS)    // threads that stage what comes next
#define PARTS (OPERANDS == OPERANDS_FP16X3 ? 2 : 1)   // of a factor: larger, smaller
#define PRODUCTS (PARTS == 2 ? 3 : 1)
#define UNIT_C (OPERANDS == OPERANDS_TF32 ? 4 : 8)    // channels in a unit of 16 bytes; a product takes two units
#define STAGED_C (CHANNELS ? CHANNELS : LAYER_C)
#define CHUNKS UP(LAYER_C, STAGED_C)
#define C_UNITS (UP(STAGED_C, 2 * UNIT_C) * 2)
#define GROUPS UP(LAYER_M, TILE_M)
#define HAS_CHANNEL(c) ((LAYER_C % STAGED_C == 0 && STAGED_C % (2 * UNIT_C) == 0) || (c) < LAYER_C)

// A row of the product is SHIFTS neighbouring pixels. Pixels are counted through the rows of x (filled up to whole numbers of
// SHIFTS), those at a row's end too, where no output is: so a filter's term is the same step for all of them.
#define COLUMNS (TILE_M * SHIFTS)
#define TERMS (LAYER_K + SHIFTS - 1)   // of a filter row, as it is moved on for each shift
#define ROW_PIXELS (UP(LAYER_W, SHIFTS) * SHIFTS)
#define IMAGE_ROWS ((H_OUT - 1) * ROW_PIXELS / SHIFTS + UP(W_OUT, SHIFTS))
#define IMAGE_TILES UP(IMAGE_ROWS, 64)
#define BAND_TILES (BAND ? BAND : IMAGE_TILES)
#define BANDS UP(IMAGE_TILES, BAND_TILES)
#define TILES (IMAGES * BAND_TILES)
#define OWN_TILES UP(TILES, WARPGROUPS)
#define SUMS (OWN_TILES * COLUMNS / 2)
#define REGISTERS (SUMS + (LOADERS ? 32 : 64))

// Units of x: every SHIFTS-th pixel of a band and of what its filters reach; the others lie in other banks.
#define REACH (BAND_TILES * 64 + ((LAYER_K - 1) * ROW_PIXELS + TERMS - 1) / SHIFTS)
#define PITCH (SHIFTS == 1 ? REACH : UP(REACH - 8 / SHIFTS, 8) * 8 + 8 / SHIFTS)
#define X_UNITS (IMAGES * C_UNITS * SHIFTS * PITCH)
#define W_PITCH (C_UNITS * COLUMNS + 1)   // units of a filter's term; neighbouring terms lie in other banks
#define W_UNITS (LAYER_K * TERMS * W_PITCH)
#define W_ITEMS (TILE_M * C_UNITS * FILTER)
#define KEEP_W (WEIGHTS == WEIGHTS_RESIDENT)
#define W_SETS (KEEP_W ? CHUNKS : BUFFERS)
#define BATCH(items) LEAST(UP(items, STAGERS), ASKED * 8 / UNIT_C)   // units that a thread asks for at once
#define ROWS (WRITES == WRITES_ROWS)
#define ROW_CHANNELS LEAST(TILE_M, 32 / SHIFTS)
#define ROW_PITCH (68 * SHIFTS)   // words of a channel; neighbouring channels lie in other banks
#define WRITTEN(group) (1 + 2 * BUFFERS + (group))   // its barrier
#define ROW_UNITS (ROWS ? WARPGROUPS * ROW_CHANNELS * ROW_PITCH / 4 : 0)
#define SHARED_UNITS (PARTS * (BUFFERS * X_UNITS + W_SETS * W_UNITS) + ROW_UNITS)

REQUIRE(WARPGROUP_PRODUCTS, "only sm_90a multiplies by warpgroups");
REQUIRE(THREADS <= MAX_THREADS, "a block has more threads than the device allows");
REQUIRE(LOADERS < THREADS, "some threads have to multiply");
REQUIRE(LOADERS == 0 || BUFFERS > 1, "what loaders fetch needs a buffer of its own");
REQUIRE(LOADERS > 0 || BUFFERS <= 2, "more than two buffers serve loaders alone");
REQUIRE(!ROWS || TILE_M % ROW_CHANNELS == 0, "channels are written in equal parts");
REQUIRE(CHANNELS < LAYER_C, "this many channels are all of them");
REQUIRE(CHANNELS % (2 * UNIT_C) == 0, "a part of the channels is less than a product takes");
REQUIRE(C_UNITS * UNIT_C * CHUNKS <= 2 * LAYER_C, "more than half of the channels multiplied would hang over");
REQUIRE(SHIFTS == 1 || COLUMNS <= 64, "a product this wide gains nothing by shifts");
REQUIRE(6 * UP(W_OUT, SHIFTS) * SHIFTS <= 7 * W_OUT, "more than a seventh of the shifted pixels would hang over");
REQUIRE(TILE_M * GROUPS * 6 <= UP(LAYER_M, 8) * 8 * 7, "more than a seventh of the channels computed would hang over");
REQUIRE(TILE_M >= 128 || GROUPS <= 8, "more than 8 blocks would stage the same x for few channels each");
REQUIRE(BAND < IMAGE_TILES, "a band is less than an image");
REQUIRE(BAND == 0 || IMAGES == 1, "a block owns bands of one image, or whole images");
REQUIRE(BAND == 0 || 6 * BANDS * BAND_TILES <= 7 * IMAGE_TILES,
        "more than a seventh of the pixels computed would hang over");
REQUIRE(6 * OWN_TILES * WARPGROUPS <= 7 * TILES, "more than a seventh of the warpgroups' turns would be empty");
REQUIRE(REGISTERS <= MAX_REGISTERS, "the warpgroup's tiles do not fit its registers");
REQUIRE(REGISTERS * THREADS * MIN_BLOCKS <= BLOCK_REGISTERS, "this many blocks do not fit the registers at once");
REQUIRE(MIN_BLOCKS == 1 || 5 * REGISTERS * THREADS * MIN_BLOCKS > 2 * BLOCK_REGISTERS,
        "the warpgroup's tiles are too small for a limit of registers to matter");
REQUIRE(KEEP_W || CHUNKS > 1, "filters that are staged once stay resident");
REQUIRE(BUFFERS <= SEQUENCE * CHUNKS, "more buffers than a block has steps");
REQUIRE(SHARED_UNITS * 16 <= MAX_SHARED_BYTES, "the staged x and w do not fit shared memory");
