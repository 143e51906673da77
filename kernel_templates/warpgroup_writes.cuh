// warpgroup: sums on their way to y.

// Where a pixel of an image, counted through the rows of x, lies in y; false where there is no output.
__device__ __forceinline__ bool locate(unsigned pixel, int *at)
{
    const unsigned row = pixel / LAYER_W, column = pixel % LAYER_W;
    *at = row * W_OUT + column;
    return row < H_OUT && column < W_OUT;
}

#define IS_FILTER(m) (LAYER_M % TILE_M == 0 || (m) < filters)

// Write a tile of a warpgroup, of which lane (g, t) of a warp has pixels g and g + 8 of the warp's 16 and channels 2t and
// 2t + 1 of every 8. y: the first channel of an image. filters: that there are from it on.
__device__ __forceinline__ void write_tile(float *y, const float *sums, float *rows, int pixel, int filters, int group)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32 % 4;
    int at[2];
    bool there[2];
#if ROWS
    rows += group * ROW_CHANNELS * ROW_PITCH;
    UNROLLED(2)
    for (int half = 0; half < 2; half++)
        there[half] = locate(pixel + half * 32 + lane, &at[half]);
    UNROLLED(TILE_M / ROW_CHANNELS)
    for (int first = 0; first < TILE_M; first += ROW_CHANNELS) {
        BARRIER_WAIT(WRITTEN(group), 128);   // what was here has been read
        UNROLLED(ROW_CHANNELS / 4)
        for (int n = 0; n < ROW_CHANNELS / 4; n++)
            UNROLLED(2)
            for (int half = 0; half < 2; half++)
                rows[(n / 2 * 8 + n % 2 + 2 * t) * ROW_PITCH + warp * 16 + half * 8 + g] =
                    sums[first * 2 / 4 + n / 2 * 4 + half * 2 + n % 2];
        BARRIER_WAIT(WRITTEN(group), 128);
        UNROLLED(UP(ROW_CHANNELS, 4))
        for (int n = 0; n < ROW_CHANNELS; n += 4)
            UNROLLED(2)
            for (int half = 0; half < 2; half++)
                if (there[half] && IS_FILTER(first + n + warp))
                    STREAM(1, &y[(first + n + warp) * H_OUT * W_OUT + at[half]],
                           &rows[(n + warp) * ROW_PITCH + half * 32 + lane]);
    }
#else
    UNROLLED(2)
    for (int half = 0; half < 2; half++) {
        there[half] = locate(pixel + warp * 16 + half * 8 + g, &at[half]);
        float *const target = y + 2 * t * H_OUT * W_OUT + at[half];
        UNROLLED(TILE_M / 4)
        for (int n = 0; n < TILE_M / 4; n++) {
            const int m = n / 2 * 8 + n % 2;
            if (there[half] && IS_FILTER(m + 2 * t))
                STREAM(1, &target[m * H_OUT * W_OUT], &sums[n / 2 * 4 + half * 2 + n % 2]);
        }
    }
#endif
}
