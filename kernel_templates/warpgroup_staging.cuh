// warpgroup: x and w on their way to shared memory, as units of 16 bytes: some channels of a pixel, or of a filter's term.

// Round a unit's channels and keep them, the smaller parts `part` units on.
__device__ __forceinline__ void keep(uint4 *to, int part, const float *c)
{
#if OPERANDS == OPERANDS_TF32
    *to = make_uint4(to_tf32(c[0]), to_tf32(c[1]), to_tf32(c[2]), to_tf32(c[3]));
#else
    *to = make_uint4(to_pair(c[0], c[1]), to_pair(c[2], c[3]), to_pair(c[4], c[5]), to_pair(c[6], c[7]));
#endif
#if OPERANDS == OPERANDS_FP16X3
    to[part] = make_uint4(to_pair(lost(c[0]), lost(c[1])), to_pair(lost(c[2]), lost(c[3])),
                          to_pair(lost(c[4]), lost(c[5])), to_pair(lost(c[6]), lost(c[7])));
#endif
}

// `thread` of `threads` does its share of these.
// Channels c_first on of the images from x on, as [image][unit of channels][pixel]. pixels: that there are in an image.
__device__ __forceinline__ void stage_x(uint4 *to, const float *x, int c_first, int images, int pixels, unsigned thread)
{
    UNROLLED(1)
    for (unsigned begin = thread; begin < X_UNITS; begin += BATCH(X_UNITS) * STAGERS) {
        float words[BATCH(X_UNITS)][UNIT_C] = {};
        UNROLLED(BATCH(X_UNITS))
        for (int j = 0; j < BATCH(X_UNITS); j++) {
            const unsigned i = begin + j * STAGERS, pixel = i % PIXELS, unit = i / PIXELS % C_UNITS;
            const unsigned image = i / PIXELS / C_UNITS;
            const int c = c_first + unit * UNIT_C;
            if (i < X_UNITS && (int)pixel < pixels && (int)image < images)
                UNROLLED(UNIT_C)
                for (int k = 0; k < UNIT_C; k++)
                    if (HAS_CHANNEL(c + k))
                        words[j][k] = x[(image * LAYER_C + c + k) * LAYER_H * LAYER_W + pixel];
        }
        UNROLLED(BATCH(X_UNITS))
        for (int j = 0; j < BATCH(X_UNITS); j++)
            if (begin + j * STAGERS < X_UNITS) keep(to + begin + j * STAGERS, X_UNITS, words[j]);
    }
}

// Channels c_first on of the filters from w on, as [term][unit of channels][filter].
__device__ __forceinline__ void stage_w(uint4 *to, const float *w, int c_first, int filters, unsigned thread, unsigned threads)
{
    UNROLLED(1)
    for (unsigned begin = thread; begin < FILTER * C_UNITS * TILE_M; begin += BATCH(FILTER * C_UNITS * TILE_M) * threads) {
        float words[BATCH(FILTER * C_UNITS * TILE_M)][UNIT_C] = {};
#define LOCATE_W(j)                                                                                      \
    const unsigned i = begin + (j) * threads, term = i % FILTER, unit = i / FILTER % C_UNITS;            \
    const unsigned m = i / FILTER / C_UNITS
        UNROLLED(BATCH(FILTER * C_UNITS * TILE_M))
        for (int j = 0; j < BATCH(FILTER * C_UNITS * TILE_M); j++) {
            LOCATE_W(j);
            const int c = c_first + unit * UNIT_C;
            if (m < TILE_M && (int)m < filters)
                UNROLLED(UNIT_C)
                for (int k = 0; k < UNIT_C; k++)
                    if (HAS_CHANNEL(c + k))
                        words[j][k] = w[(m * LAYER_C + c + k) * FILTER + term];
        }
        UNROLLED(BATCH(FILTER * C_UNITS * TILE_M))
        for (int j = 0; j < BATCH(FILTER * C_UNITS * TILE_M); j++) {
            LOCATE_W(j);
            if (m < TILE_M) keep(to + term * W_PITCH + unit * TILE_M + m, W_UNITS, words[j]);
        }
    }
}
