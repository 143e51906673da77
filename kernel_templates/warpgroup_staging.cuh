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

// Channels c_first on of the images from x on, as [image][unit of channels][shift][row of the product]. first: row of the
// product that is staged first.
__device__ __forceinline__ void stage_x(uint4 *to, const float *x, int c_first, int images, int first, unsigned thread)
{
#define LOCATE_X(j)                                                                                          \
    const unsigned i = begin + (j) * STAGERS, shift = i % SHIFTS, row = i / SHIFTS % PITCH;                  \
    const unsigned unit = i / SHIFTS / PITCH % C_UNITS, image = i / SHIFTS / PITCH / C_UNITS
    UNROLLED(1)
    for (unsigned begin = thread; begin < X_UNITS; begin += BATCH(X_UNITS) * STAGERS) {
        float words[BATCH(X_UNITS)][UNIT_C] = {};
        UNROLLED(BATCH(X_UNITS))
        for (int j = 0; j < BATCH(X_UNITS); j++) {
            LOCATE_X(j);
            const unsigned pixel = (first + row) * SHIFTS + shift, h = pixel / ROW_PIXELS, at = pixel % ROW_PIXELS;
            const bool there = SHIFTS == 1 ? pixel < LAYER_H * LAYER_W : h < LAYER_H && at < LAYER_W;
            const int c = c_first + unit * UNIT_C;
            if (i < X_UNITS && there && (int)image < images)
                UNROLLED(UNIT_C)
                for (int k = 0; k < UNIT_C; k++)
                    if (HAS_CHANNEL(c + k))
                        words[j][k] = x[(image * LAYER_C + c + k) * LAYER_H * LAYER_W
                                        + (SHIFTS == 1 ? pixel : h * LAYER_W + at)];
        }
        UNROLLED(BATCH(X_UNITS))
        for (int j = 0; j < BATCH(X_UNITS); j++) {
            LOCATE_X(j);
            if (i < X_UNITS) keep(to + ((image * C_UNITS + unit) * SHIFTS + shift) * PITCH + row, X_UNITS, words[j]);
        }
    }
}

// Clear the units of w that stage_w leaves out: terms that a shifted filter does not have.
__device__ __forceinline__ void clear_w(uint4 *to)
{
    for (int i = threadIdx.x; i < PARTS * W_SETS * W_UNITS; i += THREADS)
        to[i] = make_uint4(0, 0, 0, 0);
}

// Channels c_first on of the filters from w on, as [term][unit of channels][channel, shift]; `thread` of `threads` does its
// share of them.
__device__ __forceinline__ void stage_w(uint4 *to, const float *w, int c_first, int filters, unsigned thread, unsigned threads)
{
#define LOCATE_W(j)                                                                                          \
    const unsigned i = begin + (j) * threads, term = i % FILTER, unit = i / FILTER % C_UNITS;                \
    const unsigned m = i / FILTER / C_UNITS
    UNROLLED(1)
    for (unsigned begin = thread; begin < W_ITEMS; begin += BATCH(W_ITEMS) * threads) {
        float words[BATCH(W_ITEMS)][UNIT_C] = {};
        UNROLLED(BATCH(W_ITEMS))
        for (int j = 0; j < BATCH(W_ITEMS); j++) {
            LOCATE_W(j);
            const int c = c_first + unit * UNIT_C;
            if (m < TILE_M && (int)m < filters)
                UNROLLED(UNIT_C)
                for (int k = 0; k < UNIT_C; k++)
                    if (HAS_CHANNEL(c + k))
                        words[j][k] = w[(m * LAYER_C + c + k) * FILTER + term];
        }
        UNROLLED(BATCH(W_ITEMS))
        for (int j = 0; j < BATCH(W_ITEMS); j++) {
            LOCATE_W(j);
            UNROLLED(SHIFTS)
            for (int shift = 0; m < TILE_M && shift < SHIFTS; shift++)
                keep(to + (term / LAYER_K * TERMS + term % LAYER_K + shift) * W_PITCH + unit * COLUMNS + m * SHIFTS + shift,
                     W_UNITS, words[j]);
        }
    }
}
