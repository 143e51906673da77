// tensor_core: a task's products.

// Where a column of the block begins: its image, and row and column in there. Past the last: the first.
__device__ __forceinline__ void locate_column(unsigned column, unsigned *image, unsigned *row, unsigned *at)
{
    column = column < COLUMNS ? column : 0;
    *image = column / (ROW_TILES * ROW_COLUMNS);
    *row = column / ROW_COLUMNS % ROW_TILES * TILE_ROWS;
    *at = column % ROW_COLUMNS * PIXELS_PER_ROW;
}

// The lane's words of w for filter row p and 8 channels n of a step; w: the group's first fragment.
__device__ __forceinline__ void read_w(unsigned *to, const unsigned *w, int step, int p, int n)
{
    words<FRAGMENT>(to) = words<FRAGMENT>(w + (((step * LAYER_K + p) * BLOCK_N_TILES + n) * 32 + threadIdx.x % 32) * FRAGMENT);
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
                    if constexpr (MMA_TYPE == MMA_TYPE_TF32X3) {
                        a[j][row][0][i] = larger(__uint_as_float(*word), 0.0f);
                        a[j][row][1][i] = smaller(__uint_as_float(*word), 0.0f);
                    } else {
                        UNROLLED(PARTS)
                        for (int part = 0; part < PARTS; part++)
                            a[j][row][part][i] = word[part * PLANE];
                        if constexpr (SWAP_X) a[j][row][1][i] = __byte_perm(*word, 0, 0x1032);
                    }
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
