// warpgroup: x and w on their way to shared memory, as units of 16 bytes: some channels of a pixel, or of a filter's term.

constexpr Mma MMA = MMA_TYPE == MMA_TYPE_TF32 ? Mma::tf32 : MMA_TYPE == MMA_TYPE_BF16 ? Mma::bf16 : Mma::fp16;

__device__ __forceinline__ unsigned pair(float low, float high) { return to_pair<MMA>(low, high); }

// Round a unit's channels and keep them, the smaller parts `part` units on.
__device__ __forceinline__ void keep(uint4 *to, int part, const float *c)
{
    if constexpr (MMA == Mma::tf32) *to = make_uint4(to_tf32(c[0]), to_tf32(c[1]), to_tf32(c[2]), to_tf32(c[3]));
    else *to = make_uint4(pair(c[0], c[1]), pair(c[2], c[3]), pair(c[4], c[5]), pair(c[6], c[7]));
    if constexpr (PARTS == 2)
        to[part] = make_uint4(pair(lost(c[0]), lost(c[1])), pair(lost(c[2]), lost(c[3])),
                              pair(lost(c[4]), lost(c[5])), pair(lost(c[6]), lost(c[7])));
}

// Channels c_first on of the images from x on, as [image][unit of channels][shift][row of the product]. first: row of the
// product that is staged first.
__device__ __forceinline__ void stage_x(uint4 *to, const float *x, int c_first, int images, int first, unsigned thread)
{
    UNROLLED(1)
    for (unsigned begin = thread; begin < X_UNITS; begin += X_BATCH * STAGERS) {
        float words[X_BATCH][UNIT_C] = {};
        UNROLLED(X_BATCH)
        for (int j = 0; j < X_BATCH; j++) {
            const unsigned i = begin + j * STAGERS, shift = i % PIXELS_PER_ROW, row = i / PIXELS_PER_ROW % PITCH;
            const unsigned unit = i / PIXELS_PER_ROW / PITCH % C_UNITS, image = i / PIXELS_PER_ROW / PITCH / C_UNITS;
            const unsigned pixel = (first + row) * PIXELS_PER_ROW + shift, h = pixel / ROW_PIXELS, at = pixel % ROW_PIXELS;
            const bool there = PIXELS_PER_ROW == 1 ? pixel < LAYER_H * LAYER_W : h < LAYER_H && at < LAYER_W;
            const int c = c_first + unit * UNIT_C;
            if (i < X_UNITS && there && (int)image < images)
                UNROLLED(UNIT_C)
                for (int k = 0; k < UNIT_C; k++)
                    if (WHOLE_UNITS || c + k < LAYER_C)
                        words[j][k] = x[(image * LAYER_C + c + k) * LAYER_H * LAYER_W
                                        + (PIXELS_PER_ROW == 1 ? pixel : h * LAYER_W + at)];
        }
        UNROLLED(X_BATCH)
        for (int j = 0; j < X_BATCH; j++) {
            const unsigned i = begin + j * STAGERS, shift = i % PIXELS_PER_ROW, row = i / PIXELS_PER_ROW % PITCH;
            const unsigned unit = i / PIXELS_PER_ROW / PITCH % C_UNITS, image = i / PIXELS_PER_ROW / PITCH / C_UNITS;
            if (i < X_UNITS) keep(to + ((image * C_UNITS + unit) * PIXELS_PER_ROW + shift) * PITCH + row, X_UNITS, words[j]);
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
    UNROLLED(1)
    for (unsigned begin = thread; begin < W_ITEMS; begin += W_BATCH * threads) {
        float words[W_BATCH][UNIT_C] = {};
        UNROLLED(W_BATCH)
        for (int j = 0; j < W_BATCH; j++) {
            const unsigned i = begin + j * threads, term = i % FILTER, unit = i / FILTER % C_UNITS;
            const unsigned m = i / FILTER / C_UNITS;
            const int c = c_first + unit * UNIT_C;
            if (m < TILE_M && (int)m < filters)
                UNROLLED(UNIT_C)
                for (int k = 0; k < UNIT_C; k++)
                    if (WHOLE_UNITS || c + k < LAYER_C)
                        words[j][k] = w[(m * LAYER_C + c + k) * FILTER + term];
        }
        UNROLLED(W_BATCH)
        for (int j = 0; j < W_BATCH; j++) {
            const unsigned i = begin + j * threads, term = i % FILTER, unit = i / FILTER % C_UNITS;
            const unsigned m = i / FILTER / C_UNITS;
            UNROLLED(PIXELS_PER_ROW)
            for (int shift = 0; m < TILE_M && shift < PIXELS_PER_ROW; shift++)
                keep(to + (term / LAYER_K * TERMS + term % LAYER_K + shift) * W_PITCH + unit * COLUMNS + m * PIXELS_PER_ROW + shift,
                     W_UNITS, words[j]);
        }
    }
}
