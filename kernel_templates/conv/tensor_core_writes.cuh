// tensor_core: sums on their way to y.

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

// The place of a lane's sum: of its octet j of columns, row h, and column n of the product.
__device__ __forceinline__ constexpr int place_of(int j, int h, int n)
{
    return ((j / 2 * TILE_ROWS + h) * N_TILES + n / 2) * 4 + j % 2 * 2 + n % 2;
}

// Write a task's sums where a row of the product is several pixels, so that a lane has neighbouring ones.
__device__ __forceinline__ void write_neighbours(float *y, float *sums, int first, int images, int rows, int filters)
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned lane_m = t * 2 / PIXELS_PER_ROW, lane_shift = t * 2 % PIXELS_PER_ROW;
    unsigned at;
    int height;
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
                    const int m = n * 8 / PIXELS_PER_ROW;
                    if ((ROWS_OVER ? h < height : height > 0) && (!CHANNELS_OVER || (int)(m + lane_m) < filters) && (BEYOND == 0 || at + lane_shift + i < W_OUT))
                        stream<STORED>(&target[(m * H_OUT + h) * W_OUT + i], &sums[place_of(j, h, 2 * n + i)]);
                }
    }
}

// Write a task's sums where a row of the product is a pixel: vectors that a lane has, or words after an exchange of them.
__device__ __forceinline__ void write_rows(float *y, float *sums, int first, int images, int rows, int filters)
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned lane_m = NEIGHBOURS ? t * 2 : t / OCTETS * OCTETS * 2;
    unsigned at;
    int height;
    float *const target = locate_y(y, first + (NEIGHBOURS ? g * OCTETS : t % OCTETS * 8 + g), images, rows, &at, &height)
                            + lane_m * H_OUT * W_OUT;
    UNROLLED(TILE_ROWS)
    for (int h = 0; h < TILE_ROWS; h++)
        UNROLLED(2 * N_TILES)
        for (int n = 0; n < 2 * N_TILES; n++) {   // channels 2t and 2t + 1 of every 8, before lanes exchange
            float values[OCTETS];
            UNROLLED(OCTETS)
            for (int j = 0; j < OCTETS; j++)
                values[j] = sums[place_of(j, h, n)];
            if constexpr (!NEIGHBOURS) exchange(values, t);
            UNROLLED(NEIGHBOURS ? 1 : OCTETS)
            for (int j = 0; j < (NEIGHBOURS ? 1 : OCTETS); j++) {
                const int m = n / 2 * 8 + n % 2 + j * 2;
                if ((ROWS_OVER ? h < height : height > 0) && (!CHANNELS_OVER || (int)(m + lane_m) < filters))
                    stream<NEIGHBOURS ? OCTETS : 1>(&target[(m * H_OUT + h) * W_OUT], &values[j]);
            }
        }
}

// Write a task's sums to y, the first channel of the group in the set of images.
__device__ __forceinline__ void write_task(float *y, float *sums, int first, int images, int rows, int filters)
{
    if constexpr (PIXELS_PER_ROW > 1) write_neighbours(y, sums, first, images, rows, filters);
    else write_rows(y, sums, first, images, rows, filters);
}

// Keep a task's sums in the ring until their rows are whole. filters: channels that there are.
__device__ __forceinline__ void gather(float *ring, const float *sums, int first, int filters)
{
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int lane_m = t * 2 / PIXELS_PER_ROW, lane_shift = t * 2 % PIXELS_PER_ROW;
    UNROLLED(OCTETS)
    for (int j = 0; j < OCTETS; j++) {
        const int column = first + j * 8 + g, at = column % ROW_COLUMNS * PIXELS_PER_ROW + lane_shift;
        float *const target = ring + column / ROW_COLUMNS % RING * ROW_TILE + lane_m * RING_PITCH + at;
        UNROLLED(2 * N_TILES / STORED)
        for (int n = 0; n < 2 * N_TILES; n += STORED) {
            const int m = n / 2 * 8 / PIXELS_PER_ROW + (PIXELS_PER_ROW == 1 ? n % 2 : 0), shift = PIXELS_PER_ROW == 1 ? 0 : n % 2;
            UNROLLED(TILE_ROWS)
            for (int h = 0; h < TILE_ROWS; h++)
                if (column < COLUMNS && (!CHANNELS_OVER || (int)(m + lane_m) < filters) && (BEYOND == 0 || at + shift < W_OUT))
                    COPY(STORED, &target[m * RING_PITCH + h * W_OUT + shift], &sums[place_of(j, h, n)]);
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
                bulk_store(y + (((size_t)image * LAYER_M + m) * H_OUT + row) * W_OUT,
                           ring + m * RING_PITCH + tile % RING * ROW_TILE, height * W_OUT * 4);
        }
    bulk_commit();
}

// Add the cluster's sums up in its first block, by way of the shared memory where x and w were; true for that block.
__device__ __forceinline__ bool add_up(float *sums, float *shared)
{
    const int block = blockIdx.z % SPLIT_K;
    float *const own = shared + threadIdx.x;
    __syncthreads();
    for (int j = 0; block > 0 && j < SUMS; j++)
        own[j * THREADS] = sums[j];
    cluster_sync();
    UNROLLED(1)
    for (int other = 1; block == 0 && other < SPLIT_K; other++)
        UNROLLED(SUMS)
        for (int j = 0; j < SUMS; j++)
            sums[j] += cluster_load(shared_address(own + j * THREADS), other);
    cluster_sync();   // a block's shared memory lasts until it has been read
    return block == 0;
}
