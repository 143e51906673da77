// warpgroup: sums on their way to y.

// Where a pixel of an image, counted through the rows of x, lies in y; false where there is no output.
__device__ __forceinline__ bool locate(unsigned pixel, int *at)
{
    const unsigned row = pixel / ROW_PIXELS, column = pixel % ROW_PIXELS;
    *at = row * W_OUT + column;
    return row < H_OUT && column < W_OUT;
}

// The place of a lane's sum: of columns 2t + n of an octet of them, of row g or g + 8.
__device__ __forceinline__ constexpr int place_of(int octet, int half, int n) { return octet * 4 + half * 2 + n; }

// A lane (g, t) of a warp has of a tile the rows g and g + 8 of the warp's 16, and columns 2t and 2t + 1 of every 8: (channel,
// shift). y: the first channel of an image. row: of the product, the tile's first. filters: that there are from the first on.

// Write a tile by way of shared memory, 32 pixels of a channel at a time.
__device__ __forceinline__ void write_rows(float *y, const float *sums, float *rows, int row, int filters, int group)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32 % 4;
    const int lane_m = 2 * t / PIXELS_PER_ROW, lane_shift = 2 * t % PIXELS_PER_ROW;
    int at[2 * PIXELS_PER_ROW];
    bool there[2 * PIXELS_PER_ROW];
    rows += group * ROW_CHANNELS * ROW_PITCH;
    UNROLLED(2 * PIXELS_PER_ROW)
    for (int part = 0; part < 2 * PIXELS_PER_ROW; part++)
        there[part] = locate(row * PIXELS_PER_ROW + part * 32 + lane, &at[part]);
    UNROLLED(TILE_M / ROW_CHANNELS)
    for (int first = 0; first < TILE_M; first += ROW_CHANNELS) {
        barrier_wait(WRITTEN + group, 128);   // what was here has been read
        UNROLLED(ROW_CHANNELS * PIXELS_PER_ROW / 8)
        for (int octet = 0; octet < ROW_CHANNELS * PIXELS_PER_ROW / 8; octet++)
            UNROLLED(2)
            for (int half = 0; half < 2; half++) {
                float *const target = rows + (octet * 8 / PIXELS_PER_ROW + lane_m) * ROW_PITCH
                                      + (warp * 16 + half * 8 + g) * PIXELS_PER_ROW + lane_shift;
                const float *const source = &sums[place_of(first * PIXELS_PER_ROW / 8 + octet, half, 0)];
                if constexpr (PIXELS_PER_ROW > 1) words<2>(target) = words<2>(source);
                else {
                    target[0] = source[0];
                    target[ROW_PITCH] = source[1];
                }
            }
        barrier_wait(WRITTEN + group, 128);
        UNROLLED(ROW_FOURS)
        for (int n = 0; n < ROW_CHANNELS; n += 4)
            UNROLLED(2 * PIXELS_PER_ROW)
            for (int part = 0; part < 2 * PIXELS_PER_ROW; part++)
                if (there[part] && (!CHANNELS_OVER || first + n + warp < filters))
                    stream<1>(&y[(first + n + warp) * H_OUT * W_OUT + at[part]],
                           &rows[(n + warp) * ROW_PITCH + part * 32 + lane]);
    }
}

// Write a tile as lanes have it, 8 pixels of 4 channels at a time.
__device__ __forceinline__ void write_lanes(float *y, const float *sums, int row, int filters)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32 % 4;
    const int lane_m = 2 * t / PIXELS_PER_ROW, lane_shift = 2 * t % PIXELS_PER_ROW;
    UNROLLED(2)
    for (int half = 0; half < 2; half++) {
        int at[2];
        bool there[2];
        UNROLLED(2)
        for (int n = 0; n < 2; n++)
            there[n] = locate((row + warp * 16 + half * 8 + g) * PIXELS_PER_ROW + (PIXELS_PER_ROW > 1 ? lane_shift + n : 0), &at[n]);
        UNROLLED(COLUMNS / 8)
        for (int octet = 0; octet < COLUMNS / 8; octet++)
            UNROLLED(2)
            for (int n = 0; n < 2; n++) {
                const int m = octet * 8 / PIXELS_PER_ROW + lane_m + (PIXELS_PER_ROW > 1 ? 0 : n);
                if (there[n] && (!CHANNELS_OVER || m < filters)) stream<1>(&y[m * H_OUT * W_OUT + at[n]], &sums[place_of(octet, half, n)]);
            }
    }
}

__device__ __forceinline__ void write_tile(float *y, const float *sums, float *rows, int row, int filters, int group)
{
    if constexpr (EPILOGUE == EPILOGUE_SHARED) write_rows(y, sums, rows, row, filters, group);
    else write_lanes(y, sums, row, filters);
}
