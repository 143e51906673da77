// channel_vector: sums, a vector of channels a pixel, become rows of y, a channel each: 4 pixels at once are turned round
// in each run of 4 channels, so that 4 words of y are written by one store.

// Of two pixels, in each run of 4 channels: the first two or the last two channels, the pixels in turn; then the first two
// or the last two of each.
#define FIRST_TURNS4(a, b) (float4)(a.s0, b.s0, a.s1, b.s1)
#define LAST_TURNS4(a, b) (float4)(a.s2, b.s2, a.s3, b.s3)
#define FIRST_HALVES4(a, b) (float4)(a.s01, b.s01)
#define LAST_HALVES4(a, b) (float4)(a.s23, b.s23)
#define FIRST_TURNS8(a, b) (float8)(FIRST_TURNS4(a.s0123, b.s0123), FIRST_TURNS4(a.s4567, b.s4567))
#define LAST_TURNS8(a, b) (float8)(LAST_TURNS4(a.s0123, b.s0123), LAST_TURNS4(a.s4567, b.s4567))
#define FIRST_HALVES8(a, b) (float8)(a.s01, b.s01, a.s45, b.s45)
#define LAST_HALVES8(a, b) (float8)(a.s23, b.s23, a.s67, b.s67)
#define FIRST_TURNS16(a, b) (float16)(FIRST_TURNS8(a.s01234567, b.s01234567), FIRST_TURNS8(a.s89abcdef, b.s89abcdef))
#define LAST_TURNS16(a, b) (float16)(LAST_TURNS8(a.s01234567, b.s01234567), LAST_TURNS8(a.s89abcdef, b.s89abcdef))
#define FIRST_HALVES16(a, b) (float16)(FIRST_HALVES8(a.s01234567, b.s01234567), FIRST_HALVES8(a.s89abcdef, b.s89abcdef))
#define LAST_HALVES16(a, b) (float16)(LAST_HALVES8(a.s01234567, b.s01234567), LAST_HALVES8(a.s89abcdef, b.s89abcdef))
#define FIRST_TURNS(a, b) JOINED(FIRST_TURNS, VECTOR)(a, b)
#define LAST_TURNS(a, b) JOINED(LAST_TURNS, VECTOR)(a, b)
#define FIRST_HALVES(a, b) JOINED(FIRST_HALVES, VECTOR)(a, b)
#define LAST_HALVES(a, b) JOINED(LAST_HALVES, VECTOR)(a, b)

// Write 4 pixels of the channels that there are.
__device__ __forceinline__ void write_four(GLOBAL float *y, const lanes *sums, int filters)
{
    const lanes first_01 = FIRST_TURNS(sums[0], sums[1]), first_23 = FIRST_TURNS(sums[2], sums[3]);
    const lanes last_01 = LAST_TURNS(sums[0], sums[1]), last_23 = LAST_TURNS(sums[2], sums[3]);
    float pixels[4 * VECTOR];   // a run of 4 pixels for every channel: 0, 4, 8, 12, then 1, 5, ...
    STORE_WORDS(VECTOR, pixels, FIRST_HALVES(first_01, first_23));
    STORE_WORDS(VECTOR, pixels + VECTOR, LAST_HALVES(first_01, first_23));
    STORE_WORDS(VECTOR, pixels + 2 * VECTOR, FIRST_HALVES(last_01, last_23));
    STORE_WORDS(VECTOR, pixels + 3 * VECTOR, LAST_HALVES(last_01, last_23));
    UNROLLED(VECTOR)
    for (int m = 0; m < VECTOR; m++)
        if (m < filters)
            COPY4(y + m * H_OUT * W_OUT, pixels + m % 4 * VECTOR + m / 4 * 4);
}

// Write a row of the tile, for the channels of one vector.
__device__ __forceinline__ void write_row(GLOBAL float *y, const lanes *sums, int filters)
{
    UNROLLED(ROW_FOURS)
    for (int i = 0; i + 4 <= TILE_W; i += 4)
        write_four(y + i, sums + i, filters);
    UNROLLED(4)
    for (int i = TILE_W / 4 * 4; i < TILE_W; i++) {
        float channels[VECTOR];
        STORE_WORDS(VECTOR, channels, sums[i]);
        UNROLLED(VECTOR)
        for (int m = 0; m < VECTOR; m++)
            if (m < filters)
                y[m * H_OUT * W_OUT + i] = channels[m];
    }
}
