// warpgroup: the sizes that follow from layer and parameters, named as in warpgroup.py, and what they must fulfil.

#define UP(a, b) (((a) + (b) - 1) / (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define H_OUT (LAYER_H - LAYER_K + 1)
#define W_OUT (LAYER_W - LAYER_K + 1)
#define FILTER (LAYER_K * LAYER_K)
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

// Pixels are counted through the rows of x, those at a row's end too, where no output is: so a filter's term is a step
// of p * LAYER_W + q pixels for all of them.
#define IMAGE_PIXELS ((H_OUT - 1) * LAYER_W + W_OUT)
#define IMAGE_TILES UP(IMAGE_PIXELS, 64)
#define BAND_TILES (BAND ? BAND : IMAGE_TILES)
#define BANDS UP(IMAGE_TILES, BAND_TILES)
#define TILES (IMAGES * BAND_TILES)
#define OWN_TILES UP(TILES, WARPGROUPS)
#define PIXELS (BAND_TILES * 64 + (LAYER_K - 1) * (LAYER_W + 1))   // of x that a band needs
#define SUMS (OWN_TILES * TILE_M / 2)

#define REGISTERS (SUMS + (LOADERS ? 32 : 64))

#define X_UNITS (IMAGES * C_UNITS * PIXELS)
#define W_PITCH (C_UNITS * TILE_M + 1)   // units of a filter's term; neighbouring terms lie in other banks
#define W_UNITS (FILTER * W_PITCH)
#define KEEP_W (WEIGHTS == WEIGHTS_RESIDENT)
#define W_SETS (KEEP_W ? CHUNKS : BUFFERS)
#define BATCH(items) LEAST(UP(items, STAGERS), ASKED * 8 / UNIT_C)   // units that a thread asks for at once
#define ROWS (WRITES == WRITES_ROWS)
#define ROW_CHANNELS LEAST(TILE_M, 32)
#define ROW_PITCH (64 + 4)   // pixels of a channel; neighbouring channels lie in other banks
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
REQUIRE(C_UNITS * UNIT_C * CHUNKS <= 2 * LAYER_C, "more than half of the channels multiplied would hang over");
REQUIRE(TILE_M * GROUPS * 6 <= UP(LAYER_M, 8) * 8 * 7, "more than a seventh of the channels computed would hang over");
REQUIRE(BAND < IMAGE_TILES, "a band is less than an image");
REQUIRE(BAND == 0 || IMAGES == 1, "a block owns bands of one image, or whole images");
REQUIRE(BAND == 0 || 6 * BANDS * BAND_TILES <= 7 * IMAGE_TILES,
        "more than a seventh of the pixels computed would hang over");
REQUIRE(6 * OWN_TILES * WARPGROUPS <= 7 * TILES, "more than a seventh of the warpgroups' turns would be empty");
REQUIRE(REGISTERS <= MAX_REGISTERS, "the warpgroup's tiles do not fit its registers");
REQUIRE(REGISTERS * THREADS * MIN_BLOCKS <= BLOCK_REGISTERS, "this many blocks do not fit the registers at once");
REQUIRE(KEEP_W || CHUNKS > 1, "filters that are staged once stay resident");
REQUIRE(BUFFERS <= SEQUENCE * CHUNKS, "more buffers than a block has steps");
REQUIRE(SHARED_UNITS * 16 <= MAX_SHARED_BYTES, "the staged x and w do not fit shared memory");
